//! The floor: a producer alone, without PostgreSQL and router, at the same rate to the same broker.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tokio::time::Instant;

use crate::writers::Timetable;

/// Produces all events of a timetable, and returns how long that took. Blocks.
pub(crate) fn produce(
    bootstrap: &str,
    topic: &str,
    timetable: &Timetable,
) -> anyhow::Result<Duration> {
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
