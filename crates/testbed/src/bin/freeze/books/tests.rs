use super::*;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Events 1, 2 and 3, of transactions that end at 10, 20 and 20.
fn commits() -> [Commit; 3] {
    [(1, 10), (2, 20), (3, 20)]
        .map(|(number, end)| Commit { id: id(number), end: PgLsn::from(end) })
}

/// A look at books that know [`commits`].
fn look(books: &mut Books, confirmed: u64, records: &[u128], late: &[u128]) -> Finding {
    let ids = |numbers: &[u128]| -> Vec<Uuid> { numbers.iter().copied().map(id).collect() };
    books.look(&Sight {
        confirmed: PgLsn::from(confirmed),
        told: PgLsn::from(0),
        commits: &[],
        records: &ids(records),
        late: &ids(late),
        interruptions: 0,
        memory: Memory::Kept,
        ending: Ending::Killed,
    })
}

fn books(window: usize) -> Books {
    let mut books = Books::new(window);
    books.commit(&commits());
    books
}

#[test]
fn what_is_confirmed_and_in_kafka_is_fine_and_the_rest_is_missing() {
    let mut books = books(10);
    assert_eq!(look(&mut books, 19, &[1, 2], &[]).duplicates, 0);
    assert_eq!((books.ahead(), books.missing.len()), (0, 1));
    assert!(books.violations().is_empty());
}

#[test]
fn a_position_past_an_event_that_is_not_there_is_ahead_of_it() {
    let mut books = books(10);
    look(&mut books, 20, &[1, 2], &[]);
    assert_eq!((books.ahead(), books.violations().len()), (1, 1));
}

#[test]
fn a_record_that_came_after_the_death_does_not_excuse_the_position() {
    let mut books = books(10);
    look(&mut books, 20, &[1, 2], &[3]);
    assert_eq!((books.ahead(), books.missing.len()), (1, 0));
}

#[test]
fn a_position_that_only_left_the_router_counts_as_confirmed() {
    let mut books = books(10);
    books.look(&Sight {
        confirmed: PgLsn::from(10),
        told: PgLsn::from(20),
        commits: &[],
        records: &[id(1), id(2)],
        late: &[],
        interruptions: 0,
        memory: Memory::Kept,
        ending: Ending::Killed,
    });
    assert_eq!(books.ahead(), 1);
}

#[test]
fn a_repeated_event_counts_and_one_that_was_confirmed_is_a_violation() {
    let mut books = books(10);
    look(&mut books, 10, &[1, 2], &[]);
    assert_eq!(look(&mut books, 20, &[2, 3], &[]).duplicates, 1);
    assert!(books.violations().is_empty());
    look(&mut books, 20, &[3], &[]);
    assert_eq!((books.duplicates(), books.violations().len()), (2, 1));
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
    books.look(&Sight {
        confirmed: PgLsn::from(10),
        told: PgLsn::from(10),
        commits: &[],
        records: &[id(1), id(2)],
        late: &[],
        interruptions: 0,
        memory: Memory::Kept,
        ending: Ending::Drained,
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
        commits: &[],
        records: &[id(1), id(2), id(3)],
        late: &[],
        interruptions: 0,
        memory: Memory::Kept,
        ending: Ending::Drained,
    });
    assert_eq!(books.violations().len(), 1);
}

#[test]
fn a_server_that_forgot_what_it_was_told_excuses_what_follows_from_it() {
    let mut books = books(0);
    look(&mut books, 20, &[1, 2, 3], &[]);
    books.look(&Sight {
        confirmed: PgLsn::from(0),
        told: PgLsn::from(20),
        commits: &[],
        records: &[],
        late: &[],
        interruptions: 0,
        memory: Memory::Lost,
        ending: Ending::Killed,
    });
    look(&mut books, 20, &[1, 2, 3], &[]);
    assert!(books.violations().is_empty(), "{:?}", books.violations());
}

#[test]
fn a_position_that_goes_back_is_a_violation() {
    let mut books = books(10);
    look(&mut books, 10, &[1], &[]);
    look(&mut books, 9, &[], &[]);
    assert_eq!(books.violations().len(), 1);
}

#[test]
fn a_held_event_that_is_confirmed_is_ahead_wherever_its_record_is() {
    let mut books = books(10);
    let held_from = PgLsn::from(10);
    assert_eq!(books.first_end_after(held_from), Some(PgLsn::from(20)));
    books.look_while_held(held_from, PgLsn::from(19));
    assert_eq!(books.ahead(), 0);
    books.look_while_held(held_from, PgLsn::from(20));
    assert_eq!(books.ahead(), 2);
}
