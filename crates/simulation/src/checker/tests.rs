//! Tests of the invariant checker, on histories that violate one invariant each.

use super::*;
use crate::{
    history::{CatalogState, RowKind},
    kafka::TopicPartition,
    plan::VersionGroup,
    random::Random,
};
use relay::{Code, ErrorPolicy, HeldLimits, OnError, testing::HeldState};

const TOPIC_PARTITION: TopicPartition = TopicPartition { topic: 0, partition: 0 };

/// Three transactions of two events each.
fn three_transactions() -> (CommitHistory, InvariantChecker) {
    with_dead_letters(None)
}

fn with_dead_letters(dead_letters: Option<DeadLetters>) -> (CommitHistory, InvariantChecker) {
    let mut history = CommitHistory::new(VersionGroup::V18, dead_letters);
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
    (history, InvariantChecker::new(4, StateTopicSetting::Unused, dead_letters))
}

/// Of unusable values alone, with a topic.
fn letters(hold_keys: HoldKeys) -> Option<DeadLetters> {
    let policy = ErrorPolicy { bad_row: OnError::DeadLetter, ..ErrorPolicy::default() };
    let (limits, topic) = (HeldLimits::default(), LettersTopic::Used);
    Some(DeadLetters { limits, policy, hold_keys, topic })
}

/// An event with this number is stored by this session, whose producer is not closed.
fn store(checker: &mut InvariantChecker, history: &mut CommitHistory, event: (usize, usize)) {
    checker.check_stored(history, event, TOPIC_PARTITION, StoredBy::OpenProducer);
}

fn violated(checker: &InvariantChecker) -> Option<Invariant> {
    checker.violation().map(|violation| violation.invariant)
}

#[test]
fn a_correct_history_violates_no_invariant() {
    let (mut history, mut checker) = three_transactions();
    let session = checker.begin_session(&history, 0, 0);
    for number in 0..6 {
        store(&mut checker, &mut history, (number, session));
    }
    let end = history.end_of_wal;
    checker.check_confirmed(&history, session, 0, end);
    checker.check_drained(&history, session, end);
    assert_eq!(checker.violation(), None);
}

#[test]
fn confirming_a_position_past_an_unstored_event_violates_s2() {
    let (mut history, mut checker) = three_transactions();
    let session = checker.begin_session(&history, 0, 0);
    store(&mut checker, &mut history, (0, session));
    let commit = history.transactions[0].commit_lsn;
    checker.check_confirmed(&history, session, 0, commit);
    assert_eq!(violated(&checker), None, "the transaction would be sent again");
    checker.check_confirmed(&history, session, 0, commit + 1);
    assert_eq!(violated(&checker), Some(Invariant::S2NeverAhead));
}

#[test]
fn confirming_a_position_past_the_wal_or_an_earlier_one_violates_s8() {
    let (history, mut checker) = three_transactions();
    checker.check_confirmed(&history, 0, history.end_of_wal, history.end_of_wal + 1);
    assert_eq!(violated(&checker), Some(Invariant::S8Slot));
    let (history, mut checker) = three_transactions();
    checker.check_confirmed(&history, 0, 20, 10);
    assert_eq!(violated(&checker), Some(Invariant::S8Slot));
}

#[test]
fn storing_an_event_too_early_or_leaving_one_out_of_a_replay_violates_s3() {
    let (mut history, mut checker) = three_transactions();
    let session = checker.begin_session(&history, 0, 0);
    store(&mut checker, &mut history, (1, session));
    assert_eq!(violated(&checker), Some(Invariant::S3Order));

    let (mut history, mut checker) = three_transactions();
    let first = checker.begin_session(&history, 0, 0);
    for number in 0..4 {
        store(&mut checker, &mut history, (number, first));
    }
    checker.note_interruption();
    let second = checker.begin_session(&history, 0, 0);
    store(&mut checker, &mut history, (1, second));
    assert_eq!(violated(&checker), None, "a replay may begin anywhere");
    store(&mut checker, &mut history, (3, second));
    assert_eq!(violated(&checker), Some(Invariant::S3Order));
}

