//! While there is no producer, leases are renewed, marks are written and a shutdown ends.

use std::time::Duration;

use relay::{
    Code, ExitReason,
    polling::{LeaseLength, PollState, PollerReport, PollerSettings},
};

use super::{
    at_work::AtWork,
    fixture::{
        Fixture, PUBLISHED, REFUSE_MARKS, TAKE_MARKS, TIMES, cluster, kafka_at, kafka_that_is_away,
        settings,
    },
};
use crate::kafka::KafkaSettings;

/// The last request for leases that was carried out, if they are in force.
const RENEWED: &str = "select coalesce(max(request), 0) from outbox_router.worker w \
    where 64 = (select count(*) from outbox_router.lease l \
                where l.holder = w.holder and l.expires_at > now())";

const HELD: &str = "select count(*) from outbox_router.lease where holder is not null";

/// It is renewed twice a second and more.
fn with_short_lease() -> PollerSettings {
    PollerSettings { lease: LeaseLength::new(Duration::from_millis(1_200)), ..settings() }
}

/// Waits until the leases were renewed so often that no attempt to make a producer can have been
/// the occasion, and then stops the worker.
async fn renews_and_ends(kafka: KafkaSettings, state: PollState, code: Code) {
    let fixture = Fixture::new(TIMES).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let mut at_work = fixture.worker(with_short_lease(), kafka);
    let is_told = |report: &PollerReport| {
        report.state == state && report.reason.as_ref().is_some_and(|reason| reason.code == code)
    };
    at_work.until_reported("the reason", is_told).await;
    let before = fixture.number(RENEWED).await;
    at_work
        .until("renewals", async |_| (fixture.number(RENEWED).await >= before + 6).then_some(()))
        .await;
    at_work.stop();
    assert_eq!(at_work.run_to_the_end().await, ExitReason::Drained);
    assert_eq!(fixture.number(HELD).await, 0, "all were given back");
    assert_eq!(fixture.number(PUBLISHED).await, 0);
}

/// The next attempt to make a producer follows after half a minute.
#[tokio::test]
async fn leases_are_renewed_while_no_producer_can_be_made() {
    let mut kafka = kafka_that_is_away();
    for (property, value) in
        [("security.protocol", "ssl"), ("ssl.ca.location", "/nowhere/authority.pem")]
    {
        kafka.properties.insert(property.to_owned(), value.to_owned());
    }
    renews_and_ends(kafka, PollState::Failed, Code::KafkaAuthentication).await;
}

#[tokio::test]
async fn leases_are_renewed_while_kafka_is_away_from_the_start() {
    renews_and_ends(kafka_that_is_away(), PollState::Blocked, Code::KafkaUnreachable).await;
}

/// A worker whose row is acknowledged, whose mark is refused, and whose producer is made again.
async fn without_producer_and_mark(fixture: &Fixture, bootstrap_servers: String) -> AtWork {
    fixture.run(REFUSE_MARKS).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let mut at_work = fixture.worker(settings(), kafka_at(bootstrap_servers));
    let is_refused =
        |report: &PollerReport| report.reason.as_ref().is_some_and(|r| r.message.contains("today"));
    let report = at_work.until_reported("a refused mark", is_refused).await;
    assert_eq!(report.topics[0].acked, 1);
    at_work.lose_the_producer();
    at_work
}

#[tokio::test]
async fn marks_are_written_again_while_a_producer_is_made_again() {
    let (fixture, cluster) = (Fixture::new(TIMES).await, cluster());
    let mut at_work = without_producer_and_mark(&fixture, cluster.bootstrap_servers()).await;
    fixture.run(TAKE_MARKS).await;
    let published = async |_: &PollerReport| (fixture.number(PUBLISHED).await == 1).then_some(());
    at_work.until("the mark", published).await;
}

#[tokio::test]
async fn a_shutdown_ends_at_its_limit_while_a_producer_is_made_again() {
    let (fixture, cluster) = (Fixture::new(TIMES).await, cluster());
    let at_work = without_producer_and_mark(&fixture, cluster.bootstrap_servers()).await;
    at_work.stop();
    assert_eq!(at_work.end().await, ExitReason::EventsUnconfirmed);
    assert_eq!(fixture.number(PUBLISHED).await, 0);
}
