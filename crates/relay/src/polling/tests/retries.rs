//! Rows that cannot be delivered.

use std::time::Duration;

use super::{
    super::*,
    world::{RowState, World, dead_letters, settings, two_tables},
};
use crate::{
    failure::{Code, Failure},
    held::HoldKeys,
    protocol::OnFailed,
};

const K: Option<&str> = Some("k");
const L: Option<&str> = Some("l");
const SECOND: Duration = Duration::from_secs(1);

/// The broker refuses every record of this row, and acknowledges the others.
fn refuse(world: &mut World, id: &str) {
    world.settle();
    while world.sink.in_flight() > 0 {
        let lanes = world.sink.waiting();
        let refused = lanes.into_iter().find(|lane| is(world, *lane, id));
        let Some(lane) = refused else {
            let mut acks = crate::Acks::default();
            for lane in world.sink.waiting() {
                while !is(world, lane, id) && world.sink.store(lane).is_some() {
                    world.sink.ack(lane, &mut acks);
                }
            }
            world.input(PollInput::Acks(&acks));
            world.settle();
            continue;
        };
        let transaction = world.sink.fail(lane);
        let failure = Failure::new(Code::RecordRefused, "the broker refuses the record");
        world.input(PollInput::DeliveryFailed { transaction, failure });
        world.settle();
    }
}

fn is(world: &World, lane: crate::testing::Lane, id: &str) -> bool {
    let next = world.sink.next(lane);
    next.is_some_and(|record| {
        record
            .headers
            .iter()
            .any(|(name, value)| name == "id" && value.as_deref() == Some(id.as_bytes()))
    })
}

#[test]
fn a_process_that_is_to_exit_where_a_person_is_needed_does_so_after_its_batch() {
    use RowState::{Pending, Published};
    for (on_failed, expected) in
        [(OnFailed::Stay, None), (OnFailed::Exit, Some(ExitReason::Failed))]
    {
        let mut world = World::new(PollerSettings { on_failed, ..settings() });
        world.insert(&[K, L, K, L]);
        refuse(&mut world, "0");
        world.run();
        assert_eq!(world.states(), [Pending, Published, Pending, Published]);
        assert_eq!(world.exited, expected);
        let report = world.core.report(world.now);
        assert_eq!(report.state, PollState::Failed);
        assert_eq!(report.reason.map(|failure| failure.code), Some(Code::RecordRefused));
    }
}

#[test]
fn a_row_that_is_abandoned_by_itself_ends_no_process() {
    let mut world = World::new(PollerSettings {
        on_error: dead_letters(),
        on_failed: OnFailed::Exit,
        ..settings()
    });
    world.insert(&[K, L]);
    refuse(&mut world, "0");
    world.run();
    assert_eq!(world.exited, None);
}

#[test]
fn a_process_that_is_to_exit_does_so_where_a_table_is_gone_or_its_marks_are_refused() {
    let exits = || World::new(PollerSettings { on_failed: OnFailed::Exit, ..settings() });
    let mut world = exits();
    world.dropped = Some(TableIndex(0));
    world.run();
    assert_eq!(world.exited, Some(ExitReason::Failed));

    let mut world = exits();
    world.insert(&[K]);
    world.settle();
    world.produce();
    world.dropped = Some(TableIndex(0));
    world.ack_all();
    assert_eq!(world.exited, Some(ExitReason::Failed));
    assert_eq!(world.states(), [RowState::Pending]);
}

#[test]
fn nothing_of_a_key_passes_its_row_that_waits_and_other_keys_go_on() {
    let mut world = World::new(settings());
    world.insert(&[K, L, K, L]);
    refuse(&mut world, "0");
    world.run();
    use RowState::{Pending, Published};
    assert_eq!(world.states(), [Pending, Published, Pending, Published]);
    assert_eq!(world.table[0].attempts, 1);
    let report = world.core.report(world.now);
    assert_eq!((report.state, report.tables[0].waiting), (PollState::Failed, 1));
    // The broker takes it at the next attempt.
    world.pass(SECOND);
    world.run();
    assert_eq!(world.states(), [Published; 4]);
    let order = world.produced();
    let place = |id: &str| order.iter().position(|one| one == id).unwrap();
    assert!(place("0") < place("2"), "{order:?}");
    assert_eq!(world.core.report(world.now).state, PollState::Polling);
}

