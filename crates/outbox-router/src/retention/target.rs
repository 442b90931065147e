//! A table from which rows are removed, and what a sweep needs of it.

use relay::{Case, Code, Failure, Name, OutboxTable, TableName, row_columns, source::TableKind};

use super::{
    archive::{self, Archive},
    column::{Column, columns},
    held::{self, HeldTable, ReliedOn},
    partitions::root::{Known, Root},
    polled,
    references::{self, Reference},
    session::{Session, check_row_security, number, text},
    settings::RetentionSettings,
    time::TimeColumn,
};
use crate::{
    config::RetentionMode,
    polling::sql::refuse_cascades,
    postgres::{Runs, Touched, quote_identifier, quote_literal, quote_table, refuse_foreign_code},
    republish::left_out::Searched,
};

/// A table, ready to be swept.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// As it is configured.
    pub(crate) name: TableName,
    pub(crate) oid: u32,
    /// The column that has the id of each row.
    pub(super) id: Option<String>,
    pub(super) time: TimeColumn,
    /// All columns but virtual ones.
    pub(super) columns: Vec<Column>,
    /// The condition that the event of the row `t` is open, or was left out by a recovery.
    pub(super) is_held: String,
    /// Where rows go; `None`: nowhere.
    pub(super) archive: Option<Archive>,
    /// Of what its partitions are dropped; `None`: rows are removed one by one.
    pub(super) root: Option<Root>,
    pub(super) locks: RowLocks,
    /// Whether an index begins with the time column.
    pub(super) index: TimeIndex,
}

/// What a row that another session has locked means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowLocks {
    /// It is left out. This needs the privilege to update a column.
    Skipped,
    /// It is waited for, up to `lock_timeout`.
    WaitedFor,
}

/// Whether rows can be read in the order of their time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TimeIndex {
    Present,
    /// There is none, and how it is made.
    Missing(String),
}

/// What the catalog says of the table.
struct Relation {
    oid: u32,
    kind: TableKind,
    /// What the role may not do, of what a sweep does.
    forbidden: Option<&'static str>,
    locks: RowLocks,
}

impl Target {
    /// Looks for the table, and checks what a sweep needs.
    ///
    /// # Errors
    /// The table is missing, or the role lacks a privilege; no column gives rows an age; the
    /// archive cannot take rows; an open event may be any row.
    pub(crate) async fn find(
        session: Session<'_>,
        settings: &RetentionSettings,
        outbox: &OutboxTable,
    ) -> Result<Self, Failure> {
        let name = outbox.name.clone();
        // All tables, since a role with those of several owners is more than each of them.
        let names: Vec<TableName> =
            settings.tables.iter().map(|table| table.name.clone()).collect();
        refuse_foreign_code(session.client, Touched::RouterSchema, Runs::Inserts).await?;
        let drops_partitions = settings.section.mode == RetentionMode::DropPartitions;
        let runs = if drops_partitions { Runs::Reads } else { Runs::Changes };
        refuse_foreign_code(session.client, Touched::Tables(&names), runs).await?;
        let relation = relation(session, &name).await?;
        if !drops_partitions {
            check_privileges(session, &name, &relation)?;
        }
        let columns = columns(session, relation.oid).await?;
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mapped = row_columns(outbox, &names)?;
        let time = settings.section.time_column.as_deref().or(mapped.time);
        let (time, column) = time_column(outbox, time, &columns)?;
        let root = if drops_partitions {
            let Relation { oid, kind, .. } = relation;
            let known = Known { name: &name, oid, kind, time: &time, column };
            Some(Root::find(session, settings, known).await?)
        } else {
            None
        };
        let held = held::find(session).await?;
        if held == HeldTable::Present {
            let configured: Vec<TableName> =
                settings.tables.iter().map(|table| table.name.clone()).collect();
            held::check_named(session, &name, mapped.id, &configured).await?;
        }
        let of_table = (relation.oid, &*columns, held);
        let is_held = held::condition(session, settings, of_table).await?;
        let archive = match settings.section.mode {
            RetentionMode::Archive => {
                Some(archive::find(session, settings, &name, &columns).await?)
            }
            RetentionMode::Off | RetentionMode::Delete | RetentionMode::DropPartitions => None,
        };
        Ok(Self {
            index: time_index(session, &name, &relation, column, &time).await?,
            oid: relation.oid,
            locks: relation.locks,
            id: mapped.id.map(str::to_owned),
            name,
            time,
            columns,
            is_held,
            archive,
            root,
        })
    }

