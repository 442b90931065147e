//! Tests of the invariant checker, on histories that violate one invariant each.

use super::*;
use crate::{
    history::{CatalogState, RowKind},
    plan::VersionGroup,
    random::Random,
};

const LANE: TopicPartition = TopicPartition { topic: 0, partition: 0 };

/// Three transactions of two events each.
fn written() -> (CommitHistory, InvariantChecker) {
    let mut history = CommitHistory::new(VersionGroup::V18);
    let catalog = CatalogState::NEW;
    let mut random = Random::new(7);
    for _ in 0..3 {
        history.write_transaction(2, &mut random, catalog, RowKind::Valid);
    }
    for event in &mut history.events {
        // All events have one key, so that their order can be wrong.
        event.key = 1;
        event.index_in_key = event.serial;
    }
    history.recount();
    (history, InvariantChecker::new(4, StateTopicSetting::Unused))
}

fn violated(checker: &InvariantChecker) -> Option<Invariant> {
    checker.violation().map(|violation| violation.invariant)
}

#[test]
fn what_goes_right_is_not_accused() {
    let (mut history, mut checker) = written();
    let session = checker.begin_session(&history, 0, 0);
    for number in 0..6 {
        checker.check_stored(&mut history, (number, session), LANE, StoredBy::OpenProducer);
    }
    let end = history.end_of_wal;
    checker.check_confirmed(&history, session, 0, end);
    checker.check_drained(&history, session, end);
    assert_eq!(checker.violation(), None);
}

#[test]
fn a_position_past_an_event_that_is_not_stored_is_ahead() {
    let (mut history, mut checker) = written();
    let session = checker.begin_session(&history, 0, 0);
    checker.check_stored(&mut history, (0, session), LANE, StoredBy::OpenProducer);
    let commit = history.transactions[0].commit_lsn;
    checker.check_confirmed(&history, session, 0, commit);
    assert_eq!(violated(&checker), None, "the transaction would be sent again");
    checker.check_confirmed(&history, session, 0, commit + 1);
    assert_eq!(violated(&checker), Some(Invariant::S2NeverAhead));
}

#[test]
fn a_position_beyond_the_wal_or_backwards_is_no_position() {
    let (history, mut checker) = written();
    checker.check_confirmed(&history, 0, history.end_of_wal, history.end_of_wal + 1);
    assert_eq!(violated(&checker), Some(Invariant::S8Slot));
    let (history, mut checker) = written();
    checker.check_confirmed(&history, 0, 20, 10);
    assert_eq!(violated(&checker), Some(Invariant::S8Slot));
}

#[test]
fn an_event_that_overtakes_or_a_gap_in_a_run_breaks_the_order() {
    let (mut history, mut checker) = written();
    let session = checker.begin_session(&history, 0, 0);
    checker.check_stored(&mut history, (1, session), LANE, StoredBy::OpenProducer);
    assert_eq!(violated(&checker), Some(Invariant::S3Order));

    let (mut history, mut checker) = written();
    let first = checker.begin_session(&history, 0, 0);
    for number in 0..4 {
        checker.check_stored(&mut history, (number, first), LANE, StoredBy::OpenProducer);
    }
    checker.note_interruption();
    let second = checker.begin_session(&history, 0, 0);
    checker.check_stored(&mut history, (1, second), LANE, StoredBy::OpenProducer);
    assert_eq!(violated(&checker), None, "a replay may begin anywhere");
    checker.check_stored(&mut history, (3, second), LANE, StoredBy::OpenProducer);
    assert_eq!(violated(&checker), Some(Invariant::S3Order));
}

#[test]
fn a_repetition_needs_a_reason_and_has_a_bound() {
    let produce = |history: &CommitHistory, checker: &mut InvariantChecker, session| {
        for number in 0..6 {
            let event = &history.events[number];
            checker.check_window(history, session, (Some(number), event));
            let end = history.transactions[event.transaction].end_lsn;
            checker.note_status_update(session, end);
        }
    };
    let (history, mut checker) = written();
    let session = checker.begin_session(&history, 0, 0);
    produce(&history, &mut checker, session);
    assert_eq!(violated(&checker), None);
    checker.begin_session(&history, history.transactions[1].end_lsn, 0);
    assert_eq!(violated(&checker), Some(Invariant::S4Duplicates), "nothing was interrupted");

    let (history, mut checker) = written();
    let session = checker.begin_session(&history, 0, 0);
    produce(&history, &mut checker, session);
    checker.note_interruption();
    checker.begin_session(&history, history.transactions[1].end_lsn, 0);
    assert_eq!(violated(&checker), None);
    checker.begin_session(&history, 0, 0);
    assert_eq!(violated(&checker), Some(Invariant::S4Duplicates), "the replay exceeds the window");
}

#[test]
fn a_session_that_is_over_produces_nothing() {
    let (history, mut checker) = written();
    let session = checker.begin_session(&history, 0, 0);
    checker.end_session(session);
    checker.check_window(&history, session, (Some(0), &history.events[0]));
    assert_eq!(violated(&checker), Some(Invariant::S7SingleWriter));
}

#[test]
fn a_position_that_no_witness_says_is_ahead() {
    let (mut history, _) = written();
    let mut checker = InvariantChecker::new(4, StateTopicSetting::Used);
    let session = checker.begin_session(&history, 0, 0);
    for number in 0..6 {
        checker.check_stored(&mut history, (number, session), LANE, StoredBy::OpenProducer);
    }
    let (first, last) = (history.transactions[0].end_lsn, history.end_of_wal);
    checker.note_witness_ack(first);
    checker.check_confirmed(&history, session, 0, first);
    assert_eq!(violated(&checker), None);
    checker.check_confirmed(&history, session, first, last);
    assert_eq!(violated(&checker), Some(Invariant::S2NeverAhead));
}

#[test]
fn what_was_accepted_as_missing_is_looked_past_and_may_come_late() {
    let (mut history, mut checker) = written();
    let session = checker.begin_session(&history, 0, 0);
    for event in &mut history.events[..2] {
        event.is_accepted = true;
    }
    checker.advance_past_accepted(&history);
    checker.check_stored(&mut history, (2, session), LANE, StoredBy::OpenProducer);
    assert_eq!(violated(&checker), None);
    let late = checker.begin_session(&history, 0, 0);
    checker.check_stored(&mut history, (0, late), LANE, StoredBy::ClosedProducer);
    assert_eq!(violated(&checker), None);
    assert_eq!(history.missing().collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn what_was_in_flight_when_a_topic_grew_stays_in_its_partition() {
    let (history, mut checker) = written();
    let first = checker.begin_session(&history, 0, 0);
    checker.check_window(&history, first, (Some(0), &history.events[0]));
    checker.note_interruption();
    let second = checker.begin_session(&history, 0, 0);
    checker.set_partition_counts(second, [Some(1); TYPES.len()]);
    let key = history.events[0].key;
    let id = IDS[key % IDS.len()].as_bytes();
    let grown = (2..9).find(|count| partition::of_key(id, *count) != 0).unwrap();
    let (kafka, partition) = (SimulatedKafka::new(grown), partition::of_key(id, grown));
    let (event, key, topic) = (Some(0), Some(key), Some(key / IDS.len()));
    let produced = ProducedRecord { event, key, topic, partition, is_intact: true };
    checker.check_produced(&history, &kafka, second, &produced);
    assert_eq!(violated(&checker), Some(Invariant::S3Order));
}
