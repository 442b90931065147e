//! What becomes of a row: topic, partition, key, value and headers.

use pgoutput::Message;

use super::{topic_cache::REMEMBERED_MAX, *};
use crate::{
    routing::{
        mapping::TypeNames,
        samples::{PARTITIONS, routed, table},
        table::HeaderNames,
        timestamp::EpochUnit,
        topic::TopicTemplate,
    },
    testing::{
        ProducedRecord,
        wire::{self, TEXT, Value as Wire},
    },
};

const BYTEA: u32 = 17;
const COLUMNS: [(&str, u32); 8] = [
    ("id", 2950),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", 3802),
    ("headers", 3802),
    ("traceparent", TEXT),
    ("tracestate", TEXT),
];
fn row<'a>() -> [Wire<'a>; 8] {
    [
        Wire::Text("da8d6de6"),
        Wire::Text("order"),
        Wire::Text("42"),
        Wire::Text("OrderPlaced"),
        Wire::Text(r#"{"total": 1.50}"#),
        Wire::Null,
        Wire::Null,
        Wire::Null,
    ]
}

fn row_with<'a>(column: &str, value: Wire<'a>) -> [Wire<'a>; 8] {
    let mut row = row();
    row[COLUMNS.iter().position(|(name, _)| *name == column).unwrap()] = value;
    row
}

fn record(values: &[Wire<'_>]) -> ProducedRecord {
    routed(&table(), &COLUMNS, values).unwrap().0
}

fn refusal(values: &[Wire<'_>]) -> Failure {
    routed(&table(), &COLUMNS, values).unwrap_err()
}

#[test]
fn a_record_carries_the_commit_time_or_the_producers_own() {
    let timestamp = |timestamp| {
        let table = OutboxTable { timestamp, ..table() };
        routed(&table, &COLUMNS, &row()).unwrap().0.timestamp_ms
    };
    assert_eq!(timestamp(Timestamp::Commit), 946_684_800_001);
    assert_eq!(timestamp(Timestamp::Now), Record::NOW);
}

fn header(name: &str, value: &str) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), Some(value.into()))
}

