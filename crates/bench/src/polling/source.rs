//! The two sources of a router: the same tables, polled or followed by a slot.

use std::time::Duration;

use testbed::postgres::create_slot;
use testbed::router::RouterProcess;
use uuid::Uuid;

use super::table::PolledTable;
use crate::choices::Socket;
use crate::reader::{Reader, stop};
use crate::server::{ReaderSettings, TuningGoal};
use crate::topic::RunTopics;

const READY: Duration = Duration::from_secs(30);
/// The slot of a run.
const SLOT: &str = "by_slot";

/// How a router gets its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Polling,
    Stream,
}

impl Source {
    /// As the configuration has it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::Stream => "stream",
        }
    }

    /// As `/status.json` says that it delivers.
    const fn state(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::Stream => "streaming",
        }
    }

    /// A router of this source; it is not started.
    pub(super) fn router(
        self,
        table: &PolledTable,
        reader: &Reader,
        topics: &RunTopics,
    ) -> anyhow::Result<RouterProcess> {
        let Reader::Router { binary, .. } = reader else { anyhow::bail!("only a router polls") };
        let (socket, goal) = (Socket::Tcp, TuningGoal::Throughput);
        let settings = ReaderSettings { socket, slot: SLOT, topics, goal };
        let mut config = table.server.router_config(settings);
        if self == Self::Polling {
            config.push_str("\norder_by = [\"n\"]\n");
        }
        Ok(RouterProcess::with_config(&config)?
            .program(binary)
            .env("OUTBOX_ROUTER__POSTGRES__SOURCE", self.name())
            // The slot of each run is a new one, which the witness of an earlier run forbids.
            .env("OUTBOX_ROUTER__NAME", &format!("bench-{}", Uuid::new_v4())))
    }

    /// Makes the slot, behind which the rows come that are written from now on.
    pub(super) async fn before_rows(self, table: &PolledTable) -> anyhow::Result<()> {
        if self == Self::Stream {
            create_slot(&table.server.session, SLOT, "pgoutput").await?;
        }
        Ok(())
    }

    /// Starts the router, and returns when it delivers whatever comes.
    pub(super) async fn start(self, router: &mut RouterProcess) -> anyhow::Result<()> {
        router.start_again()?;
        router.wait_state(self.state(), READY).await.map(drop)
    }

    /// Waits for what is left to do when every record is in Kafka.
    pub(super) async fn wait_done(self, table: &PolledTable) -> anyhow::Result<()> {
        match self {
            Self::Polling => table.wait_marked().await,
            Self::Stream => Ok(()),
        }
    }

    /// Drops the slot.
    pub(super) async fn after_rows(self, table: &PolledTable) -> anyhow::Result<()> {
        if self == Self::Stream {
            table.server.drop_slot(SLOT).await?;
        }
        Ok(())
    }

    /// Lets it end, and drops the slot.
    pub(super) async fn stop(
        self,
        table: &PolledTable,
        router: &mut RouterProcess,
    ) -> anyhow::Result<()> {
        stop(router).await?;
        self.after_rows(table).await
    }
}
