//! The floor: a producer alone, without PostgreSQL and router, at the same rate to the same broker.
//! What the machine needs for that, no router can do without.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use testbed::kafka::KafkaCluster;
use tokio::time::Instant;

use crate::latency_figures::LatencyFigures;
use crate::listen::consume;
use crate::shape::Distribution;
use crate::topic::{RunTopics, blocking};
use crate::watch::Anomaly;
use crate::writers::Timetable;
use crate::yardstick::FLOOR_P50_MAX;

const RATE_AT_START: u64 = 1000;
const WARM_UP_AT_START: Duration = Duration::from_secs(2);
const TIME_AT_START: Duration = Duration::from_secs(4);
/// A broker that was just started is slow at first, so the first time is not always the floor.
const TRIES_AT_START: u32 = 4;

/// The floor of the machine, measured before everything else: the fastest of a few tries, which
/// end with the first that is fast enough for every target.
pub(crate) async fn at_start(
    kafka: &KafkaCluster,
) -> anyhow::Result<Result<LatencyFigures, Anomaly>> {
    let mut floor: Option<LatencyFigures> = None;
    for turn in 0..TRIES_AT_START {
        let timetable = Timetable {
            warm_up: WARM_UP_AT_START,
            ..Timetable::lasting(RATE_AT_START, WARM_UP_AT_START + TIME_AT_START)
        };
        let figures = match measure_producer_alone(&timetable, turn, kafka).await? {
            Ok(figures) => figures,
            Err(anomaly) => return Ok(Err(anomaly)),
        };
        let best = floor.filter(|floor| floor.p50 <= figures.p50).unwrap_or(figures);
        floor = Some(best);
        if best.p50 < FLOOR_P50_MAX {
            break;
        }
    }
    Ok(Ok(floor.context("the floor was not measured")?))
}

/// Measures one run of a producer alone.
pub(crate) async fn measure_producer_alone(
    timetable: &Timetable,
    turn: u32,
    kafka: &KafkaCluster,
) -> anyhow::Result<Result<LatencyFigures, Anomaly>> {
    let name = format!("floor-{}-{}-{turn}", timetable.rate, timetable.warm_up.as_secs());
    let topics = RunTopics::create(&kafka.bootstrap(), &name, Distribution::default()).await?;
    let consuming = consume(&topics, timetable, None).await?;
    let producing = {
        let (topics, timetable) = (topics.clone(), timetable.clone());
        blocking(move || produce(topics.bootstrap(), topics.route(), &timetable))
    };
    let (took, seen) = tokio::join!(producing, consuming);
    LatencyFigures::of(&topics, timetable, seen??, (took?, None)).await
}

/// Produces all events of a timetable, and returns how long that took. Blocks.
fn produce(bootstrap: &str, topic: &str, timetable: &Timetable) -> anyhow::Result<Duration> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "0")
        .set("partitioner", "murmur2_random")
        .create()?;
    // Connects and learns the leaders before the clock starts.
    producer.client().fetch_metadata(Some(topic), Duration::from_secs(10))?;
    let start = Instant::now();
    for n in 0..timetable.events {
        timetable.await_turn(start, n);
        let (key, payload) = (Timetable::key(n), timetable.payload(n)?);
        producer
            .send(BaseRecord::to(topic).key(&key).payload(&payload))
            .map_err(|(error, _)| anyhow!(error))
            .context("cannot produce an event")?;
        producer.poll(Duration::ZERO);
    }
    producer.flush(Duration::from_secs(30))?;
    Ok(start.elapsed())
}
