//! The table that rows are moved into.

use std::slice;

use relay::{Case, Failure, Name, TableName};

use super::{
    column::{Column, ColumnKind},
    session::{Session, check_row_security, number, text},
    settings::RetentionSettings,
};
use crate::postgres::{
    Runs, Touched, quote_identifier, quote_literal, quote_table, refuse_foreign_code,
};

/// The table, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Archive {
    pub(super) table: TableName,
    /// The columns of a row that are copied, as a statement names them.
    pub(super) columns: Vec<String>,
}

/// Looks for the archive of `outbox`, and checks that it takes the outbox's rows whole.
///
/// # Errors
/// It does not exist, lacks a column, is unlogged, may not be written to, or is published.
pub(super) async fn find(
    session: Session<'_>,
    settings: &RetentionSettings,
    outbox: &TableName,
    columns: &[Column],
) -> Result<Archive, Failure> {
    let table = settings.section.archive_table.clone().unwrap_or_else(|| TableName {
        schema: outbox.schema.clone(),
        name: format!("{}_archive", outbox.name),
    });
    let only = Touched::Tables(slice::from_ref(&table));
    refuse_foreign_code(session.client, only, Runs::Inserts).await?;
    let found = described(session, &table).await?;
    let refuse = |what: String, statements: String| {
        Err(Failure::of(Case::RetentionArchive, what).naming(Name::Statements, statements))
    };
    let (quoted, role) = (quote_table(&table), quote_identifier(&session.backend.role));
    let grant = format!("grant insert on {quoted} to {role}");
    let Some(found) = found else {
        let like = format!("create table {quoted} (like {})", quote_table(outbox));
        return refuse(format!("the archive {table} does not exist"), format!("{like}; {grant}"));
    };
    let (kept, missing): (Vec<&Column>, Vec<&Column>) =
        columns.iter().partition(|column| found.columns.contains(&column.name));
    // The archive may generate them by itself.
    let is_ordinary = |column: &&Column| column.kind == ColumnKind::Ordinary;
    let missing: Vec<&Column> = missing.into_iter().filter(is_ordinary).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|column| column.name.as_str()).collect();
        let add: Vec<String> = missing
            .iter()
            .map(|column| {
                format!("add column {} {}", quote_identifier(&column.name), column.sql_type)
            })
            .collect();
        return refuse(
            format!("the archive {table} lacks columns of {outbox}: {}", names.join(", ")),
            format!("alter table {quoted} {}", add.join(", ")),
        );
    }
    if let Some(unlogged) = &found.unlogged {
        return refuse(
            format!("the archive {unlogged} is unlogged, and empty after a crash of the server"),
            format!("alter table {} set logged", quote_table(unlogged)),
        );
    }
    if found.inserts == Inserts::Forbidden {
        return refuse(format!("role {role} may not insert into the archive {table}"), grant);
    }
    // Its policies may refuse a row, too.
    check_row_security(session, found.oid).await?;
    if is_published(session, settings, &table).await? {
        let publication = quote_identifier(&settings.publication);
        return refuse(
            format!("the archive {table} is published, so its rows would be delivered again"),
            format!(
                "alter publication {publication} drop table {quoted}, or name an archive in \
                     another schema by retention.archive_table"
            ),
        );
    }
    let columns = kept.iter().map(|column| quote_identifier(&column.name)).collect();
    Ok(Archive { table, columns })
}

struct Described {
    oid: u32,
    columns: Vec<String>,
    inserts: Inserts,
    /// The table itself, or one of its partitions.
    unlogged: Option<TableName>,
}

/// What becomes of rows that the role inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inserts {
    Taken,
    /// The role lacks the privilege.
    Forbidden,
}

async fn described(session: Session<'_>, table: &TableName) -> Result<Option<Described>, Failure> {
    let rows = session
        .rows(&format!(
            "select a.attname, has_schema_privilege(n.oid, 'usage') \
               and has_table_privilege(c.oid, 'insert'), c.oid, u.nspname, u.relname \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 \
               and not a.attisdropped and a.attgenerated = '' \
             left join lateral (select m.nspname, l.relname \
               from pg_class l join pg_namespace m on m.oid = l.relnamespace \
               where l.relpersistence = 'u' and (l.oid = c.oid \
                 or l.oid in (select relid from pg_partition_tree(c.oid))) limit 1) u on true \
             where n.nspname = {} and c.relname = {} and c.relkind in ('r', 'p', 'f')",
            quote_literal(&table.schema),
            quote_literal(&table.name)
        ))
        .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let inserts = if text(first, 1)? == "t" { Inserts::Taken } else { Inserts::Forbidden };
    let oid = number(first, 2)?;
    let unlogged = first.get(3).zip(first.get(4));
    let unlogged = unlogged
        .map(|(schema, name)| TableName { schema: schema.to_owned(), name: name.to_owned() });
    let columns = rows.iter().filter_map(|row| row.get(0)).map(str::to_owned).collect();
    Ok(Some(Described { oid, columns, inserts, unlogged }))
}

async fn is_published(
    session: Session<'_>,
    settings: &RetentionSettings,
    table: &TableName,
) -> Result<bool, Failure> {
    let [publication, schema, name] =
        [&settings.publication, &table.schema, &table.name].map(|name| quote_literal(name));
    let row = session
        .row(&format!(
            "select exists (select from pg_publication_tables where pubname = {publication} \
             and schemaname = {schema} and tablename = {name})"
        ))
        .await?;
    Ok(text(&row, 0)? == "t")
}
