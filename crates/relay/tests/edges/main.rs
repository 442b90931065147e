//! Rows at the edges, through the whole core: what becomes of each is stated in a table, a record's
//! part or the code at which the router stops.
//!
//! What Debezium makes of such rows, where it defines that, is in the cases of the crate
//! `differential`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in the helpers of a test, too, what is missing fails it"
)]

mod columns;
mod headers;
mod json;
mod nulls;
mod places;
mod sizes;
mod world;

use relay::{OutboxTable, TableName, testing::wire::Value};

use world::{Outcome, World};

const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const TEXT: u32 = 25;
const JSON: u32 = 114;
const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const UUID: u32 = 2950;
const JSONB: u32 = 3802;

/// A column of a row: its name, its type, its value.
type Cell<'a> = (&'a str, u32, Value<'a>);

fn table() -> OutboxTable {
    OutboxTable::with_defaults(TableName { schema: "public".into(), name: "outbox".into() })
}

/// A row of the default table.
fn usual<'a>() -> Vec<Cell<'a>> {
    vec![
        ("id", UUID, Value::Text("da8d6de6")),
        ("aggregate_type", TEXT, Value::Text("order")),
        ("aggregate_id", TEXT, Value::Text("42")),
        ("event_type", TEXT, Value::Text("OrderPlaced")),
        ("payload", JSONB, Value::Text("{}")),
    ]
}

/// The usual row with this cell, in the place of the one of its name or behind all.
fn with<'a>(cell: Cell<'a>) -> Vec<Cell<'a>> {
    let mut row = usual();
    match row.iter_mut().find(|(name, ..)| *name == cell.0) {
        Some(place) => *place = cell,
        None => row.push(cell),
    }
    row
}

/// What becomes of one row of a table.
fn route(table: &OutboxTable, row: &[Cell<'_>]) -> Outcome {
    let mut world = World::new(table);
    world.describe(row);
    world.insert(row)
}

/// What becomes of a row with this cell.
fn route_with(table: &OutboxTable, cell: Cell<'_>) -> Outcome {
    route(table, &with(cell))
}
