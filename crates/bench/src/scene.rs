//! The set-up of a measurement that drains no backlog: a server, a slot and one topic, and the
//! reader between them.

use testbed::kafka::Kafka;
use testbed::postgres::{DATABASE, SUPERUSER};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::args::Args;
use crate::choices::Socket;
use crate::reader::{Reader, Running};
use crate::shape::Reach;
use crate::stage::{Aim, Stage, Way};
use crate::topic::Topics;
use crate::writers::{Timetable, Written, write};

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) topics: Topics,
    pub(crate) slot: &'static str,
    socket: Socket,
}

impl Scene {
    /// Sets up a server of its own: on a shared one, a reader would be sent the rows that were
    /// written for earlier readers.
    pub(crate) async fn set(
        args: &Args,
        kafka: &Kafka,
        slot: &'static str,
        reader: &Reader,
    ) -> anyhow::Result<Self> {
        Self::with_topic(args, kafka, slot, &format!("{slot}-{}", reader.slug())).await
    }

    /// The same, with a topic of another name.
    pub(crate) async fn with_topic(
        args: &Args,
        kafka: &Kafka,
        slot: &'static str,
        topic: &str,
    ) -> anyhow::Result<Self> {
        let topics = Topics::create(&kafka.bootstrap(), topic, Reach::default()).await?;
        let stage = Stage::set(args.version(), Reach::default()).await?;
        stage.copy_slot(slot).await?;
        Ok(Self { stage, topics, slot, socket: args.first_socket() })
    }

    fn way(&self, aim: Aim) -> Way<'_> {
        Way { socket: self.socket, slot: self.slot, topics: &self.topics, aim }
    }

    /// The configuration of a router that reads here.
    pub(crate) fn router_config(&self) -> String {
        self.stage.router_config(self.way(Aim::Throughput))
    }

    /// Starts a reader, and returns when it streams: what is committed from now on is read at once.
    pub(crate) async fn start(&self, reader: &Reader, aim: Aim) -> anyhow::Result<Running> {
        let mut running = Running::start(reader, &self.stage, self.way(aim))?;
        running.streams(&self.stage, self.slot).await?;
        Ok(running)
    }

    /// Begins to write the events of a timetable.
    pub(crate) fn write(&self, timetable: &Timetable) -> JoinHandle<anyhow::Result<Written>> {
        let url = self.stage.postgres.url(SUPERUSER, DATABASE);
        let (table, timetable) = (self.stage.table().to_owned(), timetable.clone());
        spawn_blocking(move || write(&url, &table, &timetable))
    }
}
