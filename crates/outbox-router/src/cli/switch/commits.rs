//! Transactions that are committed in the WAL and that no query sees yet, since their commits wait
//! for a synchronous standby (manual, "Synchronous Replication"). A slot goes by the WAL: its
//! snapshot sees their rows, and a stream sends them. So whoever divides rows between a slot and
//! queries waits until both see the same.

use std::time::Duration;

use relay::{Case, Failure};
use tokio::time::{Instant, sleep};

use super::{ASK_EVERY, Switching, TELL_EVERY};
use crate::{
    cli::{TaskError, Terminal},
    wording,
};

/// Those that a snapshot sees, and that no other one sees yet.
const SEEN_BY_SNAPSHOT: &str = "\
    select count(*) from pg_snapshot_xip(pg_current_snapshot()) x \
    where pg_visible_in_snapshot(x, $1::text::pg_snapshot)";

/// Those that were open at a moment: nothing shows which of them are committed in the WAL.
const OPEN_SINCE: &str = "\
    select count(*) from pg_snapshot_xip(pg_current_snapshot()) x \
    where not pg_visible_in_snapshot(x, $1::text::pg_snapshot) \
      and x < pg_snapshot_xmax($1::text::pg_snapshot)";

impl Switching<'_> {
    /// Waits until every query sees what this snapshot sees.
    ///
    /// # Errors
    /// It takes longer than `wait`.
    pub(super) async fn wait_until_seen(
        &self,
        snapshot: &str,
        wait: Duration,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let within = Some(wait);
        self.wait_for_none(SEEN_BY_SNAPSHOT, snapshot, within, terminal).await
    }

    /// Waits until every transaction has ended that writes now, prepared ones included.
    pub(super) async fn wait_for_open(&self, terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        let now = "select pg_current_snapshot()::text";
        let now: String = self.books.query_one(now, &[]).await?.try_get(0)?;
        self.wait_for_none(OPEN_SINCE, &now, None, terminal).await
    }

    async fn wait_for_none(
        &self,
        query: &str,
        snapshot: &str,
        within: Option<Duration>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let (began, mut told) = (Instant::now(), None::<Instant>);
        loop {
            let open: i64 = self.books.query_one(query, &[&snapshot]).await?.try_get(0)?;
            if open == 0 {
                return Ok(());
            }
            let what = format!(
                "{open} transactions that write have not ended, or their commits wait for a \
                 synchronous standby"
            );
            if let Some(wait) = within
                && began.elapsed() >= wait
            {
                let what = format!("{what}, for {}", wording::roughly(wait));
                return Err(Failure::of(Case::SlotWaits, what).into());
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                writeln!(terminal.out, "transactions: {what}; waiting for them")?;
                terminal.out.flush()?;
            }
            sleep(ASK_EVERY).await;
        }
    }
}
