//! Large rows.

use relay::{BytesFormat, ExpandJson, OutboxTable, testing::wire::Value};

use super::{BYTEA, JSON, TEXT, route_with, table, world::MESSAGE_MAX};

const TEN_MB: usize = 10_000_000;

#[test]
fn ten_megabytes_pass_byte_for_byte() {
    let json = format!("{{\"text\":  \"{}\"}}", "é\\n".repeat(TEN_MB / 4));
    for type_oid in [TEXT, JSON] {
        let value = route_with(&table(), ("payload", type_oid, Value::Text(&json))).value();
        assert!(value == json, "of type {type_oid}");
    }
    let expanded =
        OutboxTable { value_format: BytesFormat::Json, expand_json: ExpandJson::AsItIs, ..table() };
    assert!(route_with(&expanded, ("payload", TEXT, Value::Text(&json))).value() == json);
    let hex = format!("\\x{}", "6869".repeat(TEN_MB / 2));
    let value = route_with(&table(), ("payload", BYTEA, Value::Text(&hex))).value();
    assert!(value == "hi".repeat(TEN_MB / 2));
}

#[test]
fn ten_megabytes_of_quotes_are_escaped() {
    let quotes = "\"".repeat(TEN_MB / 2);
    let table = OutboxTable { value_format: BytesFormat::Json, ..table() };
    let value = route_with(&table, ("payload", TEXT, Value::Text(&quotes))).value();
    assert!(value == format!("\"{}\"", "\\\"".repeat(TEN_MB / 2)));
}

#[test]
fn more_than_the_topic_takes_stops_the_router() {
    let large = "x".repeat(usize::try_from(MESSAGE_MAX).unwrap());
    for column in ["payload", "aggregate_id", "event_type"] {
        let outcome = route_with(&table(), (column, TEXT, Value::Text(&large)));
        assert_eq!(outcome.value(), "K012", "{column}");
    }
}
