//! What has left the table of held events: closed events, and the decisions about events.
//!
//! Of a closed event the router still needs to know that it was delivered while the server may send
//! its transaction again. The server leaves out every transaction whose commit starts before the
//! slot's `confirmed_flush_lsn`, so such an event is needed by people only. Open events are never
//! deleted, and neither is what counts the writes (`held_version`): the check behind P037 compares
//! those two.

use relay::{Case, Failure, Lsn, Name, delivered::Confirmed};

use super::{
    held::OPEN,
    session::{Session, number, text},
    settings::RetentionSettings,
};
use crate::postgres::{quote_identifier, quote_literal};

/// Deletes what is older than `retention.abandoned_keep` and before `confirmed`, in small
/// statements, and returns how many rows that were.
///
/// # Errors
/// The role lacks a privilege, or a statement fails.
pub(crate) async fn remove(
    session: Session<'_>,
    settings: &RetentionSettings,
    confirmed: &Confirmed,
) -> Result<u64, Failure> {
    if !may_delete(session).await? {
        return Ok(0);
    }
    let mut removed = 0;
    let confirmed = confirmed.position();
    for table in [closed(settings, confirmed), decided(settings, confirmed)] {
        loop {
            let row = session.row(&table).await?;
            let batch: u64 = number(&row, 0)?;
            removed += batch;
            if batch < settings.section.batch {
                break;
            }
            tokio::time::sleep(settings.section.pause).await;
        }
    }
    Ok(removed)
}

/// Whether there are such tables.
async fn may_delete(session: Session<'_>) -> Result<bool, Failure> {
    let rows = session
        .rows(
            "select has_schema_privilege(n.oid, 'usage') \
               and has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'delete') \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = 'outbox_router' and c.relname in ('held', 'decision')",
        )
        .await?;
    let allowed: Vec<bool> =
        rows.iter().map(|row| Ok(text(row, 0)? == "t")).collect::<Result<_, Failure>>()?;
    match allowed.as_slice() {
        [true, true] => Ok(true),
        [] | [_] => Ok(false),
        [..] => {
            let role = quote_identifier(&session.backend.role);
            let what = format!(
                "role {role} may not delete from outbox_router.held and outbox_router.decision, so \
                 closed events stay there"
            );
            let grants = format!(
                "grant usage on schema outbox_router to {role}; grant select, delete on \
                 outbox_router.held, outbox_router.decision to {role}"
            );
            Err(Failure::of(Case::RetentionForbidden, what).naming(Name::Statements, grants))
        }
    }
}

fn closed(settings: &RetentionSettings, confirmed: Lsn) -> String {
    let RetentionSettings { section, .. } = settings;
    delete(
        "outbox_router.held",
        &format!(
            "{} and e.state in ('delivered', 'dropped') and e.closed_at < {} \
             and e.commit_lsn < '{confirmed}'",
            of_pipeline(settings),
            ago(settings)
        ),
        section.batch,
    )
}

/// A decision about an event that is open stays.
fn decided(settings: &RetentionSettings, confirmed: Lsn) -> String {
    delete(
        "outbox_router.decision",
        &format!(
            "{} and e.decided_at < {} and e.commit_lsn < '{confirmed}' \
             and not exists (select from outbox_router.held h \
               where h.pipeline = e.pipeline and h.slot = e.slot and h.commit_lsn = e.commit_lsn \
               and (e.event_index is null or h.event_index = e.event_index) and h.{OPEN})",
            of_pipeline(settings),
            ago(settings)
        ),
        settings.section.batch,
    )
}

fn of_pipeline(settings: &RetentionSettings) -> String {
    let (name, slot) = (quote_literal(&settings.name), quote_literal(&settings.slot));
    format!("e.pipeline = {name} and e.slot = {slot}")
}

fn ago(settings: &RetentionSettings) -> String {
    let millis = settings.section.abandoned_keep.as_millis();
    format!("now() - interval '{millis} milliseconds'")
}

fn delete(table: &str, condition: &str, limit: u64) -> String {
    format!(
        "with gone as (delete from {table} where ctid = any (array( \
           select e.ctid from {table} e where {condition} limit {limit})) returning 1) \
         select count(*) from gone"
    )
}