#[test]
fn without_holding_the_later_rows_of_the_key_are_delivered() {
    let mut world = World::new(PollerSettings { hold_keys: HoldKeys::No, ..settings() });
    world.insert(&[K, K, K]);
    refuse(&mut world, "0");
    world.run();
    use RowState::{Pending, Published};
    assert_eq!(world.states(), [Pending, Published, Published]);
}

#[test]
fn a_row_is_abandoned_after_its_last_attempt_where_on_error_says_so() {
    let mut world = World::new(PollerSettings { on_error: dead_letters(), ..settings() });
    world.waits = WaitsKept::InTable;
    world.insert(&[K]);
    for attempt in 1..=5 {
        refuse(&mut world, "0");
        assert_eq!(world.table[0].attempts, attempt);
        let report = world.core.report(world.now);
        assert_eq!(report.state, PollState::Polling, "it waits for nobody");
        world.pass(Duration::from_secs(60));
    }
    assert_eq!(world.states(), [RowState::Abandoned]);
    assert_eq!(world.core.report(world.now).tables[0].abandoned, 1);
}

#[test]
fn without_dead_letters_a_row_waits_longer_and_longer_and_is_never_abandoned() {
    let mut world = World::new(settings());
    world.insert(&[None]);
    world.run();
    // Its key is NULL, and a key is needed.
    assert_eq!(world.table[0].attempts, 1);
    for attempts in 2..12 {
        world.pass(Duration::from_secs(300));
        world.run();
        assert_eq!((world.table[0].attempts, world.table[0].state), (attempts, RowState::Pending));
    }
    let report = world.core.report(world.now);
    assert_eq!((report.state, report.reason.unwrap().code), (PollState::Failed, Code::KeyIsNull));
    world.table[0].key = K;
    world.pass(Duration::from_secs(300));
    world.run();
    assert_eq!(world.states(), [RowState::Published], "a row that was corrected is delivered");
}

/// A row that waits is given a key, and then another row of that key is written.
fn corrected(settings: PollerSettings) -> World {
    let mut world = World::new(settings);
    world.insert(&[None, K]);
    world.run();
    world.table[0].key = K;
    world.insert(&[K]);
    world.input(PollInput::Notified(TableIndex(0)));
    world.pass(super::super::table::BETWEEN_NOTIFIED);
    world.run();
    world
}

#[test]
fn a_row_that_is_given_another_key_does_not_wait_and_is_not_passed_by_rows_of_that_key() {
    for batch in [1, 4] {
        let world = corrected(PollerSettings { batch, ..settings() });
        assert_eq!(world.states(), [RowState::Published; 3], "batch = {batch}");
        assert_eq!(world.produced(), ["1", "0", "2"], "batch = {batch}");
    }
}

#[test]
fn no_more_keys_wait_than_the_limit_allows() {
    let mut world = World::new(PollerSettings { keys_max: 2, ..settings() });
    for row in 0..3 {
        world.insert(&[Some(["a", "b", "c"][row])]);
        world.table[row].topic = "not legal!";
    }
    world.run();
    let report = world.core.report(world.now);
    assert_eq!(report.reason.unwrap().code, Code::TopicIllegal, "all came in one batch");
    world.insert(&[Some("d")]);
    world.pass(Duration::from_millis(500));
    world.input(PollInput::Notified(TableIndex(0)));
    world.run();
    let report = world.core.report(world.now);
    assert_eq!(report.tables[0].failure.as_ref().unwrap().code, Code::HeldFull);
    assert_eq!(world.table[3].state, RowState::Pending);
    for row in &mut world.table {
        row.topic = "t";
    }
    world.pass(SECOND);
    world.run();
    assert_eq!(world.states(), [RowState::Published; 4]);
}

