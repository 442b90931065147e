//! Recording: the rows of cases through the real Debezium.

use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use testbed::debezium::{ConnectorState, Worker};
use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::postgres::PostgresServer;
use testbed::reader::ConsumedRecord;
use testbed::router::last_lines;
use tokio::time::{Instant, sleep};

use crate::case::Case;
use crate::compare::{Verdict, verdict};
use crate::golden::{Bytes, Golden, Record, RecordedBy, RecordedRow, Time};
use crate::postgres::{self, Inserted, Sent};
use crate::{connect, kafka, ours, refusal};

/// How long Kafka Connect may take to start all connectors.
const START_DEADLINE: Duration = Duration::from_mins(4);
/// After so long without a record, none comes any more of a row of which Debezium says nothing.
const QUIET: Duration = Duration::from_mins(1);
/// A time of a record that is farther from now is the row's own.
const NEAR_NOW_MS: i64 = 3_600_000;

/// What the real Debezium made of cases, and the servers with their rows and its records.
#[derive(Debug)]
pub struct Recorded {
    /// One for each case, in the same order.
    pub goldens: Vec<Golden>,
    pub(crate) postgres: PostgresServer,
    pub(crate) kafka: KafkaCluster,
    /// One for each case, too.
    pub(crate) inserted: Vec<Inserted>,
}

/// A cluster that keeps what is written into it.
pub(crate) async fn start_kafka() -> anyhow::Result<KafkaCluster> {
    // Else it deletes records at once that carry a time of years ago.
    KafkaCluster::start(KafkaOptions::default().set("log.retention.ms", "-1")).await
}

/// Lets the real Debezium route the rows of cases, in one Kafka Connect, each from a slot of its
/// own.
///
/// # Errors
///
/// Fails when a server does not come up, or a case's SQL is wrong.
pub async fn record(version: u16, cases: &[Case]) -> anyhow::Result<Recorded> {
    let postgres = postgres::start(version, cases).await?;
    let kafka = start_kafka().await?;
    let mut sent = Vec::new();
    for case in cases {
        sent.push(postgres::insert(&postgres, case).await?);
    }
    let inserted = sent.iter().map(|sent| sent.inserted.clone()).collect();
    let worker = connect::start(&kafka.bootstrap(), postgres.port(), cases)?;
    let seen = wait(&worker, &kafka.bootstrap(), cases).await;
    let (seen, failures) = seen.with_context(|| last_lines(&worker.log(), 60))?;
    let refusals = refusal::logged(&worker.log());
    drop(worker);
    let recorded_by = RecordedBy {
        versions: testbed::debezium::versions()?,
        postgres: version,
        command: "scripts/test.sh --debezium record".to_owned(),
    };
    let goldens = cases
        .iter()
        .zip(sent)
        .zip(seen.into_iter().zip(failures))
        .map(|((case, sent), (seen, failure))| {
            let ids = sent.ids.clone();
            let mut golden = golden(case, sent, &seen, failure, recorded_by.clone())?;
            golden.explain(case, &ids, &refusals);
            with_ours(case, golden)
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Recorded { goldens, postgres, kafka, inserted })
}

/// Waits until Debezium has written a record of every row, or has said why not.
async fn wait(
    worker: &Worker,
    bootstrap: &str,
    cases: &[Case],
) -> anyhow::Result<(Vec<Vec<ConsumedRecord>>, Vec<Option<String>>)> {
    let started = Instant::now();
    let mut last = (0, Instant::now());
    loop {
        sleep(Duration::from_secs(1)).await;
        let mut states = Vec::new();
        for case in cases {
            states.push(worker.connector(&case.name).await);
        }
        let is_starting =
            |state: &Option<ConnectorState>| matches!(state, None | Some(ConnectorState::Starting));
        let all_started = !states.iter().any(is_starting);
        ensure!(
            all_started || started.elapsed() < START_DEADLINE,
            "connectors did not start within {START_DEADLINE:?}"
        );
        if !all_started {
            last.1 = Instant::now();
            continue;
        }
        let seen = kafka::records(bootstrap, cases).await?;
        let count = seen.iter().map(Vec::len).sum();
        if count != last.0 {
            last = (count, Instant::now());
        }
        let refusals = refusal::logged(&worker.log());
        let has_all = |((case, seen), state): ((&Case, &Vec<_>), &Option<_>)| {
            let refused = refusals.iter().filter(|refusal| refusal.is_of(case)).count();
            let has_ended = matches!(state, Some(ConnectorState::Failed(_)));
            let left_out = if connect::tolerates(case) { refused } else { 0 };
            has_ended || seen.len() + left_out >= case.rows.len()
        };
        let is_complete = cases.iter().zip(&seen).zip(&states).all(has_all);
        if is_complete || last.1.elapsed() > QUIET {
            let failure = |state| match state {
                Some(ConnectorState::Failed(why)) => Some(why),
                _ => None,
            };
            return Ok((seen, states.into_iter().map(failure).collect()));
        }
    }
}

fn golden(
    case: &Case,
    sent: Sent,
    seen: &[ConsumedRecord],
    task_failed: Option<String>,
    recorded_by: RecordedBy,
) -> anyhow::Result<Golden> {
    let mut used = 0;
    let mut rows = Vec::new();
    for (insert, id) in sent.inserts.into_iter().zip(&sent.ids) {
        let is_of_row = |record: &&ConsumedRecord| {
            case.rows.len() == 1 || record.header("id") == Some(id.as_str())
        };
        let debezium: Vec<Record> = seen.iter().filter(is_of_row).map(record_of).collect();
        used += debezium.len();
        rows.push(RecordedRow { insert, debezium, refused: None, ours: None });
    }
    ensure!(
        used == seen.len(),
        "{}: {} records of no row: {seen:#?}",
        case.name,
        seen.len() - used
    );
    let Sent { types, relation, before_last_row, .. } = sent;
    Ok(Golden { recorded_by, types, relation, rows, before_last_row, task_failed })
}

/// Notes what the router makes of the rows, where that is not Debezium's record.
///
/// # Errors
///
/// Fails when a row has no outcome.
pub fn with_ours(case: &Case, mut golden: Golden) -> anyhow::Result<Golden> {
    let outcomes = ours::outcomes(case, &golden)?;
    for (row, ours) in golden.rows.iter_mut().zip(outcomes) {
        row.ours = (verdict(&row.debezium, &ours) != Verdict::Same).then_some(ours);
    }
    Ok(golden)
}

pub(crate) fn record_of(record: &ConsumedRecord) -> Record {
    let bytes = |bytes: &Vec<u8>| Bytes(bytes.clone());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let time = record.timestamp.unwrap_or(-1);
    let headers = record.headers.iter();
    Record {
        topic: record.topic.to_string(),
        partition: record.key.is_some().then_some(record.partition),
        key: record.key.as_ref().map(bytes),
        value: record.value.as_ref().map(bytes),
        headers: headers.map(|(name, value)| (name.clone(), value.as_ref().map(bytes))).collect(),
        time: match time {
            time if (now - time).abs() < NEAR_NOW_MS => Time::Event,
            time => Time::Row(time),
        },
    }
}
