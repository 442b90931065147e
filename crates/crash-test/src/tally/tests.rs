use super::*;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Events 1, 2 and 3, of transactions that end at 10, 20 and 20.
fn commits() -> [Commit; 3] {
    [(1, 10), (2, 20), (3, 20)]
        .map(|(number, end)| Commit { id: id(number), end: PgLsn::from(end) })
}

fn ids(numbers: &[u128]) -> Vec<Uuid> {
    numbers.iter().copied().map(id).collect()
}

/// A killed router, which had confirmed nothing and left no witness behind.
fn observed() -> Observation<'static> {
    Observation {
        confirmed: PgLsn::from(0),
        told: PgLsn::from(0),
        witness: None,
        witness_later: None,
        commits: &[],
        records: &[],
        late: &[],
        interruptions: 0,
        memory: Memory::Kept,
        ending: Ending::Killed,
    }
}

/// A look at a tally that knows [`commits`], where the witness is the slot's position.
fn look(tally: &mut Tally, confirmed: u64, records: &[u128], late: &[u128]) -> Finding {
    let confirmed = PgLsn::from(confirmed);
    tally.look(&Observation {
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

fn wrong(tally: &Tally) -> [usize; 4] {
    let Wrong { confirmed_ahead, slot_ahead, witness_ahead, repeated } = tally.wrong();
    [confirmed_ahead, slot_ahead, witness_ahead, repeated]
}

#[test]
fn what_is_confirmed_and_in_kafka_is_fine_and_the_rest_is_missing() {
    let mut tally = tally(10);
    assert_eq!(look(&mut tally, 19, &[1, 2], &[]).duplicates, 0);
    assert_eq!((wrong(&tally), tally.missing.len()), ([0; 4], 1));
    assert!(tally.violations().is_empty());
}

#[test]
fn a_position_past_an_event_that_is_not_there_is_ahead_of_it() {
    let mut tally = tally(10);
    let ids = ids(&[1, 2]);
    tally.look(&Observation { confirmed: PgLsn::from(20), records: &ids, ..observed() });
    assert_eq!(wrong(&tally)[0], 1);
    // What is missing is told once.
    tally.look(&Observation { confirmed: PgLsn::from(20), ..observed() });
    assert_eq!(wrong(&tally)[0], 1);
}

#[test]
fn a_record_that_came_after_the_death_does_not_excuse_the_position() {
    let mut tally = tally(10);
    look(&mut tally, 20, &[1, 2], &[3]);
    assert_eq!((tally.wrong().confirmed_ahead, tally.missing.len()), (1, 0));
}

#[test]
fn a_position_that_only_left_the_router_counts_as_confirmed() {
    let mut tally = tally(10);
    tally.look(&Observation {
        confirmed: PgLsn::from(10),
        told: PgLsn::from(20),
        witness: Some(PgLsn::from(20)),
        records: &ids(&[1, 2]),
        ..observed()
    });
    assert_eq!(tally.wrong().confirmed_ahead, 1);
}

#[test]
fn a_slot_or_a_promise_past_the_witness_is_ahead_of_it_although_everything_is_in_kafka() {
    for (confirmed, told, witness) in [(20, 0, Some(19)), (10, 20, Some(19)), (1, 0, None)] {
        let mut tally = tally(10);
        let at = |position: u64| PgLsn::from(position);
        tally.look(&Observation {
            confirmed: at(confirmed),
            told: at(told),
            witness: witness.map(at),
            // It came too late to count.
            witness_later: Some(at(20)),
            records: &ids(&[1, 2, 3]),
            ..observed()
        });
        assert_eq!(wrong(&tally), [0, 1, 0, 0]);
        assert_eq!(tally.violations().len(), 1, "{:?}", tally.violations());
    }
}

#[test]
fn where_the_slot_was_made_nothing_was_confirmed_so_no_witness_has_to_say_it() {
    let made = PgLsn::from(7);
    let mut tally = Tally::new(10, made);
    tally.look(&Observation { confirmed: made, ..observed() });
    assert!(tally.violations().is_empty(), "{:?}", tally.violations());
}

#[test]
fn a_witness_past_an_event_that_is_not_in_kafka_is_ahead_of_the_acks_also_when_it_came_late() {
    let told = [(Some(20), None), (Some(10), Some(20))];
    for (witness, witness_later) in
        told.map(|(one, two)| (one.map(PgLsn::from), two.map(PgLsn::from)))
    {
        let mut tally = tally(10);
        // Event 3 arrives, but not before the router that wrote the witness was dead.
        let (records, late) = (ids(&[1, 2]), ids(&[3]));
        tally.look(&Observation {
            witness,
            witness_later,
            records: &records,
            late: &late,
            ..observed()
        });
        assert_eq!(wrong(&tally), [0, 0, 1, 0]);
        assert_eq!(tally.violations().len(), 1, "{:?}", tally.violations());
    }
}

#[test]
fn a_repeated_event_counts_and_one_that_the_witness_covers_is_a_violation() {
    let mut tally = tally(10);
    assert_eq!(look(&mut tally, 10, &[1, 2], &[]), Finding { duplicates: 0, past_witness: 1 });
    assert_eq!(look(&mut tally, 20, &[2, 3], &[]), Finding { duplicates: 1, past_witness: 0 });
    assert!(tally.violations().is_empty());
    look(&mut tally, 20, &[3], &[]);
    assert_eq!((tally.duplicates(), wrong(&tally)), (2, [0, 0, 0, 1]));
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn a_witness_that_says_less_than_before_is_a_violation() {
    for now in [Some(PgLsn::from(9)), None] {
        let mut tally = tally(10);
        look(&mut tally, 10, &[1], &[]);
        tally.look(&Observation { witness: now, ..observed() });
        let text = tally.violations().last().unwrap();
        assert!(text.contains("the witness went back from 0/A"), "{text}");
    }
}

#[test]
fn more_duplicates_than_the_window_and_the_open_transaction_are_a_violation() {
    let mut tally = tally(0);
    look(&mut tally, 0, &[1, 2, 3], &[]);
    look(&mut tally, 0, &[2, 3], &[]);
    assert!(tally.violations().is_empty(), "{:?}", tally.violations());
    look(&mut tally, 0, &[1, 2, 3], &[]);
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn after_a_drain_nothing_may_come_again() {
    let mut tally = tally(10);
    let position = PgLsn::from(10);
    tally.look(&Observation {
        confirmed: position,
        told: position,
        witness: Some(position),
        records: &ids(&[1, 2]),
        ending: Ending::Drained,
        ..observed()
    });
    look(&mut tally, 20, &[2, 3], &[]);
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn a_drain_that_the_server_did_not_hear_of_is_a_violation() {
    let mut tally = tally(10);
    tally.look(&Observation {
        confirmed: PgLsn::from(10),
        told: PgLsn::from(20),
        witness: Some(PgLsn::from(20)),
        records: &ids(&[1, 2, 3]),
        ending: Ending::Drained,
        ..observed()
    });
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn a_server_that_forgot_what_it_was_told_may_go_back_but_what_was_covered_stays_covered() {
    let covered = Some(PgLsn::from(20));
    let forgot = |tally: &mut Tally, records: &[u128]| {
        look(tally, 20, &[1, 2, 3], &[]);
        tally.look(&Observation {
            witness: covered,
            // The observer's slot was forgotten with it.
            commits: &commits(),
            records: &ids(records),
            interruptions: 1,
            memory: Memory::Lost,
            ..observed()
        });
    };
    let (mut good, mut bad) = (tally(10), tally(10));
    forgot(&mut good, &[]);
    assert!(good.violations().is_empty(), "{:?}", good.violations());
    assert_eq!(good.sizes.values().sum::<usize>(), 3);
    forgot(&mut bad, &[1]);
    assert_eq!(wrong(&bad), [0, 0, 0, 1]);
}

#[test]
fn a_position_that_goes_back_is_a_violation() {
    let mut tally = tally(10);
    look(&mut tally, 10, &[1], &[]);
    let witness = Some(PgLsn::from(10));
    tally.look(&Observation { confirmed: PgLsn::from(9), witness, ..observed() });
    assert_eq!(tally.violations().len(), 1);
}

#[test]
fn a_held_event_that_is_confirmed_or_in_the_witness_is_ahead_wherever_its_record_is() {
    let at = |position: u64| PgLsn::from(position);
    let mut tally = tally(10);
    let held_from = at(10);
    assert_eq!(tally.first_end_after(held_from), Some(at(20)));
    tally.look_while_held(held_from, at(5), Some(at(19)));
    assert_eq!(wrong(&tally), [0; 4]);
    tally.look_while_held(held_from, at(20), Some(at(5)));
    assert_eq!(wrong(&tally), [2, 0, 0, 0]);
    tally.look_while_held(held_from, at(10), Some(at(20)));
    assert_eq!(wrong(&tally), [2, 0, 2, 0]);
}
