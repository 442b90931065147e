//! The table that is polled: that of the preset `debezium`, with a number by which its rows are in
//! order, and a time of publication.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::router::RouterProcess;
use testbed::wait::eventually;

use crate::args::Args;
use crate::server::BenchServer;
use crate::shape::{Distribution, Shape};

/// What the table of a [`BenchServer`] needs to be polled.
const COLUMNS: &str = "ADD n bigint GENERATED ALWAYS AS IDENTITY, ADD published_at timestamptz";
/// And to have its rows claimed, each of which is updated twice then.
const CLAIMS: &str = "ADD status text NOT NULL DEFAULT 'PENDING', ADD locked_by text, \
                      ADD locked_until timestamptz";
/// How long the last marks may take.
const MARKED: Duration = Duration::from_mins(1);

/// A table, and its server.
pub(super) struct PolledTable {
    pub(super) server: BenchServer,
}

impl PolledTable {
    /// Without rows.
    pub(super) async fn create(args: &Args) -> anyhow::Result<Self> {
        let server = BenchServer::start(args.version(), Distribution::default()).await?;
        let table = Self { server };
        table.add(COLUMNS).await?;
        Ok(table)
    }

    /// The same, with rows that are claimed when they are read.
    pub(super) async fn claimed(args: &Args) -> anyhow::Result<Self> {
        let table = Self::create(args).await?;
        table.add(CLAIMS).await?;
        Ok(table)
    }

    async fn add(&self, columns: &str) -> anyhow::Result<()> {
        let sql = format!("ALTER TABLE {} {columns}", self.server.table());
        Ok(self.server.session.batch_execute(&sql).await?)
    }

    /// Empties it, and writes so many rows, all of them pending.
    pub(super) async fn fill(&self, events: u64) -> anyhow::Result<()> {
        let (server, name) = (&self.server, self.server.table());
        server.session.batch_execute(&format!("TRUNCATE {name}")).await?;
        let written = server.write_backlog(Shape::BATCHED.within(events), events).await?;
        ensure!(written.events == events, "{} rows were written", written.events);
        server.session.batch_execute(&format!("ANALYZE {name}")).await?;
        server.session.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    /// Waits until no row is pending.
    pub(super) async fn wait_marked(&self) -> anyhow::Result<()> {
        let (session, name) = (&self.server.session, self.server.table());
        let query = format!("SELECT EXISTS (SELECT FROM {name} WHERE published_at IS NULL)");
        eventually(MARKED, "every row to be marked", async || {
            let is_pending: bool = session.query_one(&query, &[]).await?.get(0);
            Ok((!is_pending).then_some(()))
        })
        .await
    }

    /// Removes the rows that are dead.
    pub(super) async fn vacuum(&self) -> anyhow::Result<()> {
        Ok(self.server.session.batch_execute(&format!("VACUUM {}", self.server.table())).await?)
    }

    pub(super) fn name(&self) -> String {
        self.server.table().to_owned()
    }

    pub(super) fn url(&self) -> String {
        self.server.postgres.url(SUPERUSER, DATABASE)
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
