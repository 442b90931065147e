//! The count: what the database committed compared with what the consumer read, by the checker of
//! the product's tests, and what that means for the exit code.

use testbed::checker::{CheckOptions, CheckResult, check};
use testbed::reader::ConsumedRecord;
use testbed::truth::Truth;

use crate::args::Counting;

/// How the demo ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DemoOutcome {
    /// Every promise was kept.
    Passed,
    /// At least one was broken.
    Failed,
}

/// The result of the count.
#[derive(Debug)]
pub(crate) struct Count {
    /// The checker's result.
    pub(crate) result: CheckResult,
    /// The id of the event that the sabotage dropped.
    pub(crate) dropped: Option<String>,
}

impl Count {
    /// Compares `seen` with `truth`, without one record if `counting` is sabotaged.
    pub(crate) fn of(truth: &Truth, mut seen: Vec<ConsumedRecord>, counting: Counting) -> Self {
        let dropped = match counting {
            Counting::Honest => None,
            Counting::Sabotaged => drop_one(&mut seen),
        };
        Self { result: check(truth, &seen, &CheckOptions::default()), dropped }
    }

    /// What the exit code reports: every anomaly, and not only those which the last line shows,
    /// lost and order.
    pub(crate) fn outcome(&self) -> DemoOutcome {
        if self.result.is_clean() { DemoOutcome::Passed } else { DemoOutcome::Failed }
    }
}

/// Drops a record from the middle, with all its duplicates: a duplicate that stays would hide the
/// loss.
fn drop_one(seen: &mut Vec<ConsumedRecord>) -> Option<String> {
    let id = seen.get(seen.len() / 2)?.header("id")?.to_owned();
    seen.retain(|record| record.header("id") != Some(&id));
    Some(id)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use testbed::truth::{Digest, ExpectedEvent};
    use uuid::Uuid;

    use super::*;

    const TOPIC: &str = "outbox.event.order";

    fn event(number: u32) -> ExpectedEvent {
        let id = Uuid::from_u128(u128::from(number));
        ExpectedEvent {
            id,
            seq: i64::from(number),
            topic: TOPIC.to_owned(),
            key: "order-1".to_owned(),
            value: Some(Digest::of(b"{}")),
            headers: vec![("id".to_owned(), id.to_string())],
            xid: number,
        }
    }

    fn record(offset: i64, number: u32) -> ConsumedRecord {
        let id = event(number).id.to_string().into_bytes();
        ConsumedRecord {
            topic: Arc::from(TOPIC),
            partition: 0,
            offset,
            key: Some(b"order-1".to_vec()),
            value: Some(b"{}".to_vec()),
            headers: vec![("id".to_owned(), Some(id))],
            timestamp: None,
            received: SystemTime::UNIX_EPOCH,
        }
    }

    /// Counts five events that arrived as `numbers`.
    fn count(numbers: &[u32], counting: Counting) -> Count {
        let truth = Truth { events: (1..=5).map(event).collect(), ..Truth::default() };
        Count::of(&truth, (0..).zip(numbers).map(|(at, n)| record(at, *n)).collect(), counting)
    }

    #[test]
    fn events_that_arrive_in_order_with_duplicates_keep_every_promise() {
        let count = count(&[1, 2, 3, 2, 3, 4, 5], Counting::Honest);
        assert_eq!(count.outcome(), DemoOutcome::Passed);
        assert_eq!(
            count.result.to_string(),
            "sent 5 · in Kafka 5 · lost 0 · duplicates 2 · order violations 0"
        );
    }

    #[test]
    fn the_sabotaged_record_counts_as_lost_and_fails_the_demo() {
        let count = count(&[1, 2, 3, 4, 5], Counting::Sabotaged);
        assert_eq!(count.outcome(), DemoOutcome::Failed);
        assert_eq!(count.dropped, Some(event(3).id.to_string()));
        assert_eq!(
            count.result.to_string(),
            "sent 5 · in Kafka 4 · lost 1 · duplicates 0 · order violations 0"
        );
    }

    #[test]
    fn a_duplicate_of_the_sabotaged_record_does_not_hide_the_loss() {
        let count = count(&[1, 2, 3, 2, 3, 4, 5], Counting::Sabotaged);
        assert_eq!(count.result.lost.count(), 1);
        assert_eq!(count.outcome(), DemoOutcome::Failed);
    }

    #[test]
    fn an_order_violation_alone_fails_the_demo() {
        let count = count(&[1, 3, 2, 4, 5], Counting::Honest);
        assert_eq!(count.result.lost.count(), 0);
        assert_eq!(count.outcome(), DemoOutcome::Failed);
    }

    #[test]
    fn with_nothing_in_kafka_every_event_counts_as_lost() {
        let count = count(&[], Counting::Sabotaged);
        assert_eq!((count.result.lost.count(), count.dropped), (5, None));
    }
}
