//! A process that did not run while another held the slot, which is free again.

use super::{world::World, *};
use crate::{protocol::StateTopicRecord, witness::Witness};

/// Long enough for the server to give the slot to another router, which confirms up to 300 and
/// stops.
const LONG: Duration = Duration::from_secs(6);

/// Connected again after that, without a state topic.
fn connected_again() -> Script {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::ProcessStalled(LONG));
    script.new_sink();
    script.source.slot_at = 300;
    script.connect();
    script
}

#[test]
fn a_slot_that_was_moved_during_a_stall_is_no_gap_and_nothing_is_produced_twice() {
    let mut script = connected_again();
    assert_eq!(script.state(), (State::Streaming, None));
    assert!(script.keys().is_empty());
    script.transaction(300, &["b"]);
    script.settle();
    script.tick_after(200);
    assert_eq!(script.keys(), ["b"]);
    assert_eq!(script.confirmed(), 308);
}

#[test]
fn what_the_other_router_has_confirmed_is_not_at_risk() {
    let mut script = connected_again();
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.run_for(Duration::from_secs(5));
    script.handle(Input::Disconnected(failure(Code::SlotMissing)));
    let gaps = script.relay.snapshot(script.at).witness.gaps;
    let places: Vec<_> = gaps.iter().map(|gap| gap.interval.begins_at().as_u64()).collect();
    assert_eq!(places, [300]);
}

#[test]
fn the_witness_of_the_other_router_counts_and_not_what_was_known_before_the_stall() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.handle(Input::ProcessStalled(LONG));
    world.script.new_sink();
    let value = Witness { position: Lsn::from_u64(300), ..world.witness() }.encode();
    world.topic.push(StateTopicRecord { key: b"another".to_vec(), value, offset: 50 });
    world.script.source.slot_at = 300;
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert!(world.witness().gaps.is_empty());
    assert_eq!(world.witness().position.as_u64(), 300);
}
