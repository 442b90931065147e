//! What is due is done in time.

use std::time::Duration;

use relay::{Code, polling::PollerSettings};
use tokio::time::Instant;

use super::{
    super::{Event, unanswered},
    fixture::{kafka_that_is_away, settings, start},
};

/// A turn takes some time, in which something may become due.
#[tokio::test]
async fn what_becomes_due_during_a_turn_is_due_at_its_end() {
    let limit = Duration::from_millis(20);
    let settings = PollerSettings { shutdown_limit: limit, ..settings() };
    let mut at_work = start("postgres://nobody@127.0.0.1:1/none", settings, kafka_that_is_away());
    let worker = at_work.worker();
    assert_eq!(worker.begin_turn(), None);
    worker.apply(Event::Shutdown);
    assert!(worker.wake_at() > Instant::now(), "the request for leases is not answered");
    std::thread::sleep(limit * 2);
    assert!(worker.wake_at() <= Instant::now(), "the shutdown is at its limit");
}

#[test]
fn a_limit_that_was_exceeded_is_written_for_people() {
    let failure = unanswered("the renewal of its leases", Duration::from_secs(10) / 3);
    let what = "PostgreSQL did not answer the renewal of its leases within 3.3 s";
    assert_eq!((failure.code, failure.message.as_str()), (Code::ServerUnreachable, what));
}
