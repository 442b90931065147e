//! How often a pipeline's notes of rows that are in no topic were written: the row in
//! `outbox_router.note_version`, which each write of `outbox_router.left_out`, and each skip in
//! `outbox_router.decision`, counts up in its own transaction. The witness has the number, so a
//! server that was taken back to before a note is recognised, however much others have written.

use relay::{Failure, Lsn, witness::Notes};
use tokio_postgres::Client;

use super::existence::{Readability, exists, readability};
use crate::postgres::{TextQuery, one_row, quote_literal};

pub(super) const TABLE: &str = "\
create table if not exists \"outbox_router\".\"note_version\" (
    \"pipeline\" text   primary key,
    \"writes\"   bigint not null
)";

/// Reads the number. Zero where nothing was counted, also without the table; `None`: this role may
/// not read it.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn note_writes(
    sql: &mut impl TextQuery,
    pipeline: &str,
) -> Result<Option<u64>, Failure> {
    let what = "outbox_router.note_version";
    let [seen] = readability(sql, what, ["note_version"]).await?;
    let statement = format!(
        "select coalesce(max(writes), 0) from outbox_router.note_version where pipeline = {}",
        quote_literal(pipeline)
    );
    match seen {
        Readability::Absent => Ok(Some(0)),
        Readability::Hidden => Ok(None),
        Readability::Readable => one_row(sql, what, &statement).await?.parsed().map(Some),
    }
}

/// Reads the position and the number of notes that are there. Notes are committed durably, so those
/// that were seen before were flushed.
///
/// # Errors
/// The server is a standby, or the connection breaks.
pub(crate) async fn notes(sql: &mut impl TextQuery, pipeline: &str) -> Result<Notes, Failure> {
    let writes = note_writes(sql, pipeline).await?.unwrap_or(0);
    let mut row = one_row(sql, "the end of WAL", "select pg_current_wal_flush_lsn()").await?;
    Ok(Notes { any_left_out: false, by: row.lsn()?.unwrap_or(Lsn::ZERO), writes })
}

/// Makes the table where it is missing, in a schema that is there, with what lets others read it.
///
/// # Errors
/// The role may not make it, or the connection breaks.
pub(crate) async fn make_note_version(
    client: &Client,
    grant: &str,
) -> Result<(), tokio_postgres::Error> {
    if exists(client, "note_version").await? {
        return Ok(());
    }
    client.batch_execute(&format!("begin; {TABLE}{grant}; commit")).await
}

/// The statement that counts a write of the pipeline, an expression, in the same transaction. Only
/// where the table is there.
pub(crate) fn count_note(pipeline: &str) -> String {
    format!(
        "insert into outbox_router.note_version as v (pipeline, writes) values ({pipeline}, 1) \
         on conflict (pipeline) do update set writes = v.writes + 1"
    )
}

/// Counts a write of the pipeline where the table is there and this role may: a role that decides
/// may have been granted the table of decisions alone. Then the position of the note alone tells of
/// a server that lacks it.
pub(crate) async fn count_note_if_allowed(
    client: &Client,
    pipeline: &str,
) -> Result<(), tokio_postgres::Error> {
    const MAY: &str = "\
        select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
          where n.nspname = 'outbox_router' and c.relname = 'note_version' \
            and has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert') \
            and has_table_privilege(c.oid, 'update'))";
    if client.query_one(MAY, &[]).await?.try_get(0)? {
        client.execute(&count_note("$1"), &[&pipeline]).await?;
    }
    Ok(())
}

/// The statement that makes the table say a number, which a person types who has seen to it that no
/// note is missing.
pub(crate) fn set_note_writes(pipeline: &str, writes: u64) -> String {
    format!(
        "{}; insert into \"outbox_router\".\"note_version\" values ({}, {writes}) \
         on conflict (\"pipeline\") do update set \"writes\" = {writes}",
        TABLE.split_whitespace().collect::<Vec<_>>().join(" "),
        quote_literal(pipeline)
    )
}
