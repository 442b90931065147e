//! Columns that are added, dropped, renamed, reordered and retyped in mid-stream, within one
//! transaction.

use relay::{Role, testing::wire::Value};

use super::{BYTEA, Cell, Outcome, TEXT, table, usual, world::World};

/// What becomes of a row of each shape, one after the other.
fn shapes(shapes: &[Vec<Cell<'_>>]) -> Vec<String> {
    let mut world = World::new(&table());
    let route = |shape: &Vec<Cell<'_>>| {
        world.describe(shape);
        let outcome = world.insert(shape);
        match &outcome {
            Outcome::Record { .. } => format!("{} {}", outcome.key(), outcome.value()),
            Outcome::Stops(code) => code.clone(),
        }
    };
    shapes.iter().map(route).collect()
}

fn without(name: &str) -> Vec<Cell<'static>> {
    usual().into_iter().filter(|(known, ..)| *known != name).collect()
}

#[test]
fn a_row_is_read_by_the_columns_of_its_time() {
    let mut added = usual();
    added.insert(2, ("note", TEXT, Value::Text("new")));
    let reversed: Vec<Cell<'_>> = usual().into_iter().rev().collect();
    let mut retyped = without("payload");
    retyped.insert(0, ("payload", BYTEA, Value::Text("\\x6869")));
    assert_eq!(
        shapes(&[usual(), added, reversed, usual(), retyped, with_headers()]),
        ["42 {}", "42 {}", "42 {}", "42 {}", "42 hi", "42 {}"]
    );
}

fn with_headers() -> Vec<Cell<'static>> {
    let mut with = usual();
    with.push(("headers", TEXT, Value::Text("{\"a\": 1}")));
    with
}

/// Records would go without what those before them had: it was renamed, or the publication left it
/// out for a while.
#[test]
fn a_column_that_rows_before_had_stops_the_router_at_the_next_row() {
    let shapes = shapes(&[usual(), with_headers(), usual(), with_headers()]);
    assert_eq!(shapes, ["42 {}", "42 {}", "R006", "R006"]);
}

#[test]
fn a_needed_column_that_is_gone_stops_the_router_at_the_next_row() {
    for (column, code) in [
        ("id", "R007"),
        ("aggregate_type", "R007"),
        ("aggregate_id", "R007"),
        ("event_type", "R007"),
        ("payload", "R007"),
    ] {
        let gone = without(column);
        assert_eq!(shapes(&[usual(), gone.clone(), usual()]), ["42 {}", code, code], "{column}");
        let mut renamed = gone;
        renamed.push(("renamed", TEXT, Value::Text("x")));
        assert_eq!(shapes(&[usual(), renamed]), ["42 {}", code], "{column}");
    }
}

#[test]
fn a_column_may_be_renamed_to_another_that_the_configuration_names() {
    let mut table = table();
    table.columns.set(Role::AggregateId, vec!["aggregate_id".into(), "agg_id".into()]);
    let mut world = World::new(&table);
    world.describe(&usual());
    assert_eq!(world.insert(&usual()).key(), "42");
    let mut renamed = without("aggregate_id");
    renamed.push(("agg_id", TEXT, Value::Text("43")));
    world.describe(&renamed);
    assert_eq!(world.insert(&renamed).key(), "43");
}

#[test]
fn a_row_of_another_width_than_its_relation_ends_the_session() {
    let mut world = World::new(&table());
    world.describe(&usual());
    assert_eq!(world.insert(&without("payload")).value(), "R010");
}