#[test]
fn repeating_events_without_an_interruption_or_beyond_the_window_violates_s4() {
    let produce = |history: &CommitHistory, checker: &mut InvariantChecker, session| {
        for number in 0..6 {
            let event = &history.events[number];
            checker.check_window(history, (session, Origin::Stream), (Some(number), event));
            let end = history.transactions[event.transaction].end_lsn;
            checker.note_status_update(session, end);
        }
    };
    let (history, mut checker) = three_transactions();
    let session = checker.begin_session(&history, 0, 0);
    produce(&history, &mut checker, session);
    assert_eq!(violated(&checker), None);
    checker.begin_session(&history, history.transactions[1].end_lsn, 0);
    assert_eq!(violated(&checker), Some(Invariant::S4Duplicates), "nothing was interrupted");

    let (history, mut checker) = three_transactions();
    let session = checker.begin_session(&history, 0, 0);
    produce(&history, &mut checker, session);
    checker.note_interruption();
    checker.begin_session(&history, history.transactions[1].end_lsn, 0);
    assert_eq!(violated(&checker), None);
    checker.begin_session(&history, 0, 0);
    assert_eq!(violated(&checker), Some(Invariant::S4Duplicates), "the replay exceeds the window");
}

#[test]
fn producing_after_the_end_of_the_session_violates_s7() {
    let (history, mut checker) = three_transactions();
    let session = checker.begin_session(&history, 0, 0);
    checker.end_session(session);
    checker.check_window(&history, (session, Origin::Stream), (Some(0), &history.events[0]));
    assert_eq!(violated(&checker), Some(Invariant::S7SingleWriter));
}

#[test]
fn confirming_a_position_past_the_acknowledged_witness_violates_s2() {
    let (mut history, _) = three_transactions();
    let mut checker = InvariantChecker::new(4, StateTopicSetting::Used, None);
    let session = checker.begin_session(&history, 0, 0);
    for number in 0..6 {
        store(&mut checker, &mut history, (number, session));
    }
    let (first, last) = (history.transactions[0].end_lsn, history.end_of_wal);
    checker.note_witness_ack(first);
    checker.check_confirmed(&history, session, 0, first);
    assert_eq!(violated(&checker), None);
    checker.check_confirmed(&history, session, first, last);
    assert_eq!(violated(&checker), Some(Invariant::S2NeverAhead));
}

