//! The table that is polled: that of the preset `debezium`, with a number by which its rows are in
//! order, and a time of publication.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::router::RouterProcess;
use testbed::wait::eventually;

use crate::args::Args;
use crate::choices::Socket;
use crate::reader::Reader;
use crate::server::{BenchServer, ReaderSettings, TuningGoal};
use crate::shape::{Distribution, Shape};
use crate::topic::RunTopics;

/// What the table of a [`BenchServer`] needs to be polled.
const COLUMNS: &str = "ADD n bigint GENERATED ALWAYS AS IDENTITY, ADD published_at timestamptz";
/// How long the last marks may take.
const MARKED: Duration = Duration::from_mins(1);

/// A table, and a copy of its rows.
pub(super) struct PolledTable {
    pub(super) server: BenchServer,
}

impl PolledTable {
    /// Writes the rows.
    pub(super) async fn create(args: &Args, events: u64) -> anyhow::Result<Self> {
        let server = BenchServer::start(args.version(), Distribution::default()).await?;
        server.write_backlog(Shape::BATCHED.within(events), events).await?;
        let name = server.table();
        let sql = format!("ALTER TABLE {name} {COLUMNS}; CREATE TABLE bench_rows AS TABLE {name}");
        server.session.batch_execute(&sql).await?;
        Ok(Self { server })
    }

    /// The same, without rows.
    pub(super) async fn empty(args: &Args) -> anyhow::Result<Self> {
        let server = BenchServer::start(args.version(), Distribution::default()).await?;
        let sql = format!("ALTER TABLE {} {COLUMNS}", server.table());
        server.session.batch_execute(&sql).await?;
        Ok(Self { server })
    }

    /// Fills the table with its rows, all of them pending.
    pub(super) async fn fill(&self) -> anyhow::Result<()> {
        let name = self.server.table();
        for sql in [
            format!("TRUNCATE {name}"),
            format!(
                "INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT * FROM bench_rows ORDER BY n"
            ),
            format!("ANALYZE {name}"),
            "CHECKPOINT".to_owned(),
        ] {
            self.server.session.batch_execute(&sql).await?;
        }
        Ok(())
    }

    /// Waits until no row is pending.
    pub(super) async fn wait_marked(&self) -> anyhow::Result<()> {
        let query =
            format!("SELECT count(*) FROM {} WHERE published_at IS NULL", self.server.table());
        eventually(MARKED, "every row to be marked", async || {
            let rows: i64 = self.server.session.query_one(&query, &[]).await?.get(0);
            Ok((rows == 0).then_some(()))
        })
        .await
    }

    pub(super) fn name(&self) -> String {
        self.server.table().to_owned()
    }

    pub(super) fn url(&self) -> String {
        self.server.postgres.url(SUPERUSER, DATABASE)
    }

    /// A router that polls it; it is not started.
    pub(super) fn router(
        &self,
        reader: &Reader,
        topics: &RunTopics,
    ) -> anyhow::Result<RouterProcess> {
        let Reader::Router { binary, .. } = reader else { anyhow::bail!("only a router polls") };
        let settings = ReaderSettings {
            socket: Socket::Tcp,
            slot: "unused",
            topics,
            goal: TuningGoal::Throughput,
        };
        let config = format!("{}\norder_by = [\"n\"]\n", self.server.router_config(settings));
        Ok(RouterProcess::with_config(&config)?
            .program(binary)
            .env("OUTBOX_ROUTER__POSTGRES__SOURCE", "polling"))
    }

    /// Runs `setup --apply` with these flags.
    pub(super) async fn set_up(
        &self,
        router: &RouterProcess,
        flags: &[&str],
    ) -> anyhow::Result<()> {
        let command = [&["setup", "--apply"], flags].concat();
        let output = router.command(&command).await.context("setup")?;
        let text = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "setup: {}", String::from_utf8_lossy(&text));
        Ok(())
    }
}
