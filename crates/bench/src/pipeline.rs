//! The set-up of a measurement that drains no backlog: a server, a slot and one topic, and the
//! reader between them.

use testbed::kafka::KafkaCluster;
use testbed::postgres::{DATABASE, SUPERUSER};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::args::Args;
use crate::choices::Socket;
use crate::reader::{Reader, RunningReader};
use crate::server::{BenchServer, ReaderSettings, TuningGoal};
use crate::shape::Distribution;
use crate::topic::RunTopics;
use crate::writers::{Timetable, WriteResult, write};

pub(crate) struct BenchPipeline {
    pub(crate) server: BenchServer,
    pub(crate) topics: RunTopics,
    pub(crate) slot: &'static str,
    socket: Socket,
}

impl BenchPipeline {
    /// Sets up a separate server: on a shared one, a reader would be sent the rows that were
    /// written for earlier readers.
    pub(crate) async fn create(
        args: &Args,
        kafka: &KafkaCluster,
        slot: &'static str,
        reader: &Reader,
    ) -> anyhow::Result<Self> {
        Self::with_topic(args, kafka, slot, &format!("{slot}-{}", reader.slug())).await
    }

    /// The same, with a topic of another name.
    pub(crate) async fn with_topic(
        args: &Args,
        kafka: &KafkaCluster,
        slot: &'static str,
        topic: &str,
    ) -> anyhow::Result<Self> {
        let server = BenchServer::start(args.version(), Distribution::default()).await?;
        Self::on(server, args, kafka, (slot, topic)).await
    }

    /// The same, on this server.
    pub(crate) async fn on(
        server: BenchServer,
        args: &Args,
        kafka: &KafkaCluster,
        (slot, topic): (&'static str, &str),
    ) -> anyhow::Result<Self> {
        let topics = RunTopics::create(&kafka.bootstrap(), topic, server.distribution).await?;
        server.copy_slot(slot).await?;
        Ok(Self { server, topics, slot, socket: args.first_socket() })
    }

    fn reader_settings(&self, goal: TuningGoal) -> ReaderSettings<'_> {
        ReaderSettings { socket: self.socket, slot: self.slot, topics: &self.topics, goal }
    }

    /// The configuration of a router that reads here.
    pub(crate) fn router_config(&self) -> String {
        self.server.router_config(self.reader_settings(TuningGoal::Throughput))
    }

    /// Starts a reader, and returns when it streams: what is committed from now on is read at once.
    pub(crate) async fn start(
        &self,
        reader: &Reader,
        goal: TuningGoal,
    ) -> anyhow::Result<RunningReader> {
        let mut running = RunningReader::start(reader, &self.server, self.reader_settings(goal))?;
        running.streams(&self.server, self.slot).await?;
        Ok(running)
    }

    /// Begins to write the events of a timetable.
    pub(crate) fn write(&self, timetable: &Timetable) -> JoinHandle<anyhow::Result<WriteResult>> {
        let url = self.server.postgres.url(SUPERUSER, DATABASE);
        let (table, timetable) = (self.server.table().to_owned(), timetable.clone());
        spawn_blocking(move || write(&url, &table, &timetable))
    }
}
