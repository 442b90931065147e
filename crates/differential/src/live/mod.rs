//! The real router on the rows that the real Debezium has routed: what `compare` says of Debezium's
//! topics, and what `run` writes into topics of its own.
//!
//! The recording says what must come out. Each case has a configuration of its own, so each has
//! processes of its own; a few cases run at a time, because they mostly wait.

mod compare;
mod router;
mod run;
mod tally;

use std::sync::Arc;

use anyhow::Context;
use testbed::kafka::KafkaCluster;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use tally::Tally;

use crate::case::Case;
use crate::golden::{Golden, Record};
use crate::ours::{self, Routed};
use crate::postgres::Inserted;
use crate::record::{Recorded, start_kafka};

/// How many cases run at a time: on two cores each mostly waits for servers.
const AT_A_TIME: usize = 4;

/// The topic of the routers' witnesses, made once, so that they do not all try it at first.
const STATE_TOPIC: &str = "outbox-router.state";

/// The servers of all cases.
struct Servers {
    postgres: testbed::postgres::PostgresServer,
    /// Where Debezium has written.
    debezium_kafka: KafkaCluster,
    /// Where the routers write: the names of their topics are the same.
    router_kafka: KafkaCluster,
}

/// A case with everything that is known of it.
struct Subject {
    case: Case,
    golden: Golden,
    routed: Routed,
    inserted: Inserted,
}

/// Runs the real router on every case, and counts what was compared and what differs from the
/// recording.
///
/// # Errors
///
/// Fails when a server or the router cannot be started.
pub async fn check(recorded: Recorded, cases: &[Case]) -> anyhow::Result<Tally> {
    let Recorded { goldens, postgres, kafka, inserted } = recorded;
    let router_kafka = start_kafka().await?;
    let compacted = [("cleanup.policy", "compact")];
    router_kafka.create_topic(STATE_TOPIC, 1, &compacted).await?;
    let servers = Arc::new(Servers { postgres, debezium_kafka: kafka, router_kafka });
    let permits = Arc::new(Semaphore::new(AT_A_TIME));
    let mut tasks = JoinSet::new();
    for ((case, golden), inserted) in cases.iter().zip(goldens).zip(inserted) {
        let routed = ours::routed(case, &golden)?;
        let subject = Subject { case: case.clone(), golden, routed, inserted };
        let (servers, permits) = (Arc::clone(&servers), Arc::clone(&permits));
        tasks.spawn(async move {
            let _permit = permits.acquire().await?;
            let name = subject.case.name.clone();
            check_case(&servers, &subject).await.context(name)
        });
    }
    let mut tally = Tally::default();
    while let Some(checked) = tasks.join_next().await {
        // A case that could not be run is a difference like any other, so that the others are seen.
        match checked? {
            Ok(of_case) => tally.add(of_case),
            Err(error) => tally.complain(format!("{error:#}")),
        }
    }
    Ok(tally)
}

async fn check_case(servers: &Servers, subject: &Subject) -> anyhow::Result<Tally> {
    let mut tally = compare::check(servers, subject).await?;
    tally.add(run::check(servers, subject).await?);
    Ok(tally)
}

/// The value of the header by which `compare` finds a record's event.
fn id_of(record: &Record) -> Option<&[u8]> {
    let (_, id) = record.headers.iter().find(|(name, _)| name == "id")?;
    id.as_ref().map(|id| id.0.as_slice())
}
