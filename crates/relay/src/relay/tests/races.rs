//! Two routers at one slot, and what is true no more when it is acted upon. Each was found by the simulation.

use super::{witness::World, *};
use crate::witness::{StateRecord, Witness};

/// A record of another router: everything before `position` is acknowledged.
fn another_says(world: &mut World, position: u64) {
    let value = Witness { position: Lsn::from_u64(position), ..world.witness() }.encode();
    world.topic.push(StateRecord { key: b"another".to_vec(), value, offset: 50 });
}

/// Answers until this is asked.
fn answer_until(world: &mut World, action: &Action) {
    while world.script.actions.front() != Some(action) {
        assert!(world.answer(), "{action:?} is not asked");
    }
}

#[test]
fn the_work_of_another_router_is_not_taken_for_a_slot_that_was_moved() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::Connect);
    // The holder writes its witness, tells the server, and leaves.
    another_says(&mut world, 300);
    world.script.source.slot_at = 300;
    answer_until(&mut world, &Action::ReadState);
    world.answer();
    assert_eq!(world.script.state(), (State::Starting, Some(Code::SlotInUse)));
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert!(world.witness().gaps.is_empty());
}

#[test]
fn a_stream_that_nobody_answered_for_long_is_not_begun() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::StartReplication);
    answer_until(&mut world, &Action::ReadState);
    world.script.run_for(Duration::from_secs(6));
    world.answer();
    assert_eq!(world.script.state(), (State::Starting, Some(Code::ServerSilent)));
    assert!(world.script.actions.contains(&Action::Disconnect));
    // Nor by a process that was stopped meanwhile, whatever it is told first.
    world.settle_down();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    answer_until(&mut world, &Action::StartReplication);
    answer_until(&mut world, &Action::ReadState);
    world.script.handle(Input::StoodStill(Duration::from_secs(6)));
    assert_eq!(world.script.state(), (State::Starting, Some(Code::ServerSilent)));
}

#[test]
fn a_position_that_another_session_wrote_is_told_when_this_one_has_written_it() {
    let mut world = World::streaming();
    world.restart();
    world.script.source.slot_at = 0;
    world.connect();
    world.script.transaction(8, &["warm-up"]);
    world.script.take(&wire::keepalive(400));
    // Somebody who knew no better may delete the record of the earlier session now.
    world.script.run_for(Duration::from_secs(4));
    assert_eq!(world.script.source.slot_at, 0);
    world.settle_down();
    assert_eq!(world.script.source.slot_at, 400);
}
