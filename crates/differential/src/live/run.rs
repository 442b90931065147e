//! `outbox-router run` on the rows that the real Debezium has routed, into topics of its own.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use testbed::reader::{ConsumedRecord, read_all};
use testbed::router::{RouterProcess, last_lines};
use testbed::wait::eventually;

use super::{Servers, Subject, Tally, router};
use crate::golden::{Outcome, Record, Time};
use crate::ours::PARTITIONS;
use crate::postgres::SlotOf;
use crate::record::record_of;

/// Routers start beside each other, in builds with assertions.
const DEADLINE: Duration = Duration::from_mins(2);

/// How `run` got to the end of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    /// Everything is confirmed.
    Confirmed,
    /// It stopped, with this code.
    Stopped(String),
}

/// What a partition holds, in order.
type Partitions = BTreeMap<(String, Option<i32>), Vec<Record>>;

/// Lets `run` write the records, and checks them, and where it stops, by the recording.
pub(super) async fn check(servers: &Servers, subject: &Subject) -> anyhow::Result<Tally> {
    let Subject { case, routed, inserted, .. } = subject;
    for topic in &routed.topics {
        servers.router_kafka.create_topic(topic, PARTITIONS.get(), &[]).await?;
    }
    let (records, ending) = expected(routed.outcomes());
    let router = router::migrated(servers, subject, &servers.router_kafka, SlotOf::Run).await?;
    let (ended, seen) = run(servers, subject, router, &ending).await?;
    let mut tally = Tally::default();
    let name = &case.name;
    if ended != ending {
        tally.complain(format!("{name}: run {ended:?}, and the recording says {ending:?}"));
    }
    let (written, wanted) = (in_partitions(seen.iter().map(record_of)), in_partitions(records));
    for (place, wanted) in &wanted {
        let written = written.get(place).map_or(&[][..], Vec::as_slice);
        if written != wanted {
            let [written, wanted] = [written, wanted].map(serde_json::to_string);
            tally.complain(format!("{name}: run wrote {}\n  and not {}", written?, wanted?));
        }
    }
    if let Some((place, records)) = written.iter().find(|(place, _)| !wanted.contains_key(place)) {
        let records = serde_json::to_string(records)?;
        tally.complain(format!("{name}: run wrote into {place:?}: {records}"));
    }
    if let Some(time) = seen.iter().find_map(|record| odd_time(record, &inserted.millis)) {
        tally.complain(format!("{name}: no row was committed at {time}, a record's time"));
    }
    if tally.complaints().is_empty() {
        tally.ran = 1;
        tally.records = seen.len();
        if let Ended::Stopped(_) = ended {
            tally.stopped = 1;
            // Of these the recording alone says what becomes of them.
            tally.rows_after = routed.alone.len().saturating_sub(seen.len() + 1);
        }
    }
    Ok(tally)
}

/// What the recording says: the records until the router stops, and how it ends.
fn expected(outcomes: Vec<Outcome>) -> (Vec<Record>, Ended) {
    let mut records = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Record(record) => records.push(record),
            Outcome::Stops(code) => return (records, Ended::Stopped(code)),
        }
    }
    (records, Ended::Confirmed)
}

fn in_partitions(records: impl IntoIterator<Item = Record>) -> Partitions {
    let mut partitions = Partitions::new();
    for record in records {
        let place = (record.topic.clone(), record.partition);
        partitions.entry(place).or_default().push(record);
    }
    partitions
}

/// The time of a record that is not the row's own, where no row was committed then.
fn odd_time(record: &ConsumedRecord, inserted: &RangeInclusive<i64>) -> Option<i64> {
    let is_events = record_of(record).time == Time::Event;
    record.timestamp.filter(|time| is_events && !inserted.contains(time))
}

/// Runs the router until it has confirmed the rows, or stops, and reads what it wrote.
async fn run(
    servers: &Servers,
    subject: &Subject,
    mut router: RouterProcess,
    ending: &Ended,
) -> anyhow::Result<(Ended, Vec<ConsumedRecord>)> {
    router.start_again()?;
    let ended = wait(servers, subject, &router, ending).await;
    let ended = ended.with_context(|| last_lines(&router.log(), 20))?;
    if ended == Ended::Confirmed {
        router.sigterm()?;
        router.wait_exit(DEADLINE).await?;
    } else {
        router.kill9().await?;
    }
    let topics: Vec<&str> = subject.routed.topics.iter().map(String::as_str).collect();
    Ok((ended, read_all(&servers.router_kafka.bootstrap(), &topics).await?))
}

async fn wait(
    servers: &Servers,
    subject: &Subject,
    router: &RouterProcess,
    ending: &Ended,
) -> anyhow::Result<Ended> {
    let slot = SlotOf::Run.name(&subject.case);
    let ended = || async {
        let status = router.status().await.unwrap_or_default();
        if let Some(code) = stopped(&status, ending) {
            return Ok(Some(Ended::Stopped(code)));
        }
        let is_confirmed = servers.postgres.confirmed(&slot).await? >= subject.inserted.end;
        Ok(is_confirmed.then_some(Ended::Confirmed))
    };
    eventually(DEADLINE, "the router to confirm the rows, or to stop", ended).await
}

/// The code with which the router has stopped. Where Kafka is the reason it may pass by itself, so
/// only the code counts then that is expected.
fn stopped(status: &Value, ending: &Ended) -> Option<String> {
    let code = status.pointer("/reason/code")?.as_str()?.to_owned();
    match status.get("state")?.as_str()? {
        "failed" => Some(code),
        "blocked" if *ending == Ended::Stopped(code.clone()) => Some(code),
        _ => None,
    }
}
