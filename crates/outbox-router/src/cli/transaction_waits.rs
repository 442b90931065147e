//! Creating a slot waits until every transaction that is open in the cluster has ended, and
//! creating an index concurrently until those of its database have: without a limit, and without a
//! message. So another connection reports which transactions it waits for.

use std::{collections::BTreeSet, io, time::Duration};

use relay::{Case, Failure, Name};
use tokio_postgres::{Client, Row};

use super::{TaskError, sql};
use crate::wording;

/// The statements that would end what something waits for, of all that was reported.
pub(super) struct TransactionWaits {
    what: String,
    remedies: BTreeSet<String>,
}

/// For which transactions something waits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waited<'w> {
    /// Those that this backend waits for at this moment, those that have been open for more than a
    /// second, and prepared ones.
    By(i32),
    /// Those that this backend waits for at this moment.
    Blocking(i32),
    /// Those with these numbers.
    These(&'w [String]),
}

const BY: [&str; 2] = [
    "a.pid <> $1 and (a.pid = any (pg_blocking_pids($1)) or (a.backend_xid is not null \
       and a.xact_start < clock_timestamp() - interval '1 second'))",
    "true",
];

const BLOCKING: [&str; 2] =
    ["a.pid = any (pg_blocking_pids($1))", "0 = any (pg_blocking_pids($1))"];

const THESE: [&str; 2] = [
    "a.backend_xid = any (select x::xid8::xid from unnest($1::text[]) x)",
    "p.transaction = any (select x::xid8::xid from unnest($1::text[]) x)",
];

/// Sessions and prepared transactions for which such a condition is true.
fn blockers([session, prepared]: [&str; 2]) -> String {
    format!(
        "select a.pid, nullif(a.application_name, ''), a.datname::text, \
           extract(epoch from clock_timestamp() - a.xact_start)::int8, \
           extract(epoch from clock_timestamp() - a.query_start)::int8, null::text, \
           a.wait_event is not distinct from 'SyncRep' \
         from pg_stat_activity a where {session} \
         union all \
         select null, null, p.database::text, \
           extract(epoch from clock_timestamp() - p.prepared)::int8, null, p.gid, false \
         from pg_prepared_xacts p where {prepared} \
         order by 4 desc nulls last"
    )
}

impl TransactionWaits {
    /// Of `what`, such as "the slot".
    pub(super) fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedies: BTreeSet::new() }
    }

    /// Reports these transactions, each once.
    ///
    /// # Errors
    /// They cannot be read, or the report cannot be written.
    pub(super) async fn report(
        &mut self,
        watcher: &Client,
        waited: Waited<'_>,
        out: &mut (dyn io::Write + Send),
    ) -> Result<(), TaskError> {
        let found = match &waited {
            Waited::By(pid) => watcher.query(&blockers(BY), &[pid]).await?,
            Waited::Blocking(pid) => watcher.query(&blockers(BLOCKING), &[pid]).await?,
            Waited::These(numbers) => watcher.query(&blockers(THESE), &[numbers]).await?,
        };
        for row in found {
            let (who, remedy) = blocker(&row)?;
            if !self.remedies.contains(&remedy) {
                if self.remedies.is_empty() {
                    writeln!(out, "{} waits for transactions that are open:", self.what)?;
                }
                writeln!(out, "  {who}")?;
                out.flush()?;
                self.remedies.insert(remedy);
            }
        }
        Ok(())
    }

    /// The slot was not created in time. PostgreSQL removes a slot whose creation did not complete.
    pub(super) fn failure(&self, slot: &str, wait: Duration) -> Failure {
        let message = format!(
            "the slot {slot} was not created within {}: transactions that were open did not end",
            wording::roughly(wait)
        );
        self.named_in(Failure::of(Case::SlotWaits, message))
    }

    /// The failure, with the statements that end what was seen. Of those that ended at the last
    /// moment nothing is known, and the hint says PID.
    pub(super) fn named_in(&self, failure: Failure) -> Failure {
        if self.remedies.is_empty() {
            return failure;
        }
        let remedies: Vec<&str> = self.remedies.iter().map(String::as_str).collect();
        failure.naming(Name::EndTransactions, remedies.join("; "))
    }
}

/// Who holds the transaction open, and the statement that ends it.
fn blocker(row: &Row) -> Result<(String, String), tokio_postgres::Error> {
    let age = |seconds: Option<i64>| {
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map_or_else(
            || "an unknown time".to_owned(),
            |seconds| wording::roughly(Duration::from_secs(seconds)),
        )
    };
    let database: Option<String> = row.try_get(2)?;
    let database = database.unwrap_or_else(|| "unknown".to_owned());
    let open = age(row.try_get(3)?);
    if let Some(gid) = row.try_get::<_, Option<String>>(5)? {
        let who = format!("prepared transaction {gid}, database {database}, since {open}");
        return Ok((who, format!("rollback prepared {}", sql::literal(&gid))));
    }
    let pid: Option<i32> = row.try_get(0)?;
    let pid = pid.unwrap_or_default();
    let application: Option<String> = row.try_get(1)?;
    let application = application.unwrap_or_else(|| "no application name".to_owned());
    let query = age(row.try_get(4)?);
    let does = if row.try_get(6)? { ", commits, and waits for a synchronous standby" } else { "" };
    let who = format!(
        "pid {pid}, {application}, database {database}, open for {open}, last statement {query} \
         ago{does}"
    );
    Ok((who, format!("select pg_terminate_backend({pid})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::hint;

    #[test]
    fn the_hint_ends_what_was_seen_and_is_never_empty() {
        let mut waits = TransactionWaits::of("the slot");
        let of =
            |waits: &TransactionWaits| hint(&waits.failure("s", Duration::from_secs(1))).unwrap();
        assert!(of(&waits).starts_with("end them (select pg_terminate_backend(PID)) and "));
        waits.remedies.insert("select pg_terminate_backend(7)".to_owned());
        waits.remedies.insert("rollback prepared 'x'".to_owned());
        let expected = "end them (rollback prepared 'x'; select pg_terminate_backend(7)) and ";
        assert!(of(&waits).starts_with(expected));
    }
}
