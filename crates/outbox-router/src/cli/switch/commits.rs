//! Transactions that are committed in the WAL and that no query sees yet, since their commits wait
//! for a synchronous standby (manual, "Synchronous Replication"). A slot goes by the WAL: its
//! snapshot sees their rows, and a stream sends them. So whoever divides rows between a slot and
//! queries waits until both see the same.

use std::time::Duration;

use relay::{Case, Failure, Xid, delivered::FullXid};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, types::ToSql};

use super::{ASK_EVERY, Switching, TELL_EVERY};
use crate::{
    cli::{
        TaskError, Terminal,
        transaction_waits::{TransactionWaits, Waited},
    },
    wording,
};

/// Which transactions a snapshot sees, by their numbers. That of a slot may have an `xmin` behind
/// its `xmax`, so it has no text that `pg_snapshot` reads.
pub(super) struct Seen {
    xmin: String,
    xmax: String,
    /// Those between them that it does not see.
    xip: Vec<String>,
}

impl Seen {
    /// By the snapshot of this transaction, or of this moment.
    pub(super) async fn by(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let query = "select pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text, \
                     array(select x::text from pg_snapshot_xip(s) x) from pg_current_snapshot() s";
        let row = client.query_one(query, &[]).await?;
        Ok(Self { xmin: row.try_get(0)?, xmax: row.try_get(1)?, xip: row.try_get(2)? })
    }

    /// Whether it sees what this committed transaction has written, which the slot has still.
    pub(super) fn sees(&self, xid: Xid) -> bool {
        let low = |full: &String| full.parse().map(|full| FullXid::from_u64(full).of_row());
        let behind = low(&self.xmax).map(|xmax| xmax.as_u32().wrapping_sub(xid.as_u32()));
        behind.is_ok_and(|behind| (1..1 << 31).contains(&behind))
            && !self.xip.iter().any(|open| low(open) == Ok(xid))
    }
}

/// Transactions that have not ended for other queries, and that the snapshot sees.
const SEEN: &str = "\
    select x::text from pg_snapshot_xip(pg_current_snapshot()) x \
    where x < $1::text::xid8 or (x < $2::text::xid8 and x <> all ($3::text[]::xid8[]))";

/// Transactions that have not ended, of these.
const OPEN: &str = "\
    select x::text from pg_snapshot_xip(pg_current_snapshot()) x \
    where x = any ($1::text[]::xid8[])";

/// The synchronous standbys for which commits of this session wait; whether enough of them are
/// there, NULL where this role may not see that; and the role.
const STANDBYS: &str = r"
    select names, case when pg_has_role('pg_read_all_stats', 'usage') then
        (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum'))
          >= coalesce((regexp_match(names, '^\s*(?:(?:first|any)\s+)?(\d+)\s*\(', 'i'))[1]::int, 1)
      end, quote_ident(current_user)
    from current_setting('synchronous_standby_names') names
    where names <> '' and current_setting('synchronous_commit') <> 'local'";

impl Switching<'_> {
    /// # Errors
    /// No synchronous standby answers: this command's own commits would wait.
    pub(super) async fn refuse_without_standby(
        &self,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let Some(row) = self.books.query_opt(STANDBYS, &[]).await? else { return Ok(()) };
        let (names, are_there): (String, Option<bool>) = (row.try_get(0)?, row.try_get(1)?);
        let wait = format!(
            "commits wait for a synchronous standby (synchronous_standby_names is '{names}'), and"
        );
        match are_there {
            Some(true) => Ok(()),
            Some(false) => {
                Err(Failure::of(Case::StandbyAway, format!("{wait} it is not there")).into())
            }
            None => {
                let role: String = row.try_get(2)?;
                writeln!(
                    terminal.err,
                    "note: {wait} the role {role} may not see whether it is there: if it is not, \
                     this command waits, too; to see that: grant pg_read_all_stats to {role}"
                )?;
                Ok(())
            }
        }
    }

    /// Waits until every query sees what this snapshot sees.
    ///
    /// # Errors
    /// It takes longer than `wait`.
    pub(super) async fn wait_until_seen(
        &self,
        Seen { xmin, xmax, xip }: &Seen,
        wait: Duration,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        self.wait_for_none((SEEN, &[xmin, xmax, xip]), Some(wait), terminal).await
    }

    /// Waits until every transaction has ended that writes now, prepared ones included: nothing
    /// shows which of them are committed in the WAL.
    pub(super) async fn wait_for_open(&self, terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        // A snapshot lists those that began before the last one that has ended.
        self.switched.touch(self.books).await?;
        let Seen { xip, .. } = Seen::by(self.books).await?;
        self.wait_for_none((OPEN, &[&xip]), None, terminal).await
    }

    async fn wait_for_none(
        &self,
        (query, of): (&str, &[&(dyn ToSql + Sync)]),
        within: Option<Duration>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let (began, mut told) = (Instant::now(), None::<Instant>);
        let mut waits = TransactionWaits::of("the switch");
        loop {
            let open = self.books.query(query, of).await?;
            let open: Vec<String> =
                open.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            if open.is_empty() {
                return Ok(());
            }
            let what = format!(
                "transactions that write and have not ended, or whose commits wait for a \
                 synchronous standby: {}",
                open.len()
            );
            if let Some(wait) = within
                && began.elapsed() >= wait
            {
                let what = format!("{what}, for {}", wording::roughly(wait));
                return Err(Failure::of(Case::StandbyAway, what).into());
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                writeln!(terminal.out, "transactions: {what}; waiting for them")?;
                terminal.out.flush()?;
            }
            waits.report(self.books, Waited::These(&open), terminal.out).await?;
            sleep(ASK_EVERY).await;
        }
    }
}
