//! A table that lacks writes which the witness relies on.

use super::{world::World, *};

/// A table in which one event is open, after one write.
fn holding_one() -> Script {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    script.catch_up();
    assert_eq!(script.confirmed(), 32);
    script
}

#[test]
fn a_table_that_was_taken_back_with_an_event_in_it_is_a_gap() {
    let mut script = holding_one();
    script.source.held = Some(HeldTable::made_again(1));
    script.reconnect();
    script.answer_table();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTableBehind)));
    let gap = script.relay.snapshot(script.at).witness.gaps.remove(0);
    assert_eq!((gap.interval.from.is_none(), gap.interval.to.lsn), (true, Lsn::from_u64(32)));
    assert!(
        gap.failure
            .message
            .contains("has none of this pipeline's writes, and the slot relies on write 1"),
        "{gap:?}"
    );
}

#[test]
fn a_table_that_was_dropped_with_an_event_in_it_is_awaited() {
    let mut script = holding_one();
    let table = script.source.held.take();
    script.reconnect();
    script.answer_table();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTable)));
    script.source.held = table;
    script.take_time(Duration::from_secs(31));
    script.connect();
    script.answer_table();
    assert_eq!(script.state(), (State::Streaming, None));
}

#[test]
fn a_table_in_which_nothing_was_open_may_be_made_again() {
    let mut script = holding_one();
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Dropped]);
    script.source.held = Some(HeldTable::made_again(1));
    script.reconnect();
    script.answer_table();
    assert_eq!(script.state(), (State::Streaming, None));
}

/// A close that was lost: events would be released again after later events of their key.
#[test]
fn a_table_in_which_closed_events_are_open_again_is_a_gap() {
    let mut script = holding_one();
    let before = script.table().clone();
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    script.source.held = Some(before);
    script.reconnect();
    script.answer_table();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTableBehind)));
    let gap = script.relay.snapshot(script.at).witness.gaps.remove(0);
    assert!(gap.failure.message.contains("up to 1, and the slot relies on write 2"), "{gap:?}");
}

#[test]
fn an_open_event_that_somebody_has_removed_is_a_gap() {
    let mut script = holding_one();
    script.table().remove(id(24, 0));
    script.reconnect();
    script.answer_table();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTableBehind)));
    let gap = script.relay.snapshot(script.at).witness.gaps.remove(0);
    assert!(
        gap.failure.message.starts_with("outbox_router.held has 0 of the 1 open events"),
        "{gap:?}"
    );
}

#[test]
fn a_table_that_is_made_again_while_the_router_runs_settles_nothing() {
    let mut script = holding_one();
    script.source.held = Some(HeldTable::made_again(1));
    script.rows(40, &[poison("c")]);
    script.answer_table();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTable)));
    script.take_time(Duration::from_secs(31));
    script.connect();
    script.answer_table();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTableBehind)));
}

#[test]
fn the_witness_names_the_version_before_the_position_is_confirmed() {
    let mut world = World::with_dead_letters(dead_letters());
    world.script.source.held = Some(HeldTable::default());
    world.settle_down();
    world.describe();
    world.transaction(8, &[]);
    world.script.rows(24, &[row_without_key()]);
    world.settle_down();
    assert_eq!(world.script.source.slot_at, 32);
    let written = TableMark { version: Some(TableVersion { origin: 0, writes: 1 }), open: 1 };
    assert_eq!(world.witness().held_table, written);

    world.script.source.held = Some(HeldTable::made_again(1));
    world.restart();
    world.settle_down();
    assert_eq!(world.gap(), (Some(Code::HeldTableBehind), 32, 32));
    assert_eq!(world.witness().gaps.len(), 1);
    world.accept();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert_eq!(world.witness().held_table, TableMark::default(), "the new one is the measure");
}

#[test]
fn an_open_event_that_somebody_has_removed_is_accepted_once() {
    let mut world = World::with_dead_letters(dead_letters());
    world.script.source.held = Some(HeldTable::default());
    world.settle_down();
    world.describe();
    world.transaction(8, &[]);
    world.script.rows(24, &[row_without_key(), row_without_key()]);
    world.settle_down();
    assert_eq!(world.witness().held_table.open, 2);
    world.script.source.held.as_mut().unwrap().remove(id(24, 0));
    world.restart();
    world.settle_down();
    assert_eq!(world.gap(), (Some(Code::HeldTableBehind), 32, 32));
    world.accept();
    for round in 1..4 {
        world.settle_down();
        world.settle_down();
        assert_eq!(world.script.state(), (State::Streaming, None), "round {round}");
        assert_eq!(world.witness().held_table.open, round);
        assert_eq!(world.script.table().mark().open, round, "who reads it misses nothing");
        world.describe();
        world.script.rows(24 + 16 * round, &[row_without_key()]);
        world.settle_down();
        world.restart();
    }
}

fn row_without_key() -> Vec<u8> {
    let [id, aggregate_type, event_type, payload] =
        ["a", "order", "Happened", "{}"].map(Value::Text);
    wire::insert(1, OUTBOX, &[id, aggregate_type, Value::Null, event_type, payload])
}
