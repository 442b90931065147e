//! Event 1 of key `a` ends at 10. The transaction that commits at 12 and ends at 20 has poisoned
//! row 7 and then event 2 of that key; event 3 of it ends at 30, and event 4 of key `b` at 40.

use super::super::held::RELEASED_AT_ONCE;
use super::*;
use crate::held_table::HeldState;

const ALL: u64 = 40;

fn tally() -> Tally {
    let mut tally = Tally::new(10, PgLsn::from(0));
    let poisoned = ObservedCommit { kind: RowKind::Poisoned, ..commit(7, "a", 20) };
    tally.commit(&[
        commit(1, "a", 10),
        poisoned,
        commit(2, "a", 20),
        commit(3, "a", 30),
        commit(4, "b", ALL),
    ]);
    tally
}

fn row(number: u128, commit_lsn: u64, state: HeldState) -> HeldRow {
    let code = (number == 7).then(|| "R009".to_owned());
    let commit_lsn = PgLsn::from(commit_lsn);
    HeldRow { id: id(number), key: "a".to_owned(), commit_lsn, state, code }
}

/// The poisoned row, and events 2 and 3 behind it.
fn rows(poisoned: HeldState, behind: [HeldState; 2]) -> Vec<HeldRow> {
    let [second, third] = behind;
    vec![row(7, 12, poisoned), row(2, 12, second), row(3, 22, third)]
}

fn held() -> Vec<HeldRow> {
    rows(HeldState::Held, [HeldState::Held; 2])
}

/// The person has given the poisoned row up; nothing is closed.
fn leaving() -> Vec<HeldRow> {
    rows(HeldState::Dropping, [HeldState::Held; 2])
}

fn left() -> Vec<HeldRow> {
    rows(HeldState::Dropped, [HeldState::Delivered; 2])
}

/// A check after a kill, where everything is confirmed, with this table and these new records.
fn check(tally: &mut Tally, table: &[HeldRow], records: &[u128]) -> RoundResult {
    check_ending(tally, table, records, Ending::Killed)
}

fn check_ending(
    tally: &mut Tally,
    table: &[HeldRow],
    records: &[u128],
    ending: Ending,
) -> RoundResult {
    let position = PgLsn::from(ALL);
    tally.check(&Observation {
        confirmed: position,
        status_flush: position,
        witness: Some(position),
        held: table,
        held_later: table,
        letters: &[id(7)],
        records: &ids(records),
        ending,
        ..observed()
    })
}

/// The only violation there is.
fn only_violation(tally: &Tally) -> &str {
    let [violation] = tally.violations() else { panic!("{:?}", tally.violations()) };
    violation
}

/// One of the violations has this text in it.
fn assert_violated(tally: &Tally, text: &str) {
    let has = tally.violations().iter().any(|violation| violation.contains(text));
    assert!(has, "{:?}", tally.violations());
}

#[test]
fn what_is_held_released_and_left_in_order_is_no_violation() {
    let mut tally = tally();
    assert_eq!(check(&mut tally, &held(), &[1, 4]).duplicates, 0);
    // The batch was not closed, so it may come again, although the witness covers it.
    assert_eq!(check(&mut tally, &leaving(), &[2]).repeatable, 1);
    assert_eq!(check(&mut tally, &left(), &[2, 3]).duplicates, 1);
    tally.check_all_left();
    assert!(tally.violations().is_empty(), "{:?}", tally.violations());
    assert_eq!(tally.violation_counts(), ViolationCounts::default());
    assert_eq!(tally.committed(), 4, "a poisoned row is no event");
}

#[test]
fn an_event_that_is_confirmed_and_neither_in_kafka_nor_in_the_table_is_a_violation() {
    // Among them a poisoned row, which can only be in the table.
    for lost in [2, 3, 7] {
        let mut tally = tally();
        let table: Vec<HeldRow> = held().into_iter().filter(|row| row.id != id(lost)).collect();
        check(&mut tally, &table, &[1, 4]);
        assert_eq!(counts(&tally), [1, 0, 1, 0], "{lost}");
    }
}

#[test]
fn a_row_that_comes_after_the_death_does_not_make_the_confirmed_position_valid() {
    let mut tally = tally();
    let (at_death, later) = (&held()[..2], held());
    let position = PgLsn::from(ALL);
    tally.check(&Observation {
        confirmed: position,
        witness: Some(position),
        records: &ids(&[1, 4]),
        held: at_death,
        held_later: &later,
        letters: &[id(7)],
        ..observed()
    });
    assert_eq!(counts(&tally), [1, 0, 1, 0]);
}