    /// Checks that nothing keeps all rows: [`Self::check_others`]; that the table of held events
    /// is the one that was relied on, as [`held::check_whole`] does; and that each row is found
    /// that the table alone has whole, as [`held::check_found`] does. To be asked behind the
    /// horizon: a row whose id is changed later is not covered by it.
    ///
    /// # Errors
    /// All rows stay, or the connection breaks.
    pub(crate) async fn check_removable(
        &self,
        session: Session<'_>,
        settings: &RetentionSettings,
        relied_on: ReliedOn,
    ) -> Result<(), Failure> {
        self.check_others(session, settings).await?;
        held::check_whole(session, settings, relied_on).await?;
        let table = Searched { oid: self.oid, name: &self.name, id: self.id.as_deref() };
        held::check_found(session, settings, (table, &self.columns)).await
    }

    /// Checks that no worker polls the table, whose marks would not be looked at, and that no row
    /// of an outbox goes with its rows.
    ///
    /// # Errors
    /// One does, or did last, or that is not known, so all rows stay; or the connection breaks.
    pub(crate) async fn check_others(
        &self,
        mut session: Session<'_>,
        settings: &RetentionSettings,
    ) -> Result<(), Failure> {
        let table = (&self.name, self.oid);
        polled::check_unpolled(session, settings, table).await?;
        let configured = settings.tables.iter().map(|table| &table.name);
        refuse_cascades(&mut session.client, table, configured).await
    }

    /// Checks that no foreign key refuses to let a row go. Rows that none references yet can go, so
    /// a sweep is not refused for it.
    ///
    /// # Errors
    /// One does, or the connection breaks.
    pub(crate) async fn check_unreferenced(&self, session: Session<'_>) -> Result<(), Failure> {
        let rows = session.rows(&references::statement(self.oid)).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let of = |column| text(row, column).map(str::to_owned);
        let table = TableName { schema: of(0)?, name: of(1)? };
        let reference = Reference { table, constraint: of(2)? };
        let what = format!(
            "the foreign key {} of {} references {}: a row that it references cannot be removed, \
             and neither can those that a sweep takes with it",
            quote_identifier(&reference.constraint),
            reference.table,
            self.name
        );
        Err(reference.failure(what))
    }

    /// Checks that rows can be found: a partition has them in one place.
    ///
    /// # Errors
    /// As [`Self::check_index`].
    pub(crate) fn check_way(&self) -> Result<(), Failure> {
        if self.root.is_some() { Ok(()) } else { self.check_index() }
    }

    /// Checks that rows can be read in the order of their time.
    ///
    /// # Errors
    /// There is no such index; the failure names the statement that makes it.
    pub(crate) fn check_index(&self) -> Result<(), Failure> {
        let TimeIndex::Missing(statements) = &self.index else { return Ok(()) };
        let what = format!(
            "{} has no index that begins with {}, so every sweep would read the whole table",
            self.name, self.time.name
        );
        Err(Failure::of(Case::RetentionWithoutIndex, what).naming(Name::Statements, statements))
    }

    /// Where rows go; `None`: nowhere.
    pub(crate) fn archive(&self) -> Option<&TableName> {
        self.archive.as_ref().map(|archive| &archive.table)
    }

    pub(super) fn quoted(&self) -> String {
        quote_table(&self.name)
    }
}

