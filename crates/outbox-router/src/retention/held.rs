//! Events that are open in `outbox_router.held`: their rows stay.

use relay::{Case, Failure, Name, TableName, held::TableMark, witness::Notes};

use super::{
    column::Column,
    session::{Session, number, text},
    settings::RetentionSettings,
};
use crate::{
    held::{CUT, Pipeline, not_of_others, read_table},
    postgres::{quote_identifier, quote_literal},
    republish::left_out::{self, Searched},
};

/// What an event is while it waits.
pub(super) const OPEN: &str = "state in ('held', 'requeued', 'dropping')";

/// Whether there is a table of held events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldTable {
    /// No table: [`check_whole`] says whether that means that nothing is held.
    Absent,
    /// It can be read.
    Present,
}

/// Looks for the table.
///
/// # Errors
/// It is there, and the role may not read it.
pub(super) async fn find(session: Session<'_>) -> Result<HeldTable, Failure> {
    let rows = session
        .rows(
            "select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = 'outbox_router' and c.relname = 'held'",
        )
        .await?;
    match rows.first() {
        None => Ok(HeldTable::Absent),
        Some(row) if text(row, 0)? == "t" => Ok(HeldTable::Present),
        Some(_) => {
            let role = quote_identifier(&session.backend.role);
            let what = format!(
                "role {role} may not read outbox_router.held, so which events are open is not known"
            );
            let grants = format!(
                "grant usage on schema outbox_router to {role}; grant select on \
                 outbox_router.held to {role}"
            );
            Err(Failure::of(Case::RetentionForbidden, what).naming(Name::Statements, grants))
        }
    }
}

/// The tables on which the router, or the witness, relies: without them rows would count as
/// delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReliedOn {
    /// The table of held events.
    pub(crate) held: TableMark,
    /// The notes of rows that are in no topic.
    pub(crate) notes: Notes,
}

/// Checks that the table has every event that this pipeline's writes have left open, by what they
/// have recorded beside it, and by `relied_on`, which was read before the table is read here; and
/// that the notes of rows that are in no topic are there, if there were some. A router finds at its
/// next start that some are gone (P036, P037); until then it does not look.
///
/// # Errors
/// Some are gone, or a table is: their rows are not known. Or the connection breaks.
pub(crate) async fn check_whole(
    session: Session<'_>,
    settings: &RetentionSettings,
    relied_on: ReliedOn,
) -> Result<(), Failure> {
    let pipeline = Pipeline { name: settings.name.clone(), slot: settings.slot.clone() };
    let found = read_table(&mut { session.client }, &pipeline).await?;
    found.check_whole(relied_on.held).map_err(|failure| {
        let what =
            format!("{}: the rows of these events are not known, so all stay", failure.message);
        Failure::of(Case::RetentionHeldGone, what)
    })?;
    left_out::check_there(session.client, &settings.name, relied_on.notes).await
}

/// Checks that every open event names its row. The table's name alone says nothing: it may have
/// been another one when the event came.
///
/// # Errors
/// An open event has no id, and may be a row of this table.
pub(super) async fn check_named(
    session: Session<'_>,
    table: &TableName,
    id: Option<&str>,
    configured: &[TableName],
) -> Result<(), Failure> {
    let elsewhere = not_of_others(table, configured.iter());
    let unnamed = if id.is_some() { " and event_id is null" } else { "" };
    let count = session
        .row(&format!("select count(*) from outbox_router.held where {OPEN}{unnamed}{elsewhere}"))
        .await?;
    match number::<u64>(&count, 0)? {
        0 => Ok(()),
        count => {
            let what = format!(
                "{table}: {count} open events without an id may be any of its rows, so all stay"
            );
            Err(Failure::of(Case::RetentionHeldUnknown, what))
        }
    }
}

/// The condition that a row `t` of a table stays: its event is open, or a person has left it out of
/// what was sent. The table is its OID, its columns, and whether events are held.
///
/// # Errors
/// The connection breaks.
pub(super) async fn condition(
    session: Session<'_>,
    settings: &RetentionSettings,
    (oid, columns, held): (u32, &[Column], HeldTable),
) -> Result<String, Failure> {
    let texts = texts(columns);
    let mut kept = Vec::new();
    if held == HeldTable::Present {
        kept.push(is_open(&texts));
    }
    if left_out::exists(session.client).await? {
        // Another pipeline may be the only one that routes it.
        let of_any = left_out::is_of_table(&settings.name, oid);
        kept.push(left_out::is_left_out(&of_any, &texts));
    }
    Ok(if kept.is_empty() { "false".to_owned() } else { format!("({})", kept.join(" or ")) })
}

fn texts(columns: &[Column]) -> Vec<String> {
    left_out::texts(columns.iter().map(|column| column.name.as_str()))
}

/// Checks that each row is found by its id that no topic and no table of held events has whole:
/// else it may be any row, and all stay.
///
/// # Errors
/// No column has the ids, or no row has one of them; or the connection breaks.
pub(super) async fn check_found(
    session: Session<'_>,
    settings: &RetentionSettings,
    (table, columns): (Searched<'_>, &[Column]),
) -> Result<(), Failure> {
    if left_out::exists(session.client).await? {
        let ids = left_out::ids(&settings.name, table.oid);
        check_each("were left out of what was sent", session, (table, columns, &ids)).await?;
    }
    if find(session).await? == HeldTable::Present {
        let ids = cut(table.name, settings);
        check_each("wait for a person, and did not arrive whole,", session, (table, columns, &ids))
            .await?;
    }
    Ok(())
}

/// The ids of open events that the table of held events does not have whole. It does not have
/// their columns.
fn cut(table: &TableName, settings: &RetentionSettings) -> String {
    let elsewhere = not_of_others(table, settings.tables.iter().map(|table| &table.name));
    let code = quote_literal(CUT);
    format!(
        "select distinct event_id, null::text from outbox_router.held \
         where {OPEN} and code = {code} and event_id is not null{elsewhere}"
    )
}

async fn check_each(
    which: &str,
    session: Session<'_>,
    (table, columns, ids): (Searched<'_>, &[Column], &str),
) -> Result<(), Failure> {
    let mut what = String::new();
    let columns = columns.iter().map(|column| column.name.as_str());
    for query in left_out::count_unfound(ids, table, columns) {
        // It reads all rows, so an index is no help.
        session
            .execute("begin; set local enable_seqscan = on; set local statement_timeout = 0")
            .await?;
        let row = session.row_in_time(&query).await;
        session.execute("rollback").await?;
        let row = row?;
        let (count, ids) = (number::<u64>(&row, 0)?, text(&row, 1)?);
        if count == 0 {
            return Ok(());
        }
        let why = match table.id {
            Some(_) => "no row has them now: they may have been changed",
            None => "no column has them",
        };
        what = format!(
            "{}: {count} rows that {which} are known by their ids, and {why}, so all rows stay: \
             {ids}",
            table.name
        );
    }
    Err(Failure::of(Case::RetentionHeldUnknown, what))
}

/// The condition that a row's event is open. An id of another table keeps a row, too: an event that
/// came before its table was renamed has the former name. So does an equal value of another column:
/// see [`left_out::texts`]. While nothing is open, no value is read.
fn is_open(texts: &[String]) -> String {
    let open = format!("select h.event_id from outbox_router.held h where h.{OPEN}");
    let one_of = format!("in ({open} and h.event_id is not null)");
    let any: Vec<String> = texts.iter().map(|text| format!("{text} {one_of}")).collect();
    format!("(exists ({open}) and ({}))", any.join(" or "))
}
