//! NULL, an empty text and a blank one in every role.

use relay::{
    BytesFormat, ColumnName, EnvelopeMember, ExtraHeader, HeaderValue, OutboxTable, Role,
    Timestamp, testing::wire::Value,
};

use super::{Cell, INT8, JSONB, Outcome, TEXT, TIMESTAMPTZ, route_with, table};

const TEXTS: [(&str, Value<'_>); 3] =
    [("NULL", Value::Null), ("''", Value::Text("")), ("' '", Value::Text(" "))];

/// What the part of the record is that the column decides, or the code: for NULL, for an empty text
/// and for a blank one.
#[track_caller]
fn check(
    table: &OutboxTable,
    column: &str,
    type_oid: u32,
    part: impl Fn(&Outcome) -> String,
    expected: [&str; 3],
) {
    for ((what, value), expected) in TEXTS.into_iter().zip(expected) {
        let cell: Cell<'_> = (column, type_oid, value);
        assert_eq!(part(&route_with(table, cell)), expected, "{column} is {what}");
    }
}

#[test]
fn columns_that_every_event_needs() {
    check(&table(), "id", TEXT, |row| row.header("id"), ["R004", "", " "]);
    check(&table(), "aggregate_id", TEXT, Outcome::key, ["R001", "", " "]);
    let topics = ["R002", "outbox.event.", "R003"];
    check(&table(), "aggregate_type", TEXT, Outcome::topic, topics);
}

#[test]
fn columns_that_an_event_can_do_without() {
    check(&table(), "event_type", TEXT, |row| row.header("type"), ["NULL", "", " "]);
    check(&table(), "payload", TEXT, Outcome::value, ["NULL", "", " "]);
    let trace = ["no header", "", " "];
    check(&table(), "traceparent", TEXT, |row| row.header("traceparent"), trace);
    check(&table(), "headers", JSONB, |row| row.header("id"), ["da8d6de6", "R009", "R009"]);
    assert_eq!(route_with(&table(), ("headers", JSONB, Value::Text("null"))).value(), "R009");
    assert_eq!(route_with(&table(), ("headers", JSONB, Value::Text("{}"))).value(), "{}");
}

#[test]
fn a_key_and_a_payload_as_json() {
    let json = BytesFormat::Json;
    let table = OutboxTable { key_format: json, value_format: json, ..table() };
    check(&table, "aggregate_id", TEXT, Outcome::key, ["R001", r#""""#, r#"" ""#]);
    check(&table, "payload", TEXT, Outcome::value, ["NULL", r#""""#, r#"" ""#]);
}

#[test]
fn placed_columns() {
    let name = || "c".to_owned();
    let header = ExtraHeader { name: name(), value: HeaderValue::Column(name()) };
    let table = OutboxTable { extra_headers: vec![header], ..table() };
    check(&table, "c", TEXT, |row| row.header("c"), ["NULL", "", " "]);
    let envelope = vec![EnvelopeMember { name: name(), column: name() }];
    let table = OutboxTable { envelope, extra_headers: Vec::new(), ..table };
    let values = [
        r#"{"payload":"{}","c":null}"#,
        r#"{"payload":"{}","c":""}"#,
        r#"{"payload":"{}","c":" "}"#,
    ];
    check(&table, "c", TEXT, Outcome::value, values);
}

#[test]
fn a_trace_context_in_properties() {
    let mut table = table();
    table.columns.set(Role::Tracing, vec!["span".into()]);
    let none = ["no header"; 3];
    check(&table, "span", TEXT, |row| row.header("traceparent"), none);
}

/// Of these types there is no blank value.
#[test]
fn a_null_time_is_the_commits_and_a_null_partition_the_keys() {
    let mut table = OutboxTable { timestamp: Timestamp::Column, ..table() };
    table.columns.set(Role::Timestamp, vec!["at".into()]);
    let commit = "946684800000";
    assert_eq!(route_with(&table, ("at", TIMESTAMPTZ, Value::Null)).time(), commit);

    let mut table = OutboxTable { timestamp: Timestamp::Commit, ..table };
    table.columns = Default::default();
    let of_key = route_with(&table, ("p", INT8, Value::Null)).partition();
    table.columns.set(Role::Partition, vec!["p".into()]);
    assert_eq!(route_with(&table, ("p", INT8, Value::Null)).partition(), of_key);
}

#[test]
fn a_template_without_a_value() {
    let mut table = table();
    let template = ColumnName::parse("${ordering_key|aggregate_id}").unwrap();
    table.columns.set(Role::AggregateId, vec![template]);
    check(&table, "ordering_key", TEXT, Outcome::key, ["42", "", " "]);
}