#[test]
fn events_accepted_as_missing_may_be_left_out_or_stored_late() {
    let (mut history, mut checker) = three_transactions();
    let session = checker.begin_session(&history, 0, 0);
    for event in &mut history.events[..2] {
        event.is_accepted = true;
    }
    checker.advance_past_accepted(&history);
    store(&mut checker, &mut history, (2, session));
    assert_eq!(violated(&checker), None);
    let late = checker.begin_session(&history, 0, 0);
    checker.check_stored(&mut history, (0, late), TOPIC_PARTITION, StoredBy::ClosedProducer);
    assert_eq!(violated(&checker), None);
    assert_eq!(history.missing().collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn producing_an_event_again_to_another_partition_after_the_topic_grew_violates_s3() {
    let (history, mut checker) = three_transactions();
    let first = checker.begin_session(&history, 0, 0);
    checker.check_window(&history, (first, Origin::Stream), (Some(0), &history.events[0]));
    checker.note_interruption();
    let second = checker.begin_session(&history, 0, 0);
    checker.set_partition_counts(second, [Some(1); TYPES.len()]);
    let key = history.events[0].key;
    let id = IDS[key % IDS.len()].as_bytes();
    let grown = (2..9).find(|count| partition::of_key(id, *count) != 0).unwrap();
    let (kafka, partition) = (SimulatedKafka::new(grown), partition::of_key(id, grown));
    let (event, key, topic) = (Some(0), Some(key), Some(key / IDS.len()));
    let produced = ProducedRecord { event, key, topic, partition, is_intact: true };
    checker.check_produced(&history, &kafka, (second, Origin::Stream), &produced);
    assert_eq!(violated(&checker), Some(Invariant::S3Order));
}

#[test]
fn producing_an_event_whose_key_is_held_violates_s12() {
    let (mut history, mut checker) = with_dead_letters(letters(HoldKeys::Yes));
    history.events[1].held = Some(HeldState::Held);
    let session = checker.begin_session(&history, 0, 0);
    let from = (session, Origin::Stream);
    checker.check_against_table(&history, from, (0, &history.events[0]));
    assert_eq!(violated(&checker), None, "it precedes the held event");
    checker.check_against_table(&history, from, (2, &history.events[2]));
    assert_eq!(violated(&checker), Some(Invariant::S12Held));
}

#[test]
fn releasing_what_was_dropped_violates_s12_and_releasing_twice_s4() {
    let (mut history, mut checker) = three_transactions();
    history.events[0].held = Some(HeldState::Requeued);
    let session = checker.begin_session(&history, 0, 0);
    let from = (session, Origin::Release);
    checker.check_against_table(&history, from, (0, &history.events[0]));
    assert_eq!(violated(&checker), None);
    checker.check_against_table(&history, from, (0, &history.events[0]));
    assert_eq!(violated(&checker), Some(Invariant::S4Duplicates));

    let (mut history, mut checker) = three_transactions();
    history.events[0].held = Some(HeldState::Dropped);
    let session = checker.begin_session(&history, 0, 0);
    let from = (session, Origin::Release);
    checker.check_against_table(&history, from, (0, &history.events[0]));
    assert_eq!(violated(&checker), Some(Invariant::S12Held));
}

#[test]
fn where_keys_are_not_held_a_dead_letter_binds_no_later_event_and_others_do() {
    let (mut history, mut checker) = with_dead_letters(letters(HoldKeys::No));
    history.note_cause(1, Code::IdIsNull);
    history.events[1].held = Some(HeldState::Held);
    let session = checker.begin_session(&history, 0, 0);
    store(&mut checker, &mut history, (0, session));
    checker.check_against_table(&history, (session, Origin::Stream), (2, &history.events[2]));
    store(&mut checker, &mut history, (2, session));
    store(&mut checker, &mut history, (1, session));
    store(&mut checker, &mut history, (3, session));
    assert_eq!(checker.violation(), None);
    history.note_cause(4, Code::TopicIllegal);
    store(&mut checker, &mut history, (5, session));
    assert_eq!(violated(&checker), Some(Invariant::S3Order), "its class makes no dead letters");
}

#[test]
fn what_a_session_stores_after_it_lost_the_slot_may_end_the_replay_of_the_next_one() {
    let replayed = |late: usize| {
        let (mut history, mut checker) = three_transactions();
        let first = checker.begin_session(&history, 0, 0);
        store(&mut checker, &mut history, (0, first));
        checker.note_interruption();
        let second = checker.begin_session(&history, 0, 0);
        store(&mut checker, &mut history, (0, second));
        (1..=late).for_each(|event| store(&mut checker, &mut history, (event, first)));
        let third = checker.begin_session(&history, 0, 0);
        store(&mut checker, &mut history, (2, third));
        violated(&checker)
    };
    assert_eq!(replayed(1), None);
    assert_eq!(replayed(0), Some(Invariant::S3Order));
}

#[test]
fn confirming_a_position_past_a_dead_letter_without_its_record_violates_s2() {
    let confirm = |has_record: bool, state: HeldState| {
        let (mut history, mut checker) = with_dead_letters(letters(HoldKeys::Yes));
        for event in &mut history.events[..2] {
            event.held = Some(state);
        }
        (history.events[0].is_letter, history.events[0].has_letter_record) = (true, has_record);
        let to = history.transactions[0].end_lsn;
        checker.check_confirmed(&history, 0, 0, to);
        violated(&checker)
    };
    assert_eq!(confirm(true, HeldState::Held), None, "what is held behind it needs none");
    assert_eq!(confirm(false, HeldState::Held), Some(Invariant::S2NeverAhead));
    assert_eq!(confirm(false, HeldState::Dropped), None, "a person has decided");
}
