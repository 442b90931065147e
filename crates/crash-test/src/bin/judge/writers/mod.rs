//! Writers: sessions that do to an outbox table what applications do. Each has keys of its own, so
//! the order of its commits is the order of its keys.

mod events;
mod row;
mod statement;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use testbed::postgres::DatabaseSession;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::scenario::{Rows, Scenario};
use crate::truth::Kind;
use row::RowMaker;

const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// What all writers of a table have in common.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) scenario: Scenario,
    pub(crate) url: String,
    pub(crate) table: &'static str,
    /// Tells the writers of a round apart.
    pub(crate) name: &'static str,
    /// The first of their numbers: no two writers of a round have the same ids.
    pub(crate) first_index: i64,
    /// What their events are to the router.
    pub(crate) kind: Kind,
    pub(crate) count: u32,
}

/// Running writers.
pub(crate) struct Writers {
    stop: watch::Sender<Going>,
    tasks: JoinSet<anyhow::Result<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    On,
    Stop,
}

impl Writers {
    pub(crate) fn start(assignment: Assignment) -> Self {
        let (stop, going) = watch::channel(Going::On);
        let mut tasks = JoinSet::new();
        let assignment = Arc::new(assignment);
        for index in 0..assignment.count {
            tasks.spawn(write(Arc::clone(&assignment), index, going.clone()));
        }
        Self { stop, tasks }
    }

    /// Lets each writer end its transaction, and returns how many they have tried.
    pub(crate) async fn stop(mut self) -> anyhow::Result<u64> {
        self.stop.send_replace(Going::Stop);
        let mut transactions = 0;
        while let Some(ended) = self.tasks.join_next().await {
            transactions += ended.context("a writer panicked")??;
        }
        Ok(transactions)
    }
}

/// What one writer has.
struct Writer {
    assignment: Arc<Assignment>,
    random: StdRng,
    rows: RowMaker,
    /// Begins the names of its prepared transactions.
    prefix: String,
    prepared: u32,
}

async fn write(
    assignment: Arc<Assignment>,
    index: u32,
    going: watch::Receiver<Going>,
) -> anyhow::Result<u64> {
    let seed = assignment.scenario.seed.wrapping_add(u64::from(index) + 1);
    let prefix = format!("{}-{}-{index}", assignment.scenario.number, assignment.name);
    let mut writer = Writer {
        random: StdRng::seed_from_u64(seed),
        rows: RowMaker::new(&assignment, index),
        prefix,
        prepared: 0,
        assignment,
    };
    let mut session = None;
    let mut transactions = 0;
    while *going.borrow() == Going::On {
        let Some(client) = &session else {
            session = writer.connect().await.ok();
            if session.is_none() {
                sleep(RECONNECT_PAUSE).await;
            }
            continue;
        };
        transactions += 1;
        let outcome = match writer.assignment.scenario.rows {
            Rows::Events => writer.event_transaction(client).await,
            Rows::Versions => writer.version_transaction(client).await,
        };
        // The note in the same transaction shows whether it was committed.
        if outcome.is_err() && client.batch_execute("rollback").await.is_err() {
            session = None;
        }
        writer.pause(60).await;
    }
    Ok(transactions)
}

impl Writer {
    /// Connects, and ends what an earlier session of this writer has left prepared.
    async fn connect(&self) -> anyhow::Result<DatabaseSession> {
        let session = DatabaseSession::open(&self.assignment.url).await?;
        let left = "select gid from pg_prepared_xacts where database = current_database()";
        for row in session.query(left, &[]).await? {
            let gid: String = row.try_get(0)?;
            if gid.starts_with(&format!("{}/", self.prefix)) {
                session.batch_execute(&format!("rollback prepared '{gid}'")).await?;
            }
        }
        Ok(session)
    }

    /// Waits for some part of so many milliseconds: load is paced.
    async fn pause(&mut self, most_millis: u64) {
        sleep(Duration::from_millis(self.random.random_range(0..=most_millis))).await;
    }

    /// A name for a transaction that is prepared. Databases of a server share such names.
    fn next_gid(&mut self) -> String {
        self.prepared += 1;
        format!("{}/{}", self.prefix, self.prepared)
    }
}
