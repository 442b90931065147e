//! When a table is read.

use std::time::Duration;

use super::{
    super::{table::BETWEEN_NOTIFIED, *},
    world::{RowState, World, settings},
};

const K: Option<&str> = Some("k");
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const TABLE: TableIndex = TableIndex(0);

fn batches(world: &World) -> u64 {
    world.core.report(world.now).tables[0].batches
}

/// Where NOTIFY wakes the router, an interval may be long.
fn with_a_long_interval() -> PollerSettings {
    PollerSettings { interval: MINUTE * 10, ..settings() }
}

/// A reading that a NOTIFY asks for, and that takes so long.
fn read_for(world: &mut World, time: Duration) {
    world.input(PollInput::Notified(TABLE));
    let Some(fetch @ PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    world.pass(time);
    world.input(PollInput::Notified(TABLE));
    world.answer(fetch);
}

#[test]
fn after_a_reading_that_found_nothing_a_notify_waits_for_as_long_as_that_took() {
    let mut world = World::new(settings());
    world.run();
    world.pass(Duration::from_millis(100));
    let (slow, before) = (Duration::from_millis(400), batches(&world));
    read_for(&mut world, slow);
    world.run();
    assert_eq!(batches(&world), before + 1);
    assert_eq!(world.core.deadline(world.now), Some(world.now + slow));
    world.pass(slow);
    world.run();
    assert_eq!(batches(&world), before + 2);
}

#[test]
fn after_a_reading_that_found_nothing_the_interval_is_as_long_as_that_took_at_least() {
    let mut world = World::new(settings());
    world.run();
    world.pass(SECOND);
    let Some(fetch @ PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    world.pass(SECOND * 2);
    world.answer(fetch);
    world.run();
    let before = batches(&world);
    world.pass(SECOND * 2 - Duration::from_millis(1));
    world.run();
    assert_eq!(batches(&world), before, "its interval is over, and its rest is not");
    world.pass(Duration::from_millis(1));
    world.run();
    assert_eq!(batches(&world), before + 1);
}

#[test]
fn after_a_reading_that_found_rows_a_notify_waits_for_five_milliseconds_from_its_beginning() {
    let mut world = World::new(settings());
    world.run();
    world.pass(Duration::from_millis(100));
    world.insert(&[K]);
    let before = batches(&world);
    read_for(&mut world, BETWEEN_NOTIFIED);
    world.run();
    assert_eq!(batches(&world), before + 2);
    assert_eq!(world.states(), [RowState::Published]);
}

#[test]
fn a_row_is_tried_again_when_its_wait_is_over_however_long_the_interval_is() {
    for waits in [WaitsKept::InTable, WaitsKept::InMemory] {
        let mut world = World::new(with_a_long_interval());
        world.waits = waits;
        world.insert(&[K]);
        world.table[0].topic = "not legal!";
        world.run();
        assert_eq!(world.table[0].attempts, 1);
        // The server's clock may go a little differently.
        world.pass(SECOND + SECOND / 1_000);
        world.run();
        assert_eq!(world.table[0].attempts, 2, "{waits:?}");
    }
}

#[test]
fn a_reading_in_between_puts_no_attempt_off() {
    for waits in [WaitsKept::InTable, WaitsKept::InMemory] {
        let mut world = World::new(with_a_long_interval());
        world.waits = waits;
        world.insert(&[K]);
        world.table[0].topic = "not legal!";
        world.run();
        let failed = world.table.remove(0);
        world.pass(SECOND / 2);
        world.input(PollInput::Notified(TABLE));
        world.run();
        world.table.push(failed);
        world.pass(SECOND / 2 + SECOND / 1_000);
        world.run();
        assert_eq!(world.table[0].attempts, 2, "{waits:?}");
    }
}

#[test]
fn a_table_with_locked_rows_is_soon_read_again_however_long_the_interval_is() {
    let mut world = World::new(with_a_long_interval());
    world.run();
    world.pass(Duration::from_millis(100));
    world.input(PollInput::Notified(TABLE));
    let Some(PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    let session = world.session;
    let locked = Fetched { rows: Vec::new(), more: More::Locked, claimed: Claimed::Yes, session };
    world.input(PollInput::Fetched(Ok(locked)));
    world.insert(&[K]);
    world.run();
    assert_eq!(world.states(), [RowState::Pending], "not at once");
    world.pass(SECOND);
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
}

#[test]
fn a_table_is_read_as_soon_as_shards_of_it_are_held() {
    let mut world = World::new(with_a_long_interval());
    world.held = (0..32).collect();
    world.run();
    assert_eq!(batches(&world), 1);
    world.insert(&[K]);
    world.held = ShardSet::ALL;
    world.pass(SECOND * 4);
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
    // Nothing new is held, so nothing more is read.
    let before = batches(&world);
    world.pass(SECOND * 4);
    world.run();
    assert_eq!(batches(&world), before);
}

/// Rows that the worker which had them before has claimed are pending when its locks have ended:
/// they began up to half a lease after its last renewal.
#[test]
fn a_table_of_which_shards_are_newly_held_is_read_once_more_when_locks_of_others_have_ended() {
    let mut world = World::new(with_a_long_interval());
    world.run();
    world.insert(&[K]);
    for _ in 0..6 {
        world.pass(SECOND);
        world.run();
    }
    assert_eq!(world.states(), [RowState::Published]);
    let before = batches(&world);
    for _ in 0..20 {
        world.pass(SECOND);
        world.run();
    }
    assert_eq!(batches(&world), before);
}

#[test]
fn that_a_table_is_described_again_is_no_reason_to_read_it() {
    let mut world = World::new(with_a_long_interval());
    world.run();
    // Also once more after half a lease.
    world.pass(SECOND * 6);
    world.run();
    let before = batches(&world);
    let mut described = 0;
    for _ in 0..580 {
        world.pass(SECOND);
        described += world.asked.iter().filter(|a| matches!(a, PollAction::Describe(_))).count();
        world.run();
    }
    assert_eq!((batches(&world), described), (before, 9));
    world.pass(SECOND * 20);
    world.run();
    assert_eq!(batches(&world), before + 1, "the interval is over");
}
