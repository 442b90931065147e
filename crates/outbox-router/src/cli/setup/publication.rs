//! The publication: created, found to fit, or refused. Inserts that a publication does not publish
//! are lost without any error, so every way in which it can leave them out is checked.

use crate::postgres::quote_identifier;
use std::io;

use relay::{
    Case, Code, Failure, Name, Outboxes, TableName,
    source::{
        Inserts, Partitions,
        publication::{self, Watched, statements},
    },
};
use tokio_postgres::{Client, Row};

use super::TaskError;
use crate::{
    cli::sql,
    config::Config,
    monitor::catalog::{self, Sought},
};

/// The first version with row filters, column lists and publications of whole schemas.
const FILTERS_SINCE: i32 = 15_00_00;

/// The first version that can publish generated columns, of those that are stored.
const GENERATED_SINCE: i32 = 18_00_00;

/// A publication as the catalog has it.
pub(super) struct ExistingPublication {
    scope: Scope,
    /// Whether INSERTs are published.
    inserts: Inserts,
    partitions: Partitions,
    members: Vec<PublishedMember>,
}

enum Scope {
    AllTables,
    Listed,
}

/// A table of a publication.
struct PublishedMember {
    name: TableName,
    kind: String,
    /// The row filter as SQL; `None` where all rows are published.
    filter: Option<String>,
}

/// Reads a publication; `None` where it does not exist.
pub(super) async fn find(
    client: &Client,
    name: &str,
    version: i32,
) -> Result<Option<ExistingPublication>, TaskError> {
    let query =
        "select puballtables, pubinsert, pubviaroot, oid from pg_publication where pubname = $1";
    let Some(row) = client.query_opt(query, &[&name]).await? else { return Ok(None) };
    let members = client.query(&members_query(version), &[&row.try_get::<_, u32>(3)?]).await?;
    Ok(Some(ExistingPublication {
        scope: if row.try_get(0)? { Scope::AllTables } else { Scope::Listed },
        inserts: if row.try_get(1)? { Inserts::Published } else { Inserts::Withheld },
        partitions: if row.try_get(2)? { Partitions::ViaRoot } else { Partitions::ByLeaf },
        members: members.iter().map(member).collect::<Result<_, _>>()?,
    }))
}

/// Tables that the publication names, and tables of the schemas that it publishes.
fn members_query(version: i32) -> String {
    let (filter, schemas) = if version >= FILTERS_SINCE {
        (
            "pg_get_expr(r.prqual, r.prrelid)",
            " union all select n.nspname::text, c.relname::text, c.relkind::text, null \
             from pg_publication_namespace p join pg_namespace n on n.oid = p.pnnspid \
             join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p') \
             where p.pnpubid = $1",
        )
    } else {
        ("null", "")
    };
    format!(
        "select n.nspname::text, c.relname::text, c.relkind::text, {filter}::text \
         from pg_publication_rel r join pg_class c on c.oid = r.prrelid \
         join pg_namespace n on n.oid = c.relnamespace where r.prpubid = $1{schemas}"
    )
}

fn member(row: &Row) -> Result<PublishedMember, tokio_postgres::Error> {
    Ok(PublishedMember {
        name: TableName { schema: row.try_get(0)?, name: row.try_get(1)? },
        kind: row.try_get(2)?,
        filter: row.try_get(3)?,
    })
}

/// Creates the publication. It publishes generated columns only where the mapping needs one.
pub(super) async fn create(
    client: &Client,
    config: &Config,
    (tables, version): (&[TableName], i32),
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let name = config.postgres.publication.as_str();
    client.batch_execute(&sql::create_publication(name, tables)).await?;
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    writeln!(out, "publication {name}: created, inserts on {}", tables.join(", "))?;
    if version >= GENERATED_SINCE
        && let Err(failure) = check(client, config, version).await
        && failure.case == Some(Case::ColumnGenerated)
    {
        client.batch_execute(&sql::publish_generated(name)).await?;
        writeln!(out, "  with the generated columns that are stored: the mapping needs one")?;
    }
    Ok(())
}

