//! What a measurement starts from that drains no backlog: a server, a slot and one topic, and who reads from one into the
//! other.

use testbed::kafka::Kafka;
use testbed::postgres::{DATABASE, SUPERUSER};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::args::Socket;
use crate::reader::{Aim, Reader, Running, Way};
use crate::shape::Reach;
use crate::stage::Stage;
use crate::topic::Topics;
use crate::writers::{Timetable, Written, write};

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) topics: Topics,
    pub(crate) bootstrap: String,
    pub(crate) slot: &'static str,
    socket: Socket,
}

impl Scene {
    /// On a server of its own: a reader would be sent the rows that were written for those before it.
    pub(crate) async fn set(
        (version, socket): (u16, Socket),
        kafka: &Kafka,
        slot: &'static str,
        topic: &str,
    ) -> anyhow::Result<Self> {
        let (bootstrap, topics) = (kafka.bootstrap(), Topics::one(topic));
        topics.create(&bootstrap).await?;
        let stage = Stage::set(version, Reach::default()).await?;
        stage.copy_slot(slot).await?;
        Ok(Self { stage, topics, bootstrap, slot, socket })
    }

    pub(crate) fn way(&self, aim: Aim) -> Way<'_> {
        let Self { socket, slot, ref topics, ref bootstrap, .. } = *self;
        Way { socket, slot, route: topics.route(), bootstrap, aim }
    }

    /// Starts a reader, and returns when what is committed from now on is read at once.
    pub(crate) async fn start(&self, reader: &Reader, aim: Aim) -> anyhow::Result<Running> {
        let mut running = Running::start(reader, &self.stage, self.way(aim))?;
        running.streams(&self.stage, self.slot).await?;
        Ok(running)
    }

    /// Begins to write a timetable's events.
    pub(crate) fn write(&self, timetable: &Timetable) -> JoinHandle<anyhow::Result<Written>> {
        let url = self.stage.postgres.url(SUPERUSER, DATABASE);
        let (table, timetable) = (self.stage.table().to_owned(), timetable.clone());
        spawn_blocking(move || write(&url, &table, &timetable))
    }
}
