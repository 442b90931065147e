//! The end of a round: everything is delivered that will be, and removed that may be.

use std::time::Duration;

use serde_json::Value;
use testbed::wait::eventually;
use tokio_postgres::types::PgLsn;

use crate::pipeline::Source;
use crate::round::Round;
use crate::scenario::{Play, Removal};
use crate::verdict::Moment;

/// For what should take seconds, on a machine that is busy with other things.
const DELIVERY: Duration = Duration::from_secs(90);
/// How long removers get. What they leave is no finding.
const REMOVAL: Duration = Duration::from_secs(15);

impl Round<'_> {
    /// Waits until nothing is to be delivered any more, and then for the removers. A pipeline that
    /// stands still loses nothing by that.
    pub(crate) async fn settle(&mut self) -> anyhow::Result<Moment> {
        self.end_prepared().await?;
        self.pipeline.keep_running()?;
        let delivered = match self.pipeline.source {
            Source::Stream => self.wait_confirmed().await,
            Source::Polling => self.wait_marked().await,
        };
        if let Err(error) = delivered {
            let status = self.status().await;
            self.note_stopped(format!("does not come to its end: {error:#}; {status}"));
            return Ok(Moment::During);
        }
        match (self.scenario.play, self.scenario.removal) {
            (_, Removal::Off) => {}
            (Play::Cleanup, _) => {
                // Two sweeps: the first may be killed, or meet a lock.
                for _ in 0..3 {
                    self.clean_up().await?;
                }
            }
            (_, Removal::DropPartitions) if self.has_kept => self.clean_up().await?,
            (_, Removal::DropPartitions) => self.wait_dropped().await,
            (_, Removal::Delete | Removal::Archive) => self.wait_swept().await,
        }
        Ok(Moment::End)
    }

    /// Rolls back what a crash of the server has left prepared.
    async fn end_prepared(&self) -> anyhow::Result<()> {
        let session = self.servers.session(&self.pipeline.name).await?;
        let left = "select gid from pg_prepared_xacts where database = current_database()";
        for row in session.query(left, &[]).await? {
            let gid: String = row.try_get(0)?;
            session.batch_execute(&format!("rollback prepared '{gid}'")).await?;
        }
        Ok(())
    }

    /// The slot has confirmed everything that was written before.
    async fn wait_confirmed(&self) -> anyhow::Result<()> {
        let session = self.servers.session(&self.pipeline.name).await?;
        let end: PgLsn = session.query_one("select pg_current_wal_lsn()", &[]).await?.try_get(0)?;
        let confirmed = "select coalesce(max(confirmed_flush_lsn) >= $2, false) \
                         from pg_replication_slots where slot_name = $1::text::name";
        eventually(DELIVERY, format!("the slot to confirm {end}"), async || {
            let row = session.query_one(confirmed, &[&self.pipeline.name, &end]).await?;
            Ok(row.try_get::<_, bool>(0)?.then_some(()))
        })
        .await
    }

    /// No row is pending.
    async fn wait_marked(&self) -> anyhow::Result<()> {
        let session = self.servers.session(&self.pipeline.name).await?;
        let state = self.scenario.state_sql();
        let pending = format!("select count(*) from outbox r where {state} = 'pending'");
        eventually(DELIVERY, "no pending row", async || {
            let left: i64 = session.query_one(&pending, &[]).await?.try_get(0)?;
            Ok((left == 0).then_some(()))
        })
        .await
    }

    /// Two sweeps have ended since, of which the second began after everything was delivered.
    async fn wait_swept(&self) {
        let last = |status: &Value| {
            status.pointer("/retention/last_success").and_then(Value::as_f64).unwrap_or_default()
        };
        for _ in 0..2 {
            let before = last(&self.pipeline.router.status().await.unwrap_or_default());
            self.pipeline.status_with(REMOVAL, |status| last(status) > before).await;
        }
    }

    /// No partition has rows any more, or removal has had its time.
    async fn wait_dropped(&self) {
        let left = "select coalesce(sum((xpath('/row/n/text()', query_to_xml(format( \
            'select count(*) as n from %s', oid::regclass), false, true, '')))[1]::text::int8), 0)::int8 \
            from pg_class where relname like 'outbox\\_p%' and relkind = 'r'";
        let Ok(session) = self.servers.session(&self.pipeline.name).await else { return };
        let dropped = eventually(REMOVAL, "no row in a partition", async || {
            // A partition may be dropped while it is counted.
            let rows = session.query_one(left, &[]).await.ok();
            Ok(rows.filter(|row| row.get::<_, i64>(0) == 0).map(drop))
        });
        drop(dropped.await);
    }
}
