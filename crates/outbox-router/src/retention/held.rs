//! Events that are open in `outbox_router.held`: their rows stay.

use relay::{Case, Failure, Name, TableName};

use super::session::{Session, number, text};
use crate::postgres::{quote_identifier, quote_literal};

/// What an event is while it waits.
pub(super) const OPEN: &str = "state in ('held', 'requeued', 'dropping')";

/// Whether there is a table of held events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldTable {
    /// There is none, so nothing is held.
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
    let others: Vec<String> = configured
        .iter()
        .filter(|other| *other != table)
        .map(|other| quote_literal(&other.to_string()))
        .collect();
    let elsewhere = match others.as_slice() {
        [] => String::new(),
        names => format!(" and table_name not in ({})", names.join(", ")),
    };
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

/// The condition that a row's event is open. An id of another table keeps a row, too: an event that
/// came before its table was renamed has the former name.
pub(super) fn is_open(id: &str) -> String {
    format!(
        "({id}::text in (select h.event_id from outbox_router.held h \
         where h.{OPEN} and h.event_id is not null))"
    )
}
