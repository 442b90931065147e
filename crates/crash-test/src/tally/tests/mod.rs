use super::*;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Events 1, 2 and 3, of transactions that end at 10, 20 and 20.
fn commits() -> [ObservedCommit; 3] {
    [(1, 10), (2, 20), (3, 20)].map(|(number, end)| commit(number, "a", end))
}

fn commit(number: u128, key: &str, end: u64) -> ObservedCommit {
    let (key, kind, end) = (key.to_owned(), RowKind::Event, PgLsn::from(end));
    ObservedCommit { id: id(number), key, kind, end }
}

fn ids(numbers: &[u128]) -> Vec<Uuid> {
    numbers.iter().copied().map(id).collect()
}

/// A killed router, which had confirmed nothing and left no witness behind.
fn observed() -> Observation<'static> {
    Observation {
        confirmed: PgLsn::from(0),
        status_flush: PgLsn::from(0),
        witness: None,
        witness_later: None,
        commits: &[],
        records: &[],
        late: &[],
        held: &[],
        held_later: &[],
        letters: &[],
        interruptions: 0,
        slot_persistence: SlotPersistence::Kept,
        ending: Ending::Killed,
    }
}

/// A check with a tally that knows [`commits`], where the witness is the slot's position.
fn check_after_death(
    tally: &mut Tally,
    confirmed: u64,
    records: &[u128],
    late: &[u128],
) -> RoundResult {
    let confirmed = PgLsn::from(confirmed);
    tally.check(&Observation {
        confirmed,
        witness: Some(confirmed),
        records: &ids(records),
        late: &ids(late),
        ..observed()
    })
}

fn tally(window: usize) -> Tally {
    let mut tally = Tally::new(window, PgLsn::from(0));
    tally.commit(&commits());
    tally
}

fn counts(tally: &Tally) -> [usize; 4] {
    let ViolationCounts { confirmed_ahead, slot_ahead, witness_ahead, repeated, .. } =
        tally.violation_counts();
    [confirmed_ahead, slot_ahead, witness_ahead, repeated]
}

#[test]
fn confirmed_events_in_kafka_are_no_violation_and_the_others_stay_missing() {
    let mut tally = tally(10);
    assert_eq!(check_after_death(&mut tally, 19, &[1, 2], &[]).duplicates, 0);
    assert_eq!((counts(&tally), tally.missing.len()), ([0; 4], 1));
    assert!(tally.violations().is_empty());
}

#[test]
fn confirming_a_position_past_an_event_that_is_not_in_kafka_is_a_violation() {
    let mut tally = tally(10);
    let ids = ids(&[1, 2]);
    tally.check(&Observation { confirmed: PgLsn::from(20), records: &ids, ..observed() });
    assert_eq!(counts(&tally)[0], 1);
    // A missing event is reported once.
    tally.check(&Observation { confirmed: PgLsn::from(20), ..observed() });
    assert_eq!(counts(&tally)[0], 1);
}

#[test]
fn a_record_that_arrives_after_the_death_does_not_make_the_confirmed_position_valid() {
    let mut tally = tally(10);
    check_after_death(&mut tally, 20, &[1, 2], &[3]);
    assert_eq!((tally.violation_counts().confirmed_ahead, tally.missing.len()), (1, 0));
}

#[test]
fn a_position_in_a_status_update_counts_as_confirmed_even_if_the_server_did_not_process_it() {
    let mut tally = tally(10);
    tally.check(&Observation {
        confirmed: PgLsn::from(10),
        status_flush: PgLsn::from(20),
        witness: Some(PgLsn::from(20)),
        records: &ids(&[1, 2]),
        ..observed()
    });
    assert_eq!(tally.violation_counts().confirmed_ahead, 1);
}

#[test]
fn a_slot_or_a_status_update_past_the_witness_is_a_violation_even_if_everything_is_in_kafka() {
    for (confirmed, status_flush, witness) in [(20, 0, Some(19)), (10, 20, Some(19)), (1, 0, None)]
    {
        let mut tally = tally(10);
        let at = |position: u64| PgLsn::from(position);
        tally.check(&Observation {
            confirmed: at(confirmed),
            status_flush: at(status_flush),
            witness: witness.map(at),
            // It came too late to count.
            witness_later: Some(at(20)),
            records: &ids(&[1, 2, 3]),
            ..observed()
        });
        assert_eq!(counts(&tally), [0, 1, 0, 0]);
        assert_eq!(tally.violations().len(), 1, "{:?}", tally.violations());
    }
}

#[test]
fn the_position_at_which_the_slot_was_created_needs_no_witness() {
    let slot_created_at = PgLsn::from(7);
    let mut tally = Tally::new(10, slot_created_at);
    tally.check(&Observation { confirmed: slot_created_at, ..observed() });
    assert!(tally.violations().is_empty(), "{:?}", tally.violations());
}

