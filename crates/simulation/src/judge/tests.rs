//! Tests of the judge, on violations that are made by hand.

use super::*;
use crate::{
    history::{Catalog, Health},
    plan::Generation,
    random::Random,
};

const LANE: Lane = Lane { topic: 0, partition: 0 };

/// Three transactions of two events each.
fn written() -> (History, Judge) {
    let mut history = History::new(Generation::New);
    let catalog = Catalog::NEW;
    let mut random = Random::new(7);
    for _ in 0..3 {
        history.write_transaction(2, &mut random, catalog, Health::Sound);
    }
    for event in &mut history.events {
        // All events have one key, so that their order can be wrong.
        event.key = 1;
        event.place = event.serial;
    }
    history.count_anew();
    (history, Judge::new(4, Keeping::Memory))
}

fn accused(judge: &Judge) -> Option<Invariant> {
    judge.violation().map(|violation| violation.invariant)
}

#[test]
fn what_goes_right_is_not_accused() {
    let (mut history, mut judge) = written();
    let session = judge.session_begins(&history, 0, 0);
    for number in 0..6 {
        judge.stored(&mut history, (number, session), LANE, Via::Producer);
    }
    let end = history.end_of_wal;
    judge.confirmed(&history, session, 0, end);
    judge.drained(&history, session, end);
    assert_eq!(judge.violation(), None);
}

#[test]
fn a_position_past_an_event_that_is_not_stored_is_ahead() {
    let (mut history, mut judge) = written();
    let session = judge.session_begins(&history, 0, 0);
    judge.stored(&mut history, (0, session), LANE, Via::Producer);
    let commit = history.transactions[0].commit_lsn;
    judge.confirmed(&history, session, 0, commit);
    assert_eq!(accused(&judge), None, "the transaction would be sent again");
    judge.confirmed(&history, session, 0, commit + 1);
    assert_eq!(accused(&judge), Some(Invariant::S2NeverAhead));
}

#[test]
fn a_position_beyond_the_wal_or_backwards_is_no_position() {
    let (history, mut judge) = written();
    judge.confirmed(&history, 0, history.end_of_wal, history.end_of_wal + 1);
    assert_eq!(accused(&judge), Some(Invariant::S8Slot));
    let (history, mut judge) = written();
    judge.confirmed(&history, 0, 20, 10);
    assert_eq!(accused(&judge), Some(Invariant::S8Slot));
}

#[test]
fn an_event_that_overtakes_or_a_gap_in_a_run_breaks_the_order() {
    let (mut history, mut judge) = written();
    let session = judge.session_begins(&history, 0, 0);
    judge.stored(&mut history, (1, session), LANE, Via::Producer);
    assert_eq!(accused(&judge), Some(Invariant::S3Order));

    let (mut history, mut judge) = written();
    let first = judge.session_begins(&history, 0, 0);
    for number in 0..4 {
        judge.stored(&mut history, (number, first), LANE, Via::Producer);
    }
    judge.interrupted();
    let second = judge.session_begins(&history, 0, 0);
    judge.stored(&mut history, (1, second), LANE, Via::Producer);
    assert_eq!(accused(&judge), None, "a run may begin anywhere");
    judge.stored(&mut history, (3, second), LANE, Via::Producer);
    assert_eq!(accused(&judge), Some(Invariant::S3Order));
}

#[test]
fn a_repetition_needs_a_reason_and_has_a_bound() {
    let produce = |history: &History, judge: &mut Judge, session| {
        for number in 0..6 {
            let event = &history.events[number];
            judge.count_window(history, session, (Some(number), event));
            let end = history.transactions[event.transaction].end_lsn;
            judge.tells(session, end);
        }
    };
    let (history, mut judge) = written();
    let session = judge.session_begins(&history, 0, 0);
    produce(&history, &mut judge, session);
    assert_eq!(accused(&judge), None);
    judge.session_begins(&history, history.transactions[1].end_lsn, 0);
    assert_eq!(accused(&judge), Some(Invariant::S4Duplicates), "without a reason");

    let (history, mut judge) = written();
    let session = judge.session_begins(&history, 0, 0);
    produce(&history, &mut judge, session);
    judge.interrupted();
    judge.session_begins(&history, history.transactions[1].end_lsn, 0);
    assert_eq!(accused(&judge), None);
    judge.session_begins(&history, 0, 0);
    assert_eq!(accused(&judge), Some(Invariant::S4Duplicates), "more than the window");
}

#[test]
fn a_session_that_is_over_produces_nothing() {
    let (history, mut judge) = written();
    let session = judge.session_begins(&history, 0, 0);
    judge.session_ends(session);
    judge.count_window(&history, session, (Some(0), &history.events[0]));
    assert_eq!(accused(&judge), Some(Invariant::S7SingleWriter));
}

#[test]
fn a_position_that_no_witness_says_is_ahead() {
    let (mut history, _) = written();
    let mut judge = Judge::new(4, Keeping::Witness);
    let session = judge.session_begins(&history, 0, 0);
    for number in 0..6 {
        judge.stored(&mut history, (number, session), LANE, Via::Producer);
    }
    let (first, last) = (history.transactions[0].end_lsn, history.end_of_wal);
    judge.attests(first);
    judge.confirmed(&history, session, 0, first);
    assert_eq!(accused(&judge), None);
    judge.confirmed(&history, session, first, last);
    assert_eq!(accused(&judge), Some(Invariant::S2NeverAhead));
}

#[test]
fn what_was_accepted_as_missing_is_looked_past_and_may_come_late() {
    let (mut history, mut judge) = written();
    let session = judge.session_begins(&history, 0, 0);
    for event in &mut history.events[..2] {
        event.is_excused = true;
    }
    judge.look_past_what_is_excused(&history);
    judge.stored(&mut history, (2, session), LANE, Via::Producer);
    assert_eq!(accused(&judge), None);
    let late = judge.session_begins(&history, 0, 0);
    judge.stored(&mut history, (0, late), LANE, Via::Ghost);
    assert_eq!(accused(&judge), None);
    assert_eq!(history.missing().collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn what_was_in_flight_when_a_topic_grew_stays_in_its_partition() {
    let (history, mut judge) = written();
    let first = judge.session_begins(&history, 0, 0);
    judge.count_window(&history, first, (Some(0), &history.events[0]));
    judge.interrupted();
    let second = judge.session_begins(&history, 0, 0);
    judge.pin(second, [Some(1); TYPES.len()]);
    let key = history.events[0].key;
    let id = IDS[key % IDS.len()].as_bytes();
    let grown = (2..9).find(|count| partition::of_key(id, *count) != 0).unwrap();
    let (kafka, partition) = (Kafka::new(grown), partition::of_key(id, grown));
    let (event, key, topic) = (Some(0), Some(key), Some(key / IDS.len()));
    let taken = Taken { event, key, topic, partition, is_whole: true };
    judge.produced(&history, &kafka, second, &taken);
    assert_eq!(accused(&judge), Some(Invariant::S3Order));
}