#[test]
fn a_row_that_is_delivered_and_not_in_kafka_is_a_violation_even_if_its_record_comes_late() {
    for late in [&[][..], &[3]] {
        let mut tally = tally();
        check(&mut tally, &leaving(), &[1, 4]);
        let (position, table) = (PgLsn::from(ALL), left());
        let observed = Observation {
            confirmed: position,
            witness: Some(position),
            records: &ids(&[2]),
            late: &ids(late),
            held: &table,
            held_later: &table,
            ..observed()
        };
        tally.check(&observed);
        assert_eq!(tally.violation_counts().left_ahead, 1);
        assert!(only_violation(&tally).contains("has left the table"));
    }
}

#[test]
fn an_event_behind_a_dead_letter_that_nobody_gave_up_is_a_violation_in_kafka() {
    for state in [HeldState::Held, HeldState::Requeued] {
        // Also one of the same transaction.
        for early in [2, 3] {
            let mut tally = tally();
            check(&mut tally, &rows(state, [HeldState::Held; 2]), &[1, 4, early]);
            assert_eq!(tally.violation_counts().passed, 1);
            assert!(tally.violations()[0].contains("past dead letter"));
        }
    }
}

#[test]
fn an_event_behind_a_poisoned_row_that_is_no_dead_letter_yet_is_a_violation_in_kafka() {
    let mut tally = tally();
    let table = [HeldRow { code: None, ..row(7, 12, HeldState::Held) }];
    check(&mut tally, &table, &[1, 2, 3, 4]);
    assert_eq!(tally.violation_counts().passed, 1);
}

#[test]
fn an_event_that_one_session_releases_twice_is_a_violation() {
    let mut tally = tally();
    check(&mut tally, &held(), &[1, 4]);
    for records in [&[2, 2][..], &[]] {
        check_ending(&mut tally, &leaving(), records, Ending::Killed);
    }
    assert_violated(&tally, "came 2 times out of the table, in 1 sessions");
}

#[test]
fn more_open_rows_in_kafka_than_the_router_reads_from_the_table_at_once_are_a_violation() {
    let mut tally = Tally::new(10, PgLsn::from(0));
    let last = u64::try_from(RELEASED_AT_ONCE).unwrap() + 1;
    let numbers: Vec<u128> = (1..=u128::from(last)).collect();
    let commits: Vec<ObservedCommit> = (1..=last).map(|n| commit(u128::from(n), "a", n)).collect();
    let table: Vec<HeldRow> = (1..=last).map(|n| row_of_event(n, HeldState::Held)).collect();
    tally.commit(&commits);
    check_released(&mut tally, last, &table, &numbers);
    assert!(only_violation(&tally).contains("1001 events came out of the table"));
    assert!(only_violation(&tally).contains("after 1 interruptions, more than 1000"));
}

fn row_of_event(number: u64, state: HeldState) -> HeldRow {
    HeldRow { code: None, ..row(u128::from(number), number - 1, state) }
}

fn check_released(tally: &mut Tally, position: u64, table: &[HeldRow], records: &[u128]) {
    let position = PgLsn::from(position);
    tally.check(&Observation {
        confirmed: position,
        witness: Some(position),
        records: &ids(records),
        held: table,
        held_later: table,
        ..observed()
    });
}

#[test]
fn what_has_left_the_table_and_comes_again_although_the_witness_covers_it_is_a_violation() {
    let mut tally = tally();
    check(&mut tally, &held(), &[1, 4]);
    check(&mut tally, &left(), &[2, 3]);
    check(&mut tally, &left(), &[3]);
    assert_eq!(counts(&tally), [0, 0, 0, 1]);
}

#[test]
fn a_drained_router_has_closed_what_it_has_released() {
    let mut tally = tally();
    check(&mut tally, &held(), &[1, 4]);
    check_ending(&mut tally, &leaving(), &[2], Ending::Drained);
    assert!(only_violation(&tally).contains("1 events came out of the table"));
    assert!(only_violation(&tally).contains("after 0 interruptions, more than 0"));
}

#[test]
fn a_router_that_drains_need_not_have_come_to_what_a_killed_one_left_open() {
    let mut tally = tally();
    check(&mut tally, &held(), &[1, 4]);
    check(&mut tally, &leaving(), &[2]);
    check_ending(&mut tally, &leaving(), &[], Ending::Drained);
    assert_eq!(check(&mut tally, &left(), &[2, 3]).duplicates, 1);
    assert!(tally.violations().is_empty(), "{:?}", tally.violations());
}

#[test]
fn more_duplicates_of_the_table_than_rows_were_open_in_kafka_are_a_violation() {
    let mut tally = tally();
    check(&mut tally, &held(), &[1, 4]);
    check(&mut tally, &leaving(), &[2]);
    check(&mut tally, &left(), &[2, 3, 3]);
    assert_violated(&tally, "2 duplicates of the table after 1 interruptions, more than 1");
}

