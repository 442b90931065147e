//! Which relation of the stream is an outbox: by its OID, or by the name that it had at its WAL
//! position.

use super::{world::World, *};
use crate::telemetry::RowsIgnored;

/// Connected to a server whose catalog shows the outbox under its configured name. No Relation
/// message has come yet, so only the OID identifies a row's table.
fn connected() -> Script {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.answer();
    script
}

/// The outbox is described under another name, and a row follows.
fn take_under(script: &mut Script, name: &str, key: &str) {
    script.take(&wire::relation(OUTBOX, name, &COLUMNS));
    script.take(&row(key));
}

#[test]
fn what_was_an_outbox_in_this_session_stays_one_under_any_name() {
    // I7
    let mut script = Script::streaming();
    script.begin(100);
    take_under(&mut script, "outbox_v2", "renamed");
    take_under(&mut script, "outbox_v3", "again");
    take_under(&mut script, "outbox", "back");
    script.commit(100);
    assert_eq!(script.keys()[1..], ["renamed", "again", "back"]);
    assert_eq!(script.relay.snapshot(script.at).rows_ignored, RowsIgnored::default());
}

#[test]
fn a_table_that_became_an_outbox_during_the_session_stays_one_under_any_name() {
    // I7: this table took the name of the outbox, and was renamed again.
    let mut script = connected();
    let successor = |name: &str| wire::relation(OTHER, name, &COLUMNS);
    script.begin(100);
    script.take(&successor("outbox"));
    script.take(&foreign_row());
    script.take(&successor("outbox_v2"));
    script.take(&foreign_row());
    script.commit(100);
    assert_eq!(script.keys(), ["k", "k"]);
    assert_eq!(script.relay.snapshot(script.at).rows_ignored, RowsIgnored::default());
}

#[test]
fn what_was_an_outbox_can_become_unreadable_but_is_never_ignored() {
    // I7
    let mut script = Script::streaming();
    script.begin(100);
    script.take(&wire::relation(OUTBOX, "outbox_v2", &COLUMNS[..4]));
    let short = wire::insert(1, OUTBOX, &["1", "t", "k", "e"].map(Value::Text));
    assert_eq!(script.frame(&short), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::PresetUnclear)));
    // Although the outbox cannot be read, its rows are still known as an outbox's.
    script.take_time(Duration::from_secs(31));
    take_under(&mut script, "outbox_v3", "whole");
    assert_eq!(script.keys()[1..], ["whole"]);
}

#[test]
fn a_row_that_was_written_under_another_name_is_known_by_its_oid() {
    // I7
    let mut script = connected();
    script.begin(100);
    take_under(&mut script, "tmp", "a");
    take_under(&mut script, "outbox", "b");
    script.commit(100);
    assert_eq!(script.keys(), ["a", "b"]);
}

#[test]
fn a_row_of_a_table_that_is_not_the_outbox_any_more_is_known_by_its_name_alone() {
    let mut script = Script::new(settings());
    script.source.oid = 16_600;
    script.handle(Input::SinkReady);
    script.run_for(Duration::from_secs(40));
    script.answer();
    script.begin(100);
    take_under(&mut script, "tmp", "a");
    assert!(script.keys().is_empty());
    take_under(&mut script, "outbox", "b");
    assert_eq!(script.keys(), ["b"]);
}

#[test]
fn the_name_at_a_rows_wal_position_takes_precedence_over_the_oid() {
    // The table was renamed and another took its name, and both are configured: a row is routed by
    // the name that its table had when the row was written.
    let table = |name: &str, topic: &str| OutboxTable {
        topic: Some(crate::TopicTemplate::parse(topic).unwrap()),
        ..OutboxTable::with_defaults(TableName { schema: "public".into(), name: name.into() })
    };
    let outboxes = Outboxes {
        tables: vec![table("outbox", "old"), table("outbox_v2", "new")],
        ..Outboxes::default()
    };
    let mut script = Script::new(RelaySettings { outboxes, ..settings() });
    let was = std::mem::replace(&mut script.source.table.name, "outbox_v2".to_owned());
    script.source.others = vec![(TableName { schema: "public".into(), name: was }, OTHER)];
    script.handle(Input::SinkReady);
    script.connect();
    script.begin(100);
    take_under(&mut script, "tmp", "a");
    take_under(&mut script, "outbox", "b");
    take_under(&mut script, "outbox_v2", "c");
    let topic = |id| script.relay.topics.name(id).unwrap().to_string();
    let topics: Vec<String> = script.sink.produced().iter().map(|r| topic(r.topic)).collect();
    assert_eq!(topics, ["new", "old", "new"]);
}

#[test]
fn an_oversized_row_of_a_renamed_table_is_held() {
    // I7
    let mut script = connected();
    script.begin(100);
    script.take(&wire::relation(OUTBOX, "tmp", &COLUMNS));
    let row = row_of("order", "a", &"x".repeat(5_000));
    assert_eq!(script.oversized(5_000_000, &row[..200]), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::RowTooLarge)));
}

/// A domain over bytea; the outbox's payload is of it from now on.
fn describe_domain(script: &mut Script) {
    const DOMAIN: u32 = 16_500;
    let mut columns = COLUMNS;
    columns[4].1 = DOMAIN;
    script.take(&wire::wal(1, 0, &wire::type_message(DOMAIN, "", "bytea")));
    script.take(&wire::relation(OUTBOX, "outbox", &columns));
}

fn row_of_domain(key: &str) -> Vec<u8> {
    wire::insert(1, OUTBOX, &["1", "order", key, "e", "\\x6869"].map(Value::Text))
}

#[test]
fn a_domain_is_its_base_type() {
    let mut script = Script::streaming();
    script.begin(100);
    describe_domain(&mut script);
    script.take(&wire::relation(OTHER, "orders", &COLUMNS));
    script.take(&row_of_domain("a"));
    assert_eq!(script.sink.produced()[1].value.as_deref(), Some(b"hi".as_slice()));
}

#[test]
fn a_domain_that_was_named_in_what_is_covered_is_its_base_type() {
    let mut world = World::streaming();
    world.restart();
    world.script.source.slot_at = 0;
    world.connect();
    world.script.begin(8);
    describe_domain(&mut world.script);
    world.script.take(&row_of_domain("warm-up"));
    world.script.commit(8);
    world.script.begin(100);
    while world.script.frame(&row_of_domain("a")) == FrameOutcome::NotTaken {
        world.settle_down();
    }
    assert_eq!(world.script.sink.produced()[0].value.as_deref(), Some(b"hi".as_slice()));
}
