//! The readers that are compared, and a running reader: the router, or a peer that delivers into
//! Kafka.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use testbed::debezium::Worker;
use testbed::router::RouterProcess;
use testbed::wait::eventually;

use crate::choices::{Peer, Socket};
use crate::conditions::StatusSource;
use crate::debezium::{self, Tuning};
use crate::go_pq_cdc::GoPqCdc;
use crate::server::{BenchServer, ReaderSettings};

/// How long a reader that has acknowledged everything may take to stop.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(30);
const STREAMING_DEADLINE: Duration = Duration::from_secs(30);

/// What reads the slot.
#[derive(Debug, Clone)]
pub(crate) enum Reader {
    /// `pg_recvlogical` into nothing: what every reader is compared with.
    PgRecvlogical,
    /// A build of the router.
    Router {
        name: String,
        binary: PathBuf,
    },
    Peer(Peer),
}

impl Reader {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::PgRecvlogical => "pg_recvlogical",
            Self::Router { name, .. } => name,
            Self::Peer(peer) => peer.name(),
        }
    }

    /// Its name in the form that topics and, with underscores, slots may have.
    pub(crate) fn slug(&self) -> String {
        self.name().to_lowercase().replace([' ', '_'], "-")
    }

    /// The builds of the router among `readers`, and their binaries.
    pub(crate) fn routers(readers: &[Self]) -> impl Iterator<Item = (&Self, &PathBuf)> {
        readers.iter().filter_map(|reader| match reader {
            Self::Router { binary, .. } => Some((reader, binary)),
            Self::PgRecvlogical | Self::Peer(_) => None,
        })
    }

    /// Whether it can reach PostgreSQL over `socket`.
    pub(crate) fn can_use(&self, socket: Socket) -> bool {
        // Their drivers do not support unix sockets, or are not configured for them and TLS here.
        !self.is_peer() || socket == Socket::Tcp
    }

    /// Whether it delivers into Kafka.
    pub(crate) const fn delivers(&self) -> bool {
        !matches!(self, Self::PgRecvlogical)
    }

    pub(crate) const fn is_router(&self) -> bool {
        matches!(self, Self::Router { .. })
    }

    pub(crate) const fn is_peer(&self) -> bool {
        matches!(self, Self::Peer(_))
    }
}

/// A running reader that delivers into Kafka. Dropping it ends it.
#[derive(Debug)]
pub(crate) enum RunningReader {
    Router(RouterProcess),
    Debezium(Worker),
    GoPqCdc(GoPqCdc),
}

impl RunningReader {
    pub(crate) fn start(
        reader: &Reader,
        server: &BenchServer,
        settings: ReaderSettings<'_>,
    ) -> anyhow::Result<Self> {
        match reader {
            Reader::PgRecvlogical => bail!("pg_recvlogical delivers nothing into Kafka"),
            Reader::Router { binary, .. } => {
                let mut router =
                    RouterProcess::with_config(&server.router_config(settings))?.program(binary);
                router.start_again()?;
                Ok(Self::Router(router))
            }
            Reader::Peer(peer) => Self::start_peer(*peer, server, settings),
        }
    }

    fn start_peer(
        peer: Peer,
        server: &BenchServer,
        settings: ReaderSettings<'_>,
    ) -> anyhow::Result<Self> {
        let debezium = |tuning| debezium::start(tuning, server, settings).map(Self::Debezium);
        match peer {
            Peer::Debezium => debezium(Tuning::Defaults),
            Peer::DebeziumTuned => debezium(Tuning::Tuned),
            Peer::GoPqCdc => Ok(Self::GoPqCdc(GoPqCdc::start(server, settings)?)),
        }
    }

    pub(crate) fn pid(&mut self) -> anyhow::Result<u32> {
        match self {
            Self::Router(router) => Ok(router.process()?.pid()),
            Self::Debezium(debezium) => Ok(debezium.pid()),
            Self::GoPqCdc(peer) => Ok(peer.pid()),
        }
    }

    /// Where it says what it does, if it is a router.
    pub(crate) fn status(&self) -> Option<StatusSource> {
        match self {
            Self::Router(router) => Some(StatusSource::new(router.admin())),
            Self::Debezium(_) | Self::GoPqCdc(_) => None,
        }
    }

    pub(crate) fn log(&self) -> String {
        match self {
            Self::Router(router) => router.log(),
            Self::Debezium(debezium) => debezium.log(),
            Self::GoPqCdc(peer) => peer.log(),
        }
    }

    /// Waits until it streams: what is committed from now on is read at once.
    pub(crate) async fn streams(&mut self, server: &BenchServer, slot: &str) -> anyhow::Result<()> {
        let deadline = match self {
            Self::Router(router) => {
                router.wait_state("streaming", STREAMING_DEADLINE).await?;
                STREAMING_DEADLINE
            }
            Self::Debezium(_) => debezium::START_DEADLINE,
            Self::GoPqCdc(_) => STREAMING_DEADLINE,
        };
        eventually(deadline, "the slot to be held", async || {
            Ok(server.postgres.slot(slot).await?.is_some_and(|slot| slot.active).then_some(()))
        })
        .await
    }

    /// Lets it drain and end.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Router(router) => stop(router).await,
            Self::Debezium(debezium) => debezium.stop(STOP_DEADLINE).await,
            Self::GoPqCdc(peer) => peer.stop(STOP_DEADLINE).await,
        }
    }
}

/// Lets a router drain and end.
pub(crate) async fn stop(router: &mut RouterProcess) -> anyhow::Result<()> {
    router.sigterm()?;
    let status = router.wait_exit(STOP_DEADLINE).await?;
    ensure!(status.success(), "the router ended with {status}, log:\n{}", router.log());
    Ok(())
}