#[test]
fn a_plain_record_is_the_row_unchanged() {
    let (record, topic) = routed(&table(), &COLUMNS, &row()).unwrap();
    assert_eq!(topic, "outbox.event.order");
    assert_eq!(record.key, b"42");
    assert_eq!(record.value.as_deref(), Some(&br#"{"total": 1.50}"#[..]));
    assert_eq!(record.headers, [header("id", "da8d6de6"), header("type", "OrderPlaced")]);
}

#[test]
fn the_timestamp_is_the_commit_time_in_milliseconds() {
    assert_eq!(record(&row()).timestamp_ms, 946_684_800_001);
}

#[test]
fn the_partition_is_what_the_java_client_computes() {
    // murmur2("21") = -973932308, murmur2("foobar") = -790332482 (Apache Kafka,
    // UtilsTest.testMurmur2).
    for (key, murmur2) in [("21", -973_932_308_i32), ("foobar", -790_332_482)] {
        let expected = (murmur2 & 0x7fff_ffff) % 3;
        assert_eq!(record(&row_with("aggregate_id", Wire::Text(key))).partition, expected);
    }
}

#[test]
fn an_empty_key_is_a_key() {
    assert_eq!(record(&row_with("aggregate_id", Wire::Text(""))).key, b"");
}

#[test]
fn headers_come_in_order_id_type_trace_context_own() {
    let mut values = row_with("headers", Wire::Text(r#"{"tenant": "a", "n": 1, "none": null}"#));
    values[6] = Wire::Text("00-4bf9");
    values[7] = Wire::Text("vendor=1");
    let expected = [
        header("id", "da8d6de6"),
        header("type", "OrderPlaced"),
        header("traceparent", "00-4bf9"),
        header("tracestate", "vendor=1"),
        header("tenant", "a"),
        header("n", "1"),
        ("none".to_owned(), None),
    ];
    assert_eq!(record(&values).headers, expected);
}

#[test]
fn a_null_event_type_is_a_null_header_and_a_null_trace_context_is_none() {
    let headers = record(&row_with("event_type", Wire::Null)).headers;
    assert_eq!(headers, [header("id", "da8d6de6"), ("type".to_owned(), None)]);
}

#[test]
fn header_names_can_be_changed() {
    let headers = HeaderNames { id: "event-id".into(), event_type: "kind".into() };
    let (record, _) = routed(&OutboxTable { headers, ..table() }, &COLUMNS, &row()).unwrap();
    assert_eq!(record.headers, [header("event-id", "da8d6de6"), header("kind", "OrderPlaced")]);
}

#[test]
fn a_null_payload_is_a_null_value() {
    assert_eq!(record(&row_with("payload", Wire::Null)).value, None);
    assert_eq!(record(&row_with("payload", Wire::Text(""))).value, Some(vec![]));
}

#[test]
fn bytea_keys_and_payloads_are_their_bytes() {
    let mut columns = COLUMNS;
    columns[2].1 = BYTEA;
    columns[4].1 = BYTEA;
    let mut values = row();
    values[2] = Wire::Text("\\x00ff");
    values[4] = Wire::Text("\\xDEadbe");
    let (record, _) = routed(&table(), &columns, &values).unwrap();
    assert_eq!(record.key, [0, 0xff]);
    assert_eq!(record.value, Some(vec![0xde, 0xad, 0xbe]));
    assert_eq!(record.partition, partition_for_key(&[0, 0xff], PARTITIONS));
    for broken in ["\\x0", "\\xzz", "abc", "", "\\000"] {
        values[2] = Wire::Text(broken);
        let failure = routed(&table(), &columns, &values).unwrap_err();
        assert_eq!(failure.code, Code::ValueForm, "{broken}");
    }
}

#[test]
fn what_must_not_be_null_is_refused_by_its_own_code() {
    for (column, code) in [
        ("aggregate_id", Code::KeyIsNull),
        ("aggregate_type", Code::TopicIsNull),
        ("id", Code::IdIsNull),
    ] {
        let failure = refusal(&row_with(column, Wire::Null));
        assert_eq!(failure.code, code);
        let named = failure.message.contains("da8d6de6");
        assert_eq!(named, column != "id", "a row is named by its id: {failure}");
    }
}

#[test]
fn an_aggregate_type_that_makes_no_legal_topic_is_refused_and_not_repaired() {
    let long = "x".repeat(250);
    let illegal: [&[u8]; 7] =
        [b"a/b", b"../x", b"a b", b"", long.as_bytes(), b"\xff\xfe", "\u{fffd}".as_bytes()];
    let bare = OutboxTable { topic: TopicTemplate::parse("${aggregate_type}").ok(), ..table() };
    for aggregate_type in illegal {
        let values = row_with("aggregate_type", Wire::Bytes(aggregate_type));
        let failure = routed(&bare, &COLUMNS, &values).unwrap_err();
        assert_eq!(failure.code, Code::TopicIllegal, "{aggregate_type:?}");
        assert!(failure.message.len() < 400, "{failure}");
    }
    for dots in [".", ".."] {
        let values = row_with("aggregate_type", Wire::Text(dots));
        assert_eq!(routed(&bare, &COLUMNS, &values).unwrap_err().code, Code::TopicIllegal);
    }
}

#[test]
fn an_illegal_aggregate_type_is_reported_by_table_column_length_and_place_and_never_shown() {
    // The mistake that put a payload into the log: columns.aggregate_type = "payload".
    let mut mapped = table();
    mapped.columns.set(Role::AggregateType, vec!["payload".into()]);
    let values = row_with("payload", Wire::Text(r#"canary {"card": "4111 1111"}"#));
    let failure = routed(&mapped, &COLUMNS, &values).unwrap_err();
    assert_eq!(failure.code, Code::TopicIllegal);
    let expected = "the row with id da8d6de6 of public.outbox: column payload (28 characters) \
                makes an illegal topic name: character 7 is a space";
    assert!(failure.message.starts_with(expected), "{failure}");
    assert_eq!(failure.names.get(crate::Name::RowId), Some("da8d6de6"), "for the remedy");
    assert!(!failure.to_string().contains("canary") && !failure.to_string().contains("4111"));
}

#[test]
fn no_refusal_of_a_row_shows_any_of_its_values() {
    const CANARY: &str = "canary{ \u{1}";
    let (text, null) = (Wire::Text(CANARY), Wire::Null);
    // Aggregate type, aggregate id, the type of its column, and headers.
    for (code, aggregate_type, aggregate_id, kind, headers) in [
        (Code::TopicIllegal, text, text, COLUMNS[2].1, null),
        (Code::ValueForm, Wire::Text("order"), text, BYTEA, null),
        (Code::HeadersMalformed, Wire::Text("order"), text, COLUMNS[2].1, text),
        (Code::KeyIsNull, Wire::Text("order"), null, COLUMNS[2].1, null),
    ] {
        let (mut columns, mut values) = (COLUMNS, [text; 8]);
        columns[2].1 = kind;
        (values[1], values[2], values[5]) = (aggregate_type, aggregate_id, headers);
        let failure = routed(&table(), &columns, &values).unwrap_err();
        assert_eq!(failure.code, code);
        assert!(!failure.to_string().contains("canary"), "{failure}");
        assert!(failure.message.contains("a row whose id of 9 bytes"), "{failure}");
    }
}

#[test]
fn a_topic_for_all_takes_any_aggregate_type() {
    let topic = TopicTemplate::parse("orders").unwrap();
    for aggregate_type in [Wire::Null, Wire::Text("a/b")] {
        let values = row_with("aggregate_type", aggregate_type);
        let table = OutboxTable { topic: Some(topic.clone()), ..table() };
        assert_eq!(routed(&table, &COLUMNS, &values).unwrap().1, "orders");
    }
}

#[test]
fn headers_that_cannot_be_used_are_refused_without_being_quoted() {
    for json in [
        r#"{"id": "secret"}"#,
        r#"{"type": "secret"}"#,
        r#"{"a": 1, "a": "secret"}"#,
        r#"["secret"]"#,
        r#"{"secret"#,
    ] {
        let failure = refusal(&row_with("headers", Wire::Text(json)));
        assert_eq!(failure.code, Code::HeadersMalformed, "{json}");
        assert!(!failure.to_string().contains("secret"), "{failure}");
    }
    let mut values = row_with("headers", Wire::Text(r#"{"traceparent": "x"}"#));
    assert!(routed(&table(), &COLUMNS, &values).is_ok(), "the column is NULL: no such header");
    values[6] = Wire::Text("00-4bf9");
    assert_eq!(refusal(&values).code, Code::HeadersMalformed);
}

#[test]
fn the_debezium_format_writes_the_header_id_alone_and_the_payload_as_it_is() {
    let columns: [(&str, u32); 6] = [
        ("id", 2950),
        ("aggregatetype", TEXT),
        ("aggregateid", TEXT),
        ("type", TEXT),
        ("payload", 3802),
        ("traceparent", TEXT),
    ];
    let values = [
        Wire::Text("da8d6de6"),
        Wire::Text("User"),
        Wire::Text("10711fa5"),
        Wire::Text("UserCreated"),
        Wire::Text(" {} "),
        Wire::Text("00-4bf9"),
    ];
    let table = OutboxTable { format: Format::Debezium, ..table() };
    let (record, topic) = routed(&table, &columns, &values).unwrap();
    assert_eq!(topic, "outbox.event.User");
    assert_eq!(record.key, b"10711fa5");
    assert_eq!(record.value.as_deref(), Some(&b" {} "[..]));
    assert_eq!(record.headers, [header("id", "da8d6de6")]);
}

/// The usual table's router, and the buffers that last from row to row.
struct Kept {
    columns: Columns,
    router: TableRouter,
    topics: Topics,
    scratch: Scratch,
}

impl Kept {
    fn new(state_topic: &str) -> Self {
        let relation = wire::relation_message(1, "outbox", &COLUMNS);
        let Ok(Message::Relation(relation)) = Message::parse(&relation) else {
            panic!("a relation")
        };
        let columns = Columns::resolve(&table(), &relation, &TypeNames::default(), None).unwrap();
        let state_topic = TopicName::new(state_topic).ok();
        let router = TableRouter::new(table(), columns.clone(), state_topic).unwrap();
        Self { columns, router, topics: Topics::default(), scratch: Scratch::default() }
    }

    fn route(&mut self, aggregate_type: &str) -> Result<(), Failure> {
        let row = row_with("aggregate_type", Wire::Text(aggregate_type));
        let insert = wire::insert_message(1, &row);
        let Ok(Message::Insert(insert)) = Message::parse(&insert) else { panic!("an insert") };
        let mut event = Event::default();
        self.columns.read(insert.tuple.iter(), &mut event).unwrap();
        let Self { router, topics, scratch, .. } = self;
        router.route(&event, topics, scratch, &mut FormatHeaders::default()).map(|_| ())
    }
}

#[test]
fn no_row_is_routed_to_the_state_topic() {
    let mut kept = Kept::new("outbox.event.state");
    for _ in 0..2 {
        let failure = kept.route("state").unwrap_err();
        assert_eq!(failure.code, Code::TopicIllegal, "so it may be a dead letter");
        let what = "outbox.event.state is the state topic, which takes no events";
        assert!(failure.message.ends_with(what), "{failure}");
    }
    kept.route("other").unwrap();
}

#[test]
fn what_is_remembered_of_topics_is_limited() {
    // I6
    let mut kept = Kept::new("state");
    let mut refused = None;
    for number in 0..=65_536 {
        refused = kept.route(&format!("t{number}")).err();
        assert!(kept.router.topic_cache.len() <= REMEMBERED_MAX);
    }
    let topics = kept.topics;
    assert_eq!(refused.unwrap().code, Code::TooManyTopics);
    assert_eq!(topics.names().count(), 65_536);
}

const TIMES: [(&str, u32); 5] =
    [("date", 1082), ("timestamp", 1114), ("timestamptz", 1184), ("int8", 20), ("int4", 23)];

/// The row with one more column, `extra`.
fn routed_with_extra(
    table: &OutboxTable,
    type_oid: u32,
    value: Wire<'_>,
) -> Result<ProducedRecord, Failure> {
    let columns: Vec<_> = COLUMNS.into_iter().chain([("extra", type_oid)]).collect();
    let values: Vec<_> = row().into_iter().chain([value]).collect();
    routed(table, &columns, &values).map(|(record, _)| record)
}

fn table_with(role: Role) -> OutboxTable {
    let mut table = table();
    table.columns.set(role, vec!["extra".into()]);
    table
}

fn timed(unit: EpochUnit) -> OutboxTable {
    let (timestamp, timestamp_unit) = (Timestamp::Column, unit);
    OutboxTable { timestamp, timestamp_unit, ..table_with(Role::Timestamp) }
}

#[test]
fn a_column_gives_the_records_time() {
    let values = ["2019-03-24", "2019-03-24 20:52:59.5", "2019-03-24 20:52:59+00", "7", "8"];
    let millis = [1_553_385_600_000, 1_553_460_779_500, 1_553_460_779_000, 7_000, 8_000];
    for (((name, type_oid), value), expected) in TIMES.into_iter().zip(values).zip(millis) {
        let record = routed_with_extra(&timed(EpochUnit::Seconds), type_oid, Wire::Text(value));
        assert_eq!(record.unwrap().timestamp_ms, expected, "{name}");
    }
}

#[test]
fn where_the_column_is_null_the_records_time_is_the_commit_time() {
    let record = routed_with_extra(&timed(EpochUnit::Seconds), 1184, Wire::Null).unwrap();
    assert_eq!(record.timestamp_ms, PgTimestamp::from_micros(1_999).unix_millis());
}

#[test]
fn a_time_that_no_record_can_carry_is_refused_with_its_column() {
    let refused = |type_oid, text| {
        routed_with_extra(&timed(EpochUnit::Milliseconds), type_oid, Wire::Text(text)).unwrap_err()
    };
    let failure = refused(1184, "-infinity");
    assert_eq!(failure.code, Code::TimestampUnusable);
    let expected = "the row with id da8d6de6 of public.outbox: column extra is no timestamp of a \
                    record: it is infinite";
    assert_eq!(failure.message, expected);
    assert_eq!(refused(20, "0").code, Code::TimestampUnusable);
    assert_eq!(refused(TEXT, "2019-03-24").case, Some(Case::TimeType), "a text is no time");
}

#[test]
fn a_column_gives_the_records_partition_and_null_leaves_it_to_the_key() {
    let table = table_with(Role::Partition);
    let of_key = record(&row()).partition;
    for type_oid in [20, 21, 23] {
        let partition = |value| routed_with_extra(&table, type_oid, value).unwrap().partition;
        assert_eq!([partition(Wire::Text("2")), partition(Wire::Text("0"))], [2, 0]);
        assert_eq!(partition(Wire::Null), of_key);
    }
}

#[test]
fn a_partition_that_no_topic_has_is_refused() {
    let refused = |type_oid, text| {
        let table = table_with(Role::Partition);
        routed_with_extra(&table, type_oid, Wire::Text(text)).unwrap_err()
    };
    for number in ["-1", "2147483648"] {
        let failure = refused(20, number);
        assert_eq!(failure.code, Code::PartitionUnusable);
        assert_eq!(failure.case, Some(Case::PartitionNumber), "more partitions do not help");
    }
    assert_eq!(refused(TEXT, "1").code, Code::ColumnType, "a text is no partition");
}
