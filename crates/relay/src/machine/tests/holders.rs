//! Sessions that hold the slot one after the other, and what each of them writes and reads of the
//! others.

use super::{world::World, *};
use crate::{source::ServerMoment, witness::Witness};

/// The late write is of a session that was stopped or cut off, or took long.
#[test]
fn a_late_write_does_not_count_beside_the_witness_of_the_next_holder_of_the_slot() {
    let mut world = World::streaming();
    world.transaction(100, &["a"]);
    world.transaction(200, &["b"]);
    world.script.settle();
    let earlier = world.witness();
    world.restart();
    world.connect();
    world.settle_down();
    assert!(world.witness().held > earlier.held);
    let late = Witness { position: Lsn::from_u64(208), ..earlier };
    world.another_writes(&late);
    assert_eq!(
        world.witness().position,
        Lsn::from_u64(16),
        "only part of it may have been sent again"
    );
}

#[test]
fn a_session_that_reads_of_a_later_holder_of_the_slot_connects_again() {
    let mut world = World::streaming();
    let own = world.witness();
    let held =
        own.held.map(|held| ServerMoment { clock_micros: held.clock_micros + 1_000, ..held });
    world.another_writes(&Witness { held, ..own });
    world.settle_down();
    world.settle_down();
    let errors = world.script.relay.snapshot(world.script.at).errors;
    assert_eq!(errors.get(&Code::SlotInUse), Some(&1));
}

#[test]
fn no_session_begins_on_a_slot_that_another_router_took_while_this_one_connected() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    while !matches!(world.script.actions.front(), Some(Action::ReadSlot))
        || !world.script.source.is_streaming
    {
        assert!(world.answer());
    }
    let mut reading = world.script.source.slot_reading();
    reading.slot.as_mut().unwrap().active_pid = Some(7);
    world.script.actions.clear();
    world.script.handle(Input::Slot(reading));
    let (state, reason) = world.script.state();
    assert_eq!((state, reason), (State::Starting, Some(Code::SlotInUse)));
}

/// This session's records would rank below those of a session that saw more WAL.
#[test]
fn a_server_whose_wal_is_shorter_than_an_earlier_session_saw_begins_a_generation() {
    let mut world = World::streaming();
    world.settle_down();
    let generation = world.witness().generation;
    world.restart();
    world.script.source.wal_end -= 1_000;
    world.settle_down();
    assert_eq!(world.witness().generation, generation + 1);
}

/// The server was restored while the first session's record was on its way.
#[test]
fn a_record_of_an_earlier_session_that_is_stored_late_does_not_count_beside_the_present_one() {
    let mut world = World::new();
    world.connect();
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    world.script.source.wal_end -= 1_000;
    world.connect();
    assert!(world.store(), "the first session's record, late");
    world.settle_down();
    world.transaction(100, &["a"]);
    world.script.settle();
    world.settle_down();
    assert_eq!(world.script.source.slot_at, 108);
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None), "nobody else moved the slot");
}