async fn relation(session: Session<'_>, name: &TableName) -> Result<Relation, Failure> {
    let rows = session
        .rows(&format!(
            "select c.oid, c.relkind = 'p', \
               has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'), \
               has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'delete'), \
               has_any_column_privilege(c.oid, 'update') \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = {} and c.relname = {} and c.relkind in ('r', 'p')",
            quote_literal(&name.schema),
            quote_literal(&name.name)
        ))
        .await?;
    let Some(row) = rows.first() else {
        return Err(Failure::new(Code::TableMissing, format!("table {name} does not exist"))
            .naming(Name::Table, name));
    };
    let is = |column| text(row, column).map(|text| text == "t");
    let oid = number(row, 0)?;
    check_row_security(session, oid).await?;
    Ok(Relation {
        oid,
        kind: if is(1)? { TableKind::Partitioned } else { TableKind::Plain },
        forbidden: match (is(2)?, is(3)?) {
            (true, true) => None,
            (true, false) => Some("delete from"),
            (false, true) => Some("read"),
            (false, false) => Some("read or delete from"),
        },
        locks: if is(4)? { RowLocks::Skipped } else { RowLocks::WaitedFor },
    })
}

fn check_privileges(
    session: Session<'_>,
    name: &TableName,
    relation: &Relation,
) -> Result<(), Failure> {
    let Some(forbidden) = relation.forbidden else { return Ok(()) };
    let role = quote_identifier(&session.backend.role);
    let grants = format!(
        "grant usage on schema {} to {role}; grant select, delete on {} to {role}",
        quote_identifier(&name.schema),
        quote_table(name)
    );
    let what = format!("role {role} may not {forbidden} {name}");
    Err(Failure::of(Case::RetentionForbidden, what).naming(Name::Statements, grants))
}

/// The column that gives the rows of a table their age, for who removes none; `None` where none
/// does.
///
/// # Errors
/// The table is missing, or row security hides rows of it.
pub(crate) async fn age_column(
    session: Session<'_>,
    settings: &RetentionSettings,
    outbox: &OutboxTable,
) -> Result<Option<TimeColumn>, Failure> {
    let relation = relation(session, &outbox.name).await?;
    let columns = columns(session, relation.oid).await?;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let time = row_columns(outbox, &names)?.time;
    let time = settings.section.time_column.as_deref().or(time);
    Ok(time_column(outbox, time, &columns).ok().map(|(time, _)| time))
}

/// The column that gives rows an age, and its number.
fn time_column(
    outbox: &OutboxTable,
    name: Option<&str>,
    columns: &[Column],
) -> Result<(TimeColumn, i16), Failure> {
    let table = &outbox.name;
    let refuse = |what: String| Failure::of(Case::RetentionTimeColumn, what);
    let name = name.ok_or_else(|| refuse(format!("{table}: no column gives its rows an age")))?;
    let column = columns
        .iter()
        .find(|column| column.name == name)
        .ok_or_else(|| refuse(format!("{table} has no column {name}")))?;
    let time = TimeColumn::of(name, column.type_oid, outbox).ok_or_else(|| {
        refuse(format!("{table}: {name} is of the type {}, which is no time", column.sql_type))
    })?;
    Ok((time, column.number))
}

/// A partitioned table's index is valid only when every partition has it.
async fn time_index(
    session: Session<'_>,
    name: &TableName,
    relation: &Relation,
    column: i16,
    time: &TimeColumn,
) -> Result<TimeIndex, Failure> {
    let oid = relation.oid;
    let row = session
        .row(&format!(
            "select exists (select from pg_index i join pg_class c on c.oid = i.indexrelid \
               join pg_am m on m.oid = c.relam \
             where i.indrelid = {oid} and i.indisvalid and i.indpred is null \
               and m.amname = 'btree' and i.indkey[0] = {column})"
        ))
        .await?;
    if text(&row, 0)? == "t" {
        return Ok(TimeIndex::Present);
    }
    let column = time.quoted();
    if relation.kind != TableKind::Partitioned {
        let statement = format!("create index concurrently on {} ({column})", quote_table(name));
        return Ok(TimeIndex::Missing(statement));
    }
    // That of the root takes over those of the partitions, and locks nothing for long then.
    let leaves = session
        .rows(&format!(
            "select relid::regclass from pg_partition_tree({oid}) where isleaf \
             order by relid::regclass::text"
        ))
        .await?;
    let of_leaf =
        |leaf| Ok(format!("create index concurrently on {} ({column}); ", text(leaf, 0)?));
    let of_leaves: String = leaves.iter().map(of_leaf).collect::<Result<_, Failure>>()?;
    let of_root = format!("create index on {} ({column})", quote_table(name));
    Ok(TimeIndex::Missing(of_leaves + &of_root))
}
