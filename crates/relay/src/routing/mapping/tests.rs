//! What the configuration of a table makes of its rows.

use crate::{
    failure::{Case, Code, Failure},
    routing::{
        samples::{mapped, routed, table},
        table::{
            BytesFormat, ColumnName, DEFAULT, EmptyPayload, EnvelopeMember, ExpandJson,
            ExtraHeader, Format, HeaderValue, MissingColumns, OnNotJson, OutboxTable, Role,
            RowFilter, TombstoneOn,
        },
        template::Template,
        topic::{JavaRegex, OnMismatch, TopicTemplate},
    },
    testing::{
        ProducedRecord,
        wire::{TEXT, Value as Wire},
    },
};

use super::FilterKind;

const JSONB: u32 = 3802;
const BYTEA: u32 = 17;

/// The default preset's columns, of these types.
const COLUMNS: [(&str, u32); 5] = [
    ("id", 2950),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", JSONB),
];

fn row<'a>() -> [Wire<'a>; 5] {
    ["da8d6de6", "order", "42", "OrderPlaced", r#"{"total": 1.50}"#].map(Wire::Text)
}

/// The record of the row, with further columns.
fn with(
    table: &OutboxTable,
    more: &[(&str, u32, Wire<'_>)],
) -> Result<Option<(ProducedRecord, String)>, Failure> {
    let columns: Vec<_> =
        COLUMNS.into_iter().chain(more.iter().map(|(name, oid, _)| (*name, *oid))).collect();
    let values: Vec<_> = row().into_iter().chain(more.iter().map(|(.., value)| *value)).collect();
    mapped(table, &columns, &values)
}

fn record(table: &OutboxTable, more: &[(&str, u32, Wire<'_>)]) -> ProducedRecord {
    with(table, more).unwrap().unwrap().0
}

fn refusal(table: &OutboxTable, more: &[(&str, u32, Wire<'_>)]) -> Failure {
    with(table, more).map(|_| ()).unwrap_err()
}

fn header(name: &str, value: Option<&str>) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), value.map(|value| value.as_bytes().to_vec()))
}

fn column_header(name: &str, column: &str) -> ExtraHeader {
    ExtraHeader { name: name.to_owned(), value: HeaderValue::Column(column.to_owned()) }
}

fn text_header(name: &str, text: &str) -> ExtraHeader {
    let value = HeaderValue::Template(Template::parse(text).unwrap());
    ExtraHeader { name: name.to_owned(), value }
}

#[test]
fn extra_headers_follow_those_of_the_format_in_their_order() {
    let extra_headers = vec![
        column_header("eventType", "event_type"),
        text_header("source", "shop"),
        text_header("who", "${tenant}/${aggregate_id}"),
        column_header("n", "n"),
        column_header("is_new", "is_new"),
        column_header("none", "tenant2"),
        text_header("nobody", "${tenant2}"),
    ];
    let more = [
        ("tenant", TEXT, Wire::Text("acme")),
        ("tenant2", TEXT, Wire::Null),
        ("n", 23, Wire::Text("-7")),
        ("is_new", 16, Wire::Text("t")),
        ("headers", JSONB, Wire::Text(r#"{"own": "1"}"#)),
    ];
    let expected = [
        header("eventType", Some("OrderPlaced")),
        header("source", Some("shop")),
        header("who", Some("acme/42")),
        header("n", Some("-7")),
        header("is_new", Some("true")),
        header("none", None),
        header("nobody", None),
    ];
    let debezium =
        OutboxTable { format: Format::Debezium, extra_headers: extra_headers.clone(), ..table() };
    let headers = record(&debezium, &more).headers;
    assert_eq!(headers[0], header("id", Some("da8d6de6")));
    assert_eq!(headers[1..], expected);
    let plain = OutboxTable { extra_headers, ..table() };
    let headers = record(&plain, &more).headers;
    assert_eq!(headers[2..9], expected);
    assert_eq!(headers[9], header("own", Some("1")));
}

#[test]
fn a_header_of_the_row_s_own_cannot_have_an_extra_header_s_name() {
    let table = OutboxTable { extra_headers: vec![text_header("own", "x")], ..table() };
    let more = [("headers", JSONB, Wire::Text(r#"{"own": "1"}"#))];
    assert_eq!(refusal(&table, &more).code, Code::HeadersMalformed);
}

#[test]
fn a_missing_column_is_refused_or_left_out() {
    let strict = OutboxTable {
        extra_headers: vec![column_header("a", "nope"), text_header("b", "${nope}")],
        ..table()
    };
    let failure = refusal(&strict, &[]);
    assert_eq!(failure.code, Code::ColumnMissing);
    assert_eq!(failure.message, "public.outbox has no column nope for header a");
    let lenient = OutboxTable { missing_columns: MissingColumns::Ignore, ..strict };
    assert_eq!(record(&lenient, &[]).headers.len(), 2);
}

#[test]
fn what_debezium_would_write_in_another_way_is_refused_in_its_format() {
    let extra_headers = vec![column_header("price", "price")];
    let debezium =
        OutboxTable { format: Format::Debezium, extra_headers: extra_headers.clone(), ..table() };
    let numeric = [("price", 1700, Wire::Text("12.50"))];
    let money = [("price", 790, Wire::Text("$12.50"))];
    assert_eq!(refusal(&debezium, &money).code, Code::ColumnType);
    let plain = OutboxTable { extra_headers, ..table() };
    assert_eq!(record(&plain, &numeric).headers[2], header("price", Some("12.50")));
}

fn templated(role: Role, text: &str) -> OutboxTable {
    let mut table = OutboxTable { preset: Some(&DEFAULT), ..table() };
    table.columns.set(role, vec![ColumnName::parse(text).unwrap()]);
    table
}

#[test]
fn a_template_stands_for_a_column() {
    let table = templated(Role::AggregateId, "${ordering_key|missing|aggregate_id}");
    let key = |value| record(&table, &[("ordering_key", TEXT, value)]).key;
    assert_eq!(key(Wire::Text("k")), b"k");
    assert_eq!(key(Wire::Text("")), b"");
    assert_eq!(key(Wire::Null), b"42");

    let table = templated(Role::AggregateId, "${payload#/customer/id}-${payload#/total}");
    let columns = [("payload2", JSONB, Wire::Null)];
    assert_eq!(refusal(&table, &columns).code, Code::KeyIsNull, "there is no such member");
    let table = templated(Role::Payload, "${doc#/inner}");
    let doc = [("doc", JSONB, Wire::Text(r#"{"inner": {"a": [1, 2.50]}}"#))];
    assert_eq!(record(&table, &doc).value.unwrap(), br#"{"a": [1, 2.50]}"#);
    let broken = [("doc", TEXT, Wire::Text("no json"))];
    assert_eq!(refusal(&table, &broken).code, Code::NotJson);
}

#[test]
fn a_template_without_a_column_of_the_table_does_not_fit() {
    let failure = refusal(&templated(Role::AggregateId, "${a|b}"), &[]);
    assert_eq!(failure.code, Code::ColumnMissing);
    assert_eq!(failure.message, "public.outbox has no column for aggregate_id");
}

#[test]
fn the_topic_may_name_columns() {
    let topic = TopicTemplate::parse("shop.${tenant|region}.${aggregate_type}").ok();
    let table = OutboxTable { topic, ..table() };
    let topic = |tenant, region| {
        let more = [("tenant", TEXT, tenant), ("region", TEXT, region)];
        with(&table, &more).map(|record| record.unwrap().1)
    };
    assert_eq!(topic(Wire::Text("acme"), Wire::Null).unwrap(), "shop.acme.order");
    assert_eq!(topic(Wire::Null, Wire::Text("eu")).unwrap(), "shop.eu.order");
    assert_eq!(topic(Wire::Null, Wire::Null).unwrap_err().code, Code::TopicIsNull);
    assert_eq!(topic(Wire::Text("a b"), Wire::Null).unwrap_err().code, Code::TopicIllegal);
    assert_eq!(refusal(&table, &[]).code, Code::PresetUnclear, "no preset has these columns");
}

#[test]
fn the_topic_may_name_groups_of_a_regular_expression() {
    let table = OutboxTable {
        topic: TopicTemplate::parse("events.${name}").ok(),
        route_regex: Some(JavaRegex::parse("(?<name>[a-z]+)").unwrap()),
        ..table()
    };
    assert_eq!(with(&table, &[]).unwrap().unwrap().1, "events.order");
    let strict = OutboxTable { route_regex: JavaRegex::parse("(?<name>[A-Z]+)").ok(), ..table };
    let failure = refusal(&strict, &[]);
    assert_eq!(failure.code, Code::RouteMismatch);
    let expected = "the row with id da8d6de6 of public.outbox: column aggregate_type (5 characters) \
                    does not match the route expression";
    assert_eq!(failure.message, expected);
    let lenient = OutboxTable { on_route_mismatch: OnMismatch::Value, ..strict };
    assert_eq!(with(&lenient, &[]).unwrap().unwrap().1, "order");
}

#[test]
fn keys_and_values_are_written_as_json() {
    let json = BytesFormat::Json;
    let table = OutboxTable { key_format: json, value_format: json, ..table() };
    let written = record(&table, &[]);
    assert_eq!(written.key, br#""42""#);
    assert_eq!(written.value.unwrap(), br#""{\"total\": 1.50}""#);
    let expanded = OutboxTable { expand_json: ExpandJson::AsItIs, ..table };
    assert_eq!(record(&expanded, &[]).value.unwrap(), br#"{"total": 1.50}"#);
}

/// The columns, with a payload of another type.
fn with_payload(table: &OutboxTable, oid: u32, value: Wire<'_>) -> Result<ProducedRecord, Failure> {
    let (mut columns, mut values) = (COLUMNS, row());
    (columns[4].1, values[4]) = (oid, value);
    routed(table, &columns, &values).map(|(record, _)| record)
}

#[test]
fn a_format_that_does_not_suit_its_column_is_refused() {
    for (format, oid) in [(BytesFormat::String, BYTEA), (BytesFormat::Bytes, JSONB)] {
        let table = OutboxTable { value_format: format, ..table() };
        let refused = with_payload(&table, oid, Wire::Null).unwrap_err();
        assert_eq!(refused.code, Code::ColumnType, "{format:?}");
    }
    let bytes = OutboxTable { value_format: BytesFormat::Bytes, ..table() };
    let written = with_payload(&bytes, BYTEA, Wire::Text("\\x00ff")).unwrap();
    assert_eq!(written.value.unwrap(), [0, 0xff]);
    let json = OutboxTable { value_format: BytesFormat::Json, ..table() };
    let written = with_payload(&json, BYTEA, Wire::Text("\\x00ff")).unwrap();
    assert_eq!(written.value.unwrap(), b"\"AP8=\"");
}

#[test]
fn tombstones_are_the_payloads_that_the_configuration_names() {
    let value = |on: &[EmptyPayload], format, oid, value| {
        let tombstone_on = TombstoneOn(on.to_vec());
        let table = OutboxTable { tombstone_on, value_format: format, ..table() };
        with_payload(&table, oid, value).unwrap().value.map(|v| String::from_utf8(v).unwrap())
    };
    let none = &[][..];
    let all = &[EmptyPayload::Null, EmptyPayload::Blank, EmptyPayload::EmptyBytea][..];
    let text = |text: &str| Some(text.to_owned());
    let (auto, json) = (BytesFormat::Auto, BytesFormat::Json);
    assert_eq!(value(none, auto, TEXT, Wire::Null), None, "Kafka has no other NULL");
    assert_eq!(value(none, json, TEXT, Wire::Null), text("null"));
    assert_eq!(value(all, json, TEXT, Wire::Null), None);
    assert_eq!(value(none, auto, TEXT, Wire::Text(" \t")), text(" \t"));
    assert_eq!(value(all, auto, TEXT, Wire::Text(" \t\u{1f}\n")), None);
    assert_eq!(value(all, auto, TEXT, Wire::Text("")), None);
    assert_eq!(value(all, auto, TEXT, Wire::Text("\u{a0}")), text("\u{a0}"), "Java's trim");
    assert_eq!(value(none, auto, BYTEA, Wire::Text("\\x")), text(""));
    assert_eq!(value(all, auto, BYTEA, Wire::Text("\\x")), None);
    assert_eq!(value(all, auto, BYTEA, Wire::Text("\\x20")), text(" "));
}

fn enveloped() -> OutboxTable {
    let member =
        |name: &str, column: &str| EnvelopeMember { name: name.into(), column: column.into() };
    let envelope = vec![member("eventType", "event_type"), member("version", "version")];
    OutboxTable { format: Format::Debezium, envelope, ..table() }
}

#[test]
fn an_envelope_holds_the_payload_and_columns() {
    let value = |table: &OutboxTable, version| {
        let more = [("version", 23, version)];
        String::from_utf8(record(table, &more).value.unwrap()).unwrap()
    };
    let table = enveloped();
    assert_eq!(
        value(&table, Wire::Text("3")),
        r#"{"payload":"{\"total\": 1.50}","eventType":"OrderPlaced","version":3}"#
    );
    let expanded = OutboxTable { expand_json: ExpandJson::AsItIs, ..table };
    assert_eq!(
        value(&expanded, Wire::Null),
        r#"{"payload":{"total": 1.50},"eventType":"OrderPlaced","version":null}"#
    );
}

#[test]
fn an_envelope_may_lack_a_column_where_the_configuration_lets_it() {
    assert_eq!(refusal(&enveloped(), &[]).code, Code::ColumnMissing);
    let table = OutboxTable { missing_columns: MissingColumns::Ignore, ..enveloped() };
    let value = record(&table, &[]).value.unwrap();
    assert_eq!(value, br#"{"payload":"{\"total\": 1.50}","eventType":"OrderPlaced"}"#);
}

#[test]
fn a_null_payload_in_an_envelope_is_null_or_a_tombstone() {
    let value = |on: &[EmptyPayload]| {
        let tombstone_on = TombstoneOn(on.to_vec());
        let table =
            OutboxTable { tombstone_on, missing_columns: MissingColumns::Ignore, ..enveloped() };
        with_payload(&table, JSONB, Wire::Null).unwrap().value
    };
    assert_eq!(value(&[]).unwrap(), br#"{"payload":null,"eventType":"OrderPlaced"}"#);
    assert_eq!(value(&[EmptyPayload::Null]), None);
}

#[test]
fn expansion_needs_json() {
    let table =
        OutboxTable { value_format: BytesFormat::Json, expand_json: ExpandJson::AsItIs, ..table() };
    let value = |text| with_payload(&table, TEXT, Wire::Text(text)).map(|record| record.value);
    assert_eq!(value(" [1, {\"a\": null}]").unwrap().unwrap(), b"[1, {\"a\": null}]");
    let failure = value("secret").unwrap_err();
    assert_eq!(failure.code, Code::NotJson);
    assert!(!failure.message.contains("secret"), "{failure}");
    let lenient = OutboxTable { on_not_json: OnNotJson::AsText, ..table.clone() };
    for (text, written) in [
        ("secret \"", r#""secret \"""#),
        ("", r#""""#),
        (r#"{"a": 1} x"#, r#""{\"a\": 1} x""#),
        ("[1]", "[1]"),
    ] {
        let value = with_payload(&lenient, TEXT, Wire::Text(text)).unwrap().value.unwrap();
        assert_eq!(String::from_utf8(value).unwrap(), written);
    }
    let dropping = OutboxTable { expand_json: ExpandJson::DropBoth, ..table };
    let written = with_payload(&dropping, TEXT, Wire::Text("{\"a\": null, \"b\": [], \"c\": 1}"));
    assert_eq!(written.unwrap().value.unwrap(), b"{\"c\":1}");
}

#[test]
fn a_filter_takes_some_rows() {
    let filter = Some(RowFilter {
        column: "status".into(),
        values: vec!["pending".into()],
        kind: FilterKind::In,
    });
    let table = OutboxTable { filter, ..table() };
    let taken = |status| with(&table, &[("status", TEXT, status)]).unwrap().is_some();
    assert!(taken(Wire::Text("pending")));
    assert!(!taken(Wire::Text("done")) && !taken(Wire::Null));
    assert_eq!(refusal(&table, &[]).code, Code::ColumnMissing);
}

#[test]
fn a_trace_context_in_properties_becomes_headers() {
    let mut table = table();
    table.columns.set(Role::Tracing, vec!["span".into()]);
    let headers = |value| record(&table, &[("span", TEXT, value)]).headers;
    let text = "#Mon\ntracestate=a\\=1\nother=x\ntraceparent=00-4b-f0-01\n";
    assert_eq!(
        headers(Wire::Text(text))[2..],
        [header("tracestate", Some("a=1")), header("traceparent", Some("00-4b-f0-01"))]
    );
    assert_eq!(headers(Wire::Null).len(), 2);
    let broken = [("span", TEXT, Wire::Text("traceparent=\\uzz"))];
    assert_eq!(refusal(&table, &broken).case, Some(Case::TracingMalformed));
}

#[test]
fn an_array_of_names_and_values_becomes_headers() {
    const TEXT_ARRAY: u32 = 1009;
    let of = |value| with(&table(), &[("headers", TEXT_ARRAY, Wire::Text(value))]);
    let headers = |value| of(value).unwrap().unwrap().0.headers.split_off(2);
    assert_eq!(
        headers(r#"{tenant,acme,"a,b",NULL}"#),
        [header("tenant", Some("acme")), header("a,b", None)]
    );
    assert_eq!(headers("{{a,1},{b,2}}"), [header("a", Some("1")), header("b", Some("2"))]);
    assert_eq!(headers("{}"), []);
    assert_eq!(headers("{traceparent,00-1}"), [header("traceparent", Some("00-1"))]);
    for wrong in ["{a}", "{NULL,a}", "{a,1,a,2}", "{id,1}", "{type,1}"] {
        assert_eq!(of(wrong).unwrap_err().code, Code::HeadersMalformed, "{wrong}");
    }
}