/// Refuses tables whose columns or children would be left out. A slot that is made all the same
/// would keep WAL, and what it leaves out would have to be accepted.
///
/// # Errors
/// They would, or the catalog cannot be read.
pub(super) async fn check(client: &Client, config: &Config, version: i32) -> Result<(), Failure> {
    let (publication, outboxes) = (config.postgres.publication.as_str(), config.outboxes());
    let sought = Sought { publication, outboxes: &outboxes, remembered: None };
    let catalog = catalog::read_in_transaction(&mut &*client, version, sought).await?;
    let found = publication::compare(Watched { publication, outboxes: &outboxes }, None, &catalog);
    let left_out = [Code::PublicationLacksColumn, Code::TableInherited];
    let found = found.into_iter().find(|failure| left_out.contains(&failure.code));
    found.map_or(Ok(()), Err)
}

/// Checks a publication that exists, and adds the tables that it lacks, which it returns.
/// `outboxes` are those of the configuration, which `tables` names or, where it has none, the
/// default one.
pub(super) async fn fit<'t>(
    client: &Client,
    name: &str,
    publication: &ExistingPublication,
    tables: &'t [TableName],
    outboxes: &Outboxes,
    out: &mut (dyn io::Write + Send),
) -> Result<Vec<&'t TableName>, TaskError> {
    publication.refuse_unfit(name, tables, outboxes)?;
    if matches!(publication.scope, Scope::AllTables) {
        writeln!(out, "publication {name}: exists already, FOR ALL TABLES")?;
        writeln!(
            out,
            "  the server sends what is written to every table, and the router takes the rows of \
             the outbox tables"
        )?;
        return Ok(Vec::new());
    }
    let has = |table: &&TableName| publication.members.iter().any(|member| member.name == **table);
    let missing: Vec<&TableName> = tables.iter().filter(|table| !has(table)).collect();
    if missing.is_empty() {
        writeln!(
            out,
            "publication {name}: exists already, publishes inserts on every outbox table"
        )?;
    } else {
        client.batch_execute(&statements::add(name, &missing)).await?;
        let added: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let added = added.join(", ");
        writeln!(out, "publication {name}: exists already, {added} added")?;
        writeln!(out, "  rows written to {added} before now are not delivered")?;
    }
    for other in publication.members.iter().filter(|member| !tables.contains(&member.name)) {
        writeln!(
            out,
            "  it also publishes {}, which is no outbox of this configuration",
            other.name
        )?;
    }
    Ok(missing)
}

impl ExistingPublication {
    /// Refuses a publication that would leave out inserts.
    pub(super) fn refuse_unfit(
        &self,
        name: &str,
        tables: &[TableName],
        outboxes: &Outboxes,
    ) -> Result<(), Failure> {
        let quoted = quote_identifier(name);
        // Without a configured table, every table that is published is an outbox.
        if matches!(self.scope, Scope::AllTables) && outboxes.tables.is_empty() {
            let message = format!("the publication {name} is FOR ALL TABLES");
            return Err(Failure::of(Case::AllTables, message));
        }
        if matches!(self.inserts, Inserts::Withheld) {
            let message = format!("the publication {name} does not publish inserts");
            return Err(Failure::new(Code::PublicationLacksInsert, message)
                .naming(Name::Publication, quoted));
        }
        for member in self.members.iter().filter(|member| tables.contains(&member.name)) {
            let table = &member.name;
            if let Some(filter) = &member.filter {
                let message = format!("the publication {name} filters rows of {table}: {filter}");
                return Err(Failure::new(Code::PublicationFiltersRows, message)
                    .naming(Name::AddAgain, statements::add_again(name, table)));
            }
            if member.kind == "p" && matches!(self.partitions, Partitions::ByLeaf) {
                let message = format!("the publication {name} publishes {table} by its partitions");
                return Err(Failure::new(Code::PublicationByLeaf, message)
                    .naming(Name::Publication, quoted));
            }
        }
        Ok(())
    }
}

/// The slot exists, but not its publication: one that is created now would not exist in the WAL
/// that the slot still has to send.
pub(super) fn made_too_late(publication: &str, slot: &str) -> Failure {
    let message = format!(
        "the slot {slot} exists already, but the publication {publication} does not: created now, it \
         would not exist in the WAL that the slot still has to send"
    );
    Failure::of(Case::SlotBeforePublication, message)
}
