//! The poller that texts about this pattern have: a hundred rows under FOR UPDATE SKIP LOCKED,
//! which are produced and awaited together, and one UPDATE for each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};
use testbed::postgres::DatabaseSession;
use tokio::task::block_in_place;

use crate::topic::RunTopics;

const BATCH: usize = 100;
const DELIVERY: Duration = Duration::from_secs(30);

/// Counts the records that were not delivered.
#[derive(Debug, Default)]
struct Failures(AtomicU64);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, delivered: &DeliveryResult<'_>, (): ()) {
        self.0.fetch_add(u64::from(delivered.is_err()), Ordering::Relaxed);
    }
}

/// Polls until the table has no pending row.
pub(super) async fn poll(url: &str, table: &str, topics: &RunTopics) -> anyhow::Result<()> {
    let producer: BaseProducer<Failures> = ClientConfig::new()
        .set("bootstrap.servers", topics.bootstrap())
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "0")
        .create_with_context(Failures::default())?;
    let topic = topics.route();
    let session = DatabaseSession::open(url).await?;
    let select = format!(
        "SELECT id::text, aggregateid, payload::text FROM {table} WHERE published_at IS NULL \
         ORDER BY n LIMIT {BATCH} FOR UPDATE SKIP LOCKED"
    );
    let select = session.prepare(&select).await?;
    let update = format!("UPDATE {table} SET published_at = now() WHERE id = $1::text::uuid");
    let update = session.prepare(&update).await?;
    loop {
        session.batch_execute("BEGIN").await?;
        let rows = session.query(&select, &[]).await?;
        for row in &rows {
            let (key, payload): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
            let record = BaseRecord::to(topic).key(key).payload(payload);
            producer.send(record).map_err(|(error, _)| error)?;
        }
        block_in_place(|| producer.flush(DELIVERY))?;
        let failed = producer.context().0.load(Ordering::Relaxed);
        ensure!(failed == 0, "{failed} records were not delivered");
        for row in &rows {
            let id: &str = row.try_get(0)?;
            session.execute(&update, &[&id]).await?;
        }
        session.batch_execute("COMMIT").await?;
        if rows.is_empty() {
            return Ok(());
        }
    }
}