/// The report of a refused request names its first record, whichever record was the reason.
#[test]
fn a_row_is_blamed_only_when_it_was_produced_alone() {
    let mut world = World::new(PollerSettings { batch: 10, ..settings() });
    world.insert(&[K, L, K, L, K]);
    let bad = "3";
    world.settle();
    for _ in 0..100 {
        while world.sink.in_flight() > 0 {
            let records = world.sink.waiting().into_iter().find(|lane| has(&world, *lane, bad));
            match records {
                Some(lane) => {
                    let transaction = world.sink.fail(lane);
                    let failure =
                        Failure::new(Code::RecordRefused, "the broker refuses the record");
                    world.input(PollInput::DeliveryFailed { transaction, failure });
                    world.settle();
                }
                None => world.ack_all(),
            }
        }
        world.pass(Duration::from_millis(100));
        world.settle();
    }
    let attempts: Vec<u32> = world.table.iter().map(|row| row.attempts).collect();
    assert!(attempts[3] > 0, "{attempts:?}");
    assert_eq!([attempts[0], attempts[1], attempts[2], attempts[4]], [0; 4]);
    use RowState::{Pending, Published};
    assert_eq!(world.states(), [Published, Published, Published, Pending, Published]);

    // Afterwards rows come in batches again.
    world.asked.clear();
    world.insert(&[K, L, K, L]);
    for _ in 0..20 {
        world.pass(Duration::from_millis(100));
        world.settle();
        if world.sink.in_flight() > 1 {
            return;
        }
        world.ack_all();
    }
    panic!("rows are produced one by one for ever: {:?}", world.asked);
}

/// Otherwise the count of rows that are read alone would be used up by rows of other tables.
#[test]
fn only_the_table_of_a_refused_record_is_read_one_by_one() {
    let (refused, other) = (TableIndex(0), TableIndex(1));
    let mut world = World::new(two_tables());
    world.insert_into(refused, &[K, L, K, L]);
    world.settle();
    let lane = world.sink.waiting()[0];
    let transaction = world.sink.fail(lane);
    let failure = Failure::new(Code::RecordRefused, "the broker refuses one of the records");
    world.input(PollInput::DeliveryFailed { transaction, failure });
    world.insert_into(other, &[K; 8]);
    world.pass(SECOND);
    let mut limits = [Vec::new(), Vec::new()];
    for _ in 0..100 {
        let Some(action) = world.take_asked() else {
            world.produce();
            let acks = world.sink.ack_all();
            world.input(PollInput::Acks(&acks));
            continue;
        };
        if let PollAction::Fetch(request) = &action {
            limits[request.table.0].push(request.limit);
        }
        world.answer(action);
    }
    assert_eq!(world.states(), [RowState::Published; 12]);
    assert_eq!(limits[refused.0], [1, 1, 1, 1, 4], "as many as there were, and then no more");
    assert_eq!(limits[other.0], [4, 4, 4]);
}

/// Its failure arrives although nothing was produced.
#[test]
fn a_record_that_the_producer_does_not_take_is_an_attempt_of_its_row() {
    for (row, others) in [("0", ["1", "3"]), ("1", ["0", "2"])] {
        let mut world = World::new(PollerSettings { on_error: dead_letters(), ..settings() });
        world.insert(&[K, L, K, L]);
        world.not_taken = Some(row);
        world.run();
        let attempts: Vec<u32> = world.table.iter().map(|row| row.attempts).collect();
        assert_eq!(attempts, if row == "0" { [1, 0, 0, 0] } else { [0, 1, 0, 0] });
        for id in others {
            let place: usize = id.parse().unwrap();
            assert_eq!(world.table[place].state, RowState::Published, "{id}");
        }
        world.not_taken = None;
        world.pass(SECOND);
        world.run();
        assert_eq!(world.states(), [RowState::Published; 4]);
    }
}

/// A producer may say of the second record what has befallen the first.
#[test]
fn a_row_whose_record_is_not_taken_is_not_blamed_while_another_is_in_flight() {
    let mut world = World::new(settings());
    world.insert(&[K, L]);
    world.not_taken = Some("1");
    world.produce_first();
    assert!(!world.asked.is_empty(), "another producer is made");
    world.not_taken = None;
    world.run();
    assert_eq!(world.states(), [RowState::Published; 2]);
    assert_eq!(world.table[1].attempts, 0);
}

/// Whether the record of a row waits in a partition.
fn has(world: &World, lane: crate::testing::Lane, id: &str) -> bool {
    world.sink.waiting_records(lane).any(|record| {
        let is_id = |(name, value): &(String, Option<Vec<u8>>)| {
            name == "id" && value.as_deref() == Some(id.as_bytes())
        };
        record.headers.iter().any(is_id)
    })
}
