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
fn sight() -> Sight<'static> {
    Sight {
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

/// A look at books that know [`commits`], where the witness is the slot's position.
fn look(books: &mut Books, confirmed: u64, records: &[u128], late: &[u128]) -> Finding {
    let confirmed = PgLsn::from(confirmed);
    books.look(&Sight {
        confirmed,
        witness: Some(confirmed),
        records: &ids(records),
        late: &ids(late),
        ..sight()
    })
}

fn books(window: usize) -> Books {
    let mut books = Books::new(window, PgLsn::from(0));
    books.commit(&commits());
    books
}

fn wrong(books: &Books) -> [usize; 4] {
    let Wrong { confirmed_ahead, slot_ahead, witness_ahead, repeated } = books.wrong();
    [confirmed_ahead, slot_ahead, witness_ahead, repeated]
}

#[test]
fn what_is_confirmed_and_in_kafka_is_fine_and_the_rest_is_missing() {
    let mut books = books(10);
    assert_eq!(look(&mut books, 19, &[1, 2], &[]).duplicates, 0);
    assert_eq!((wrong(&books), books.missing.len()), ([0; 4], 1));
    assert!(books.violations().is_empty());
}

#[test]
fn a_position_past_an_event_that_is_not_there_is_ahead_of_it() {
    let mut books = books(10);
    let ids = ids(&[1, 2]);
    books.look(&Sight { confirmed: PgLsn::from(20), records: &ids, ..sight() });
    assert_eq!(wrong(&books)[0], 1);
    // What is missing is told once.
    books.look(&Sight { confirmed: PgLsn::from(20), ..sight() });
    assert_eq!(wrong(&books)[0], 1);
}

#[test]
fn a_record_that_came_after_the_death_does_not_excuse_the_position() {
    let mut books = books(10);
    look(&mut books, 20, &[1, 2], &[3]);
    assert_eq!((books.wrong().confirmed_ahead, books.missing.len()), (1, 0));
}

#[test]
fn a_position_that_only_left_the_router_counts_as_confirmed() {
    let mut books = books(10);
    books.look(&Sight {
        confirmed: PgLsn::from(10),
        told: PgLsn::from(20),
        witness: Some(PgLsn::from(20)),
        records: &ids(&[1, 2]),
        ..sight()
    });
    assert_eq!(books.wrong().confirmed_ahead, 1);
}

#[test]
fn a_slot_or_a_promise_past_the_witness_is_ahead_of_it_although_everything_is_in_kafka() {
    for (confirmed, told, witness) in [(20, 0, Some(19)), (10, 20, Some(19)), (1, 0, None)] {
        let mut books = books(10);
        let at = |position: u64| PgLsn::from(position);
        books.look(&Sight {
            confirmed: at(confirmed),
            told: at(told),
            witness: witness.map(at),
            // It came too late to count.
            witness_later: Some(at(20)),
            records: &ids(&[1, 2, 3]),
            ..sight()
        });
        assert_eq!(wrong(&books), [0, 1, 0, 0]);
        assert_eq!(books.violations().len(), 1, "{:?}", books.violations());
    }
}

#[test]
fn where_the_slot_was_made_nothing_was_confirmed_so_no_witness_has_to_say_it() {
    let made = PgLsn::from(7);
    let mut books = Books::new(10, made);
    books.look(&Sight { confirmed: made, ..sight() });
    assert!(books.violations().is_empty(), "{:?}", books.violations());
}

#[test]
fn a_witness_past_an_event_that_is_not_in_kafka_is_ahead_of_the_acks_also_when_it_came_late() {
    let told = [(Some(20), None), (Some(10), Some(20))];
    for (witness, witness_later) in
        told.map(|(one, two)| (one.map(PgLsn::from), two.map(PgLsn::from)))
    {
        let mut books = books(10);
        // Event 3 arrives, but not before the router that wrote the witness was dead.
        let (records, late) = (ids(&[1, 2]), ids(&[3]));
        books.look(&Sight { witness, witness_later, records: &records, late: &late, ..sight() });
        assert_eq!(wrong(&books), [0, 0, 1, 0]);
        assert_eq!(books.violations().len(), 1, "{:?}", books.violations());
    }
}

#[test]
fn a_repeated_event_counts_and_one_that_the_witness_covers_is_a_violation() {
    let mut books = books(10);
    assert_eq!(look(&mut books, 10, &[1, 2], &[]), Finding { duplicates: 0, past_witness: 1 });
    assert_eq!(look(&mut books, 20, &[2, 3], &[]), Finding { duplicates: 1, past_witness: 0 });
    assert!(books.violations().is_empty());
    look(&mut books, 20, &[3], &[]);
    assert_eq!((books.duplicates(), wrong(&books)), (2, [0, 0, 0, 1]));
    assert_eq!(books.violations().len(), 1);
}

#[test]
fn a_witness_that_says_less_than_before_is_a_violation() {
    for now in [Some(PgLsn::from(9)), None] {
        let mut books = books(10);
        look(&mut books, 10, &[1], &[]);
        books.look(&Sight { witness: now, ..sight() });
        let text = books.violations().last().unwrap();
        assert!(text.contains("the witness went back from 0/A"), "{text}");
    }
}

#[test]
fn more_duplicates_than_the_window_and_the_open_transaction_are_a_violation() {
    let mut books = books(0);
    look(&mut books, 0, &[1, 2, 3], &[]);
    look(&mut books, 0, &[2, 3], &[]);
    assert!(books.violations().is_empty(), "{:?}", books.violations());
    look(&mut books, 0, &[1, 2, 3], &[]);
    assert_eq!(books.violations().len(), 1);
}

#[test]
fn after_a_drain_nothing_may_come_again() {
    let mut books = books(10);
    let position = PgLsn::from(10);
    books.look(&Sight {
        confirmed: position,
        told: position,
        witness: Some(position),
        records: &ids(&[1, 2]),
        ending: Ending::Drained,
        ..sight()
    });
    look(&mut books, 20, &[2, 3], &[]);
    assert_eq!(books.violations().len(), 1);
}

#[test]
fn a_drain_that_the_server_did_not_hear_of_is_a_violation() {
    let mut books = books(10);
    books.look(&Sight {
        confirmed: PgLsn::from(10),
        told: PgLsn::from(20),
        witness: Some(PgLsn::from(20)),
        records: &ids(&[1, 2, 3]),
        ending: Ending::Drained,
        ..sight()
    });
    assert_eq!(books.violations().len(), 1);
}

#[test]
fn a_server_that_forgot_what_it_was_told_may_go_back_but_what_was_covered_stays_covered() {
    let covered = Some(PgLsn::from(20));
    let forgot = |books: &mut Books, records: &[u128]| {
        look(books, 20, &[1, 2, 3], &[]);
        books.look(&Sight {
            witness: covered,
            // The observer's slot was forgotten with it.
            commits: &commits(),
            records: &ids(records),
            interruptions: 1,
            memory: Memory::Lost,
            ..sight()
        });
    };
    let (mut good, mut bad) = (books(10), books(10));
    forgot(&mut good, &[]);
    assert!(good.violations().is_empty(), "{:?}", good.violations());
    assert_eq!(good.sizes.values().sum::<usize>(), 3);
    forgot(&mut bad, &[1]);
    assert_eq!(wrong(&bad), [0, 0, 0, 1]);
}

#[test]
fn a_position_that_goes_back_is_a_violation() {
    let mut books = books(10);
    look(&mut books, 10, &[1], &[]);
    let witness = Some(PgLsn::from(10));
    books.look(&Sight { confirmed: PgLsn::from(9), witness, ..sight() });
    assert_eq!(books.violations().len(), 1);
}

#[test]
fn a_held_event_that_is_confirmed_or_in_the_witness_is_ahead_wherever_its_record_is() {
    let at = |position: u64| PgLsn::from(position);
    let mut books = books(10);
    let held_from = at(10);
    assert_eq!(books.first_end_after(held_from), Some(at(20)));
    books.look_while_held(held_from, at(5), Some(at(19)));
    assert_eq!(wrong(&books), [0; 4]);
    books.look_while_held(held_from, at(20), Some(at(5)));
    assert_eq!(wrong(&books), [2, 0, 0, 0]);
    books.look_while_held(held_from, at(10), Some(at(20)));
    assert_eq!(wrong(&books), [2, 0, 2, 0]);
}