#[test]
fn a_witness_past_an_event_that_is_not_in_kafka_is_a_violation_even_if_the_witness_arrived_late() {
    let status_flush = [(Some(20), None), (Some(10), Some(20))];
    for (witness, witness_later) in
        status_flush.map(|(one, two)| (one.map(PgLsn::from), two.map(PgLsn::from)))
    {
        let mut tally = tally(10);
        // Event 3 arrives, but not before the router that wrote the witness was dead.
        let (records, late) = (ids(&[1, 2]), ids(&[3]));
        tally.check(&Observation {
            witness,
            witness_later,
            records: &records,
            late: &late,
            ..observed()
        });
        assert_eq!(counts(&tally), [0, 0, 1, 0]);
        assert_eq!(tally.violations().len(), 1, "{:?}", tally.violations());
    }
}

#[test]
fn a_repeated_event_is_a_duplicate_and_one_that_the_witness_covers_is_a_violation() {
    let mut tally = tally(10);
    assert_eq!(
        check_after_death(&mut tally, 10, &[1, 2], &[]),
        RoundResult { duplicates: 0, repeatable: 1 }
    );
    assert_eq!(
        check_after_death(&mut tally, 20, &[2, 3], &[]),
        RoundResult { duplicates: 1, repeatable: 0 }
    );
    assert!(tally.violations().is_empty());
    check_after_death(&mut tally, 20, &[3], &[]);
    assert_eq!((tally.duplicates(), counts(&tally)), (2, [0, 0, 0, 1]));
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn a_witness_with_an_earlier_position_than_before_is_a_violation() {
    for now in [Some(PgLsn::from(9)), None] {
        let mut tally = tally(10);
        check_after_death(&mut tally, 10, &[1], &[]);
        tally.check(&Observation { witness: now, ..observed() });
        let text = tally.violations().last().unwrap();
        assert!(text.contains("the witness went back from 0/A"), "{text}");
    }
}

#[test]
fn more_duplicates_than_the_window_and_the_open_transaction_are_a_violation() {
    let mut tally = tally(0);
    check_after_death(&mut tally, 0, &[1, 2, 3], &[]);
    check_after_death(&mut tally, 0, &[2, 3], &[]);
    assert!(tally.violations().is_empty(), "{:?}", tally.violations());
    check_after_death(&mut tally, 0, &[1, 2, 3], &[]);
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn an_event_that_is_repeated_after_a_drain_is_a_violation() {
    let mut tally = tally(10);
    let position = PgLsn::from(10);
    tally.check(&Observation {
        confirmed: position,
        status_flush: position,
        witness: Some(position),
        records: &ids(&[1, 2]),
        ending: Ending::Drained,
        ..observed()
    });
    check_after_death(&mut tally, 20, &[2, 3], &[]);
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn a_drain_without_its_last_position_in_the_slot_is_a_violation() {
    let mut tally = tally(10);
    tally.check(&Observation {
        confirmed: PgLsn::from(10),
        status_flush: PgLsn::from(20),
        witness: Some(PgLsn::from(20)),
        records: &ids(&[1, 2, 3]),
        ending: Ending::Drained,
        ..observed()
    });
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn after_a_crash_the_slot_may_go_back_but_the_witness_still_covers_its_events() {
    let covered = Some(PgLsn::from(20));
    let forgot = |tally: &mut Tally, records: &[u128]| {
        check_after_death(tally, 20, &[1, 2, 3], &[]);
        tally.check(&Observation {
            witness: covered,
            // The observer's slot was forgotten with it.
            commits: &commits(),
            records: &ids(records),
            interruptions: 1,
            slot_persistence: SlotPersistence::Lost,
            ..observed()
        });
    };
    let (mut good, mut bad) = (tally(10), tally(10));
    forgot(&mut good, &[]);
    assert!(good.violations().is_empty(), "{:?}", good.violations());
    assert_eq!(good.sizes.values().sum::<usize>(), 3);
    forgot(&mut bad, &[1]);
    assert_eq!(counts(&bad), [0, 0, 0, 1]);
}

#[test]
fn a_confirmed_position_that_goes_back_is_a_violation() {
    let mut tally = tally(10);
    check_after_death(&mut tally, 10, &[1], &[]);
    let witness = Some(PgLsn::from(10));
    tally.check(&Observation { confirmed: PgLsn::from(9), witness, ..observed() });
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn confirming_or_recording_an_event_whose_ack_is_held_is_a_violation_even_if_its_record_is_in_kafka()
 {
    let at = |position: u64| PgLsn::from(position);
    let mut tally = tally(10);
    let held_from = at(10);
    assert_eq!(tally.first_end_after(held_from), Some(at(20)));
    tally.check_while_held(held_from, at(5), Some(at(19)), &[]);
    assert_eq!(counts(&tally), [0; 4]);
    tally.check_while_held(held_from, at(20), Some(at(5)), &[]);
    assert_eq!(counts(&tally), [2, 0, 0, 0]);
    tally.check_while_held(held_from, at(10), Some(at(20)), &[]);
    assert_eq!(counts(&tally), [2, 0, 2, 0]);
}

mod held;