#[test]
fn a_row_that_vanishes_or_changes_after_its_event_has_left_is_a_violation() {
    let mut tally = tally();
    check(&mut tally, &held(), &[1, 4]);
    check(&mut tally, &left(), &[2, 3]);
    check(&mut tally, &rows(HeldState::Dropped, [HeldState::Delivered, HeldState::Held]), &[]);
    assert_eq!(only_violation(&tally), format!("event {} was Delivered and is Held", id(3)));
    check(&mut tally, &left()[..2], &[]);
    assert_eq!(tally.violations().len(), 2);
    assert!(tally.violations()[1].contains("is gone from the table"));
}

#[test]
fn an_event_that_is_twice_in_the_table_is_a_violation() {
    let mut tally = tally();
    let mut table = held();
    table.push(row(3, 33, HeldState::Held));
    check(&mut tally, &table, &[1, 4]);
    assert!(only_violation(&tally).contains("is in the table twice"));
}

#[test]
fn an_event_that_was_in_kafka_before_it_was_held_is_a_violation() {
    let mut tally = tally();
    check_after_death(&mut tally, 10, &[1, 3], &[]);
    check(&mut tally, &leaving(), &[4]);
    assert!(only_violation(&tally).contains("was in Kafka before it was held"));
}

#[test]
fn an_event_that_can_be_delivered_and_is_a_dead_letter_or_dropped_is_a_violation() {
    let letter = HeldRow { code: Some("R009".to_owned()), ..row(3, 22, HeldState::Held) };
    for wrong in [letter, row(3, 22, HeldState::Dropped)] {
        let mut tally = tally();
        let mut table = held();
        table[2] = wrong;
        tally.check(&Observation {
            records: &ids(&[1, 4]),
            held: &table,
            held_later: &table,
            ..observed()
        });
        assert!(only_violation(&tally).contains("without a cause"));
    }
}

#[test]
fn a_poisoned_row_in_kafka_is_a_violation() {
    let mut tally = tally();
    check(&mut tally, &held(), &[1, 4, 7]);
    assert!(tally.violations()[0].contains("a poisoned row, is in Kafka"));
}

#[test]
fn a_dead_letter_that_is_confirmed_without_its_record_for_people_is_a_violation() {
    let mut tally = tally();
    let (position, table) = (PgLsn::from(ALL), held());
    for _ in 0..2 {
        tally.check(&Observation {
            confirmed: position,
            witness: Some(position),
            held: &table,
            held_later: &table,
            records: &ids(if tally.arrived.is_empty() { &[1, 4] } else { &[] }),
            ..observed()
        });
    }
    // It is reported once.
    assert!(only_violation(&tally).contains("has no record"));
}

#[test]
fn a_poisoned_row_that_is_not_dropped_in_the_end_and_an_event_that_stays_are_violations() {
    for (table, wrong) in [(held(), 3), (leaving(), 3), (Vec::new(), 1)] {
        let mut tally = tally();
        tally.check(&Observation { held: &table, held_later: &table, ..observed() });
        tally.check_all_left();
        assert_eq!(tally.violations().len(), wrong, "{:?}", tally.violations());
    }
}

#[test]
fn what_leaves_as_delivered_while_responses_are_held_is_a_violation_unless_it_was_released_before()
{
    let mut tally = tally();
    let early = row_of_event(1, HeldState::Held);
    let before: Vec<HeldRow> = held().into_iter().chain([early]).collect();
    let after = |behind: [HeldState; 2]| {
        let early = row_of_event(1, HeldState::Delivered);
        rows(HeldState::Dropped, behind).into_iter().chain([early]).collect::<Vec<_>>()
    };
    tally.check_release_while_held(&before, &after([HeldState::Held; 2]));
    assert_eq!(tally.violation_counts().left_ahead, 0);
    tally.check_release_while_held(&before, &after([HeldState::Delivered, HeldState::Held]));
    assert_eq!(tally.violation_counts().left_ahead, 1);
    assert!(only_violation(&tally).contains("while responses were held"));
}

#[test]
fn what_is_in_the_table_may_be_confirmed_while_responses_are_held() {
    let mut tally = tally();
    let at = |position: u64| PgLsn::from(position);
    tally.check_while_held(at(10), at(30), Some(at(30)), &held());
    assert_eq!(counts(&tally), [0; 4]);
    tally.check_while_held(at(10), at(30), Some(at(30)), &held()[..2]);
    assert_eq!(counts(&tally), [1, 0, 1, 0]);
}
