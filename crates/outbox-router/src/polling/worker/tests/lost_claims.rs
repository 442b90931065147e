//! Batches whose rows another worker has taken.

use relay::polling::{PollerReport, ShardSet};

use super::fixture::{
    Fixture, PUBLISHED, REFUSE_MARKS, TAKE_MARKS, TAKE_SHARDS, TIMES, cluster, kafka_at,
    kafka_that_is_away, settings, with_long_leases,
};

const ROW: &str = "insert into outbox (aggregate_id) values ('a')";

fn is_lost(report: &PollerReport) -> bool {
    report.claims_lost >= 1
}

#[tokio::test]
async fn a_batch_is_a_lost_claim_when_its_shards_are_gone_before_it_is_produced() {
    let fixture = Fixture::new(TIMES).await;
    fixture.run(ROW).await;
    let mut at_work = fixture.worker(settings(), kafka_that_is_away());
    let is_read = |report: &PollerReport| report.tables[0].fetched == 1;
    let report = at_work.until_reported("a batch that waits for Kafka", is_read).await;
    assert_eq!((report.tables[0].shards, report.claims_lost), (ShardSet::ALL, 0));
    let notes = "select count(*) from outbox_router.mark";
    assert_eq!(fixture.number(notes).await, 1, "the first worker notes what decides");
    fixture.run(TAKE_SHARDS).await;
    let report = at_work.until_reported("a lost claim", is_lost).await;
    assert_eq!(report.tables[0].shards, ShardSet::NONE);
}

#[tokio::test]
async fn a_batch_is_a_lost_claim_when_its_shards_are_gone_before_it_is_marked() {
    let (fixture, cluster) = (Fixture::new(TIMES).await, cluster());
    fixture.run(REFUSE_MARKS).await;
    fixture.run(ROW).await;
    let mut at_work = fixture.worker(with_long_leases(), kafka_at(cluster.bootstrap_servers()));
    let is_acked = |report: &PollerReport| report.topics.iter().any(|topic| topic.acked == 1);
    at_work.until_reported("an acknowledgement", is_acked).await;
    fixture.run(TAKE_SHARDS).await;
    fixture.run(TAKE_MARKS).await;
    let report = at_work.until_reported("a lost claim", is_lost).await;
    assert_eq!(report.tables[0].published, 0);
    assert_eq!(fixture.number(PUBLISHED).await, 0, "it is the other worker's to mark");
}
