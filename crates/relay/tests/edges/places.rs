//! Topics, partitions, keys and times that are none.

use relay::{
    ExtraHeader, Format, HeaderValue, OutboxTable, Role, Timestamp, TopicTemplate,
    testing::wire::Value,
};

use super::{BOOL, BYTEA, DATE, INT8, TEXT, TIMESTAMP, TIMESTAMPTZ, route_with, table};

#[test]
fn a_topic_is_a_name_that_kafka_takes_and_is_never_rewritten() {
    let table = OutboxTable { topic: TopicTemplate::parse("${aggregate_type}").ok(), ..table() };
    let longest = "x".repeat(249);
    let too_long = "x".repeat(250);
    for (aggregate_type, expected) in [
        ("Order.v1_a-b", "Order.v1_a-b"),
        (longest.as_str(), longest.as_str()),
        (too_long.as_str(), "R003"),
        ("", "R003"),
        (" ", "R003"),
        (".", "R003"),
        ("..", "R003"),
        ("a b", "R003"),
        ("a/b", "R003"),
        ("a\nb", "R003"),
        ("a\0b", "R003"),
        ("bücher", "R003"),
        ("漢字", "R003"),
    ] {
        let outcome = route_with(&table, ("aggregate_type", TEXT, Value::Text(aggregate_type)));
        assert_eq!(outcome.topic(), expected, "{aggregate_type}");
    }
}

#[test]
fn a_partition_is_one_of_the_topics() {
    let mut table = table();
    table.columns.set(Role::Partition, vec!["p".into()]);
    for (partition, expected) in [
        ("0", "0"),
        ("2", "2"),
        ("3", "R013"),
        ("-1", "R013"),
        ("2147483647", "R013"),
        ("2147483648", "R013"),
        ("-9223372036854775808", "R013"),
    ] {
        let outcome = route_with(&table, ("p", INT8, Value::Text(partition)));
        assert_eq!(outcome.partition(), expected, "{partition}");
    }
}

/// The partitions are those that the cases of `differential` have from Debezium.
#[test]
fn a_key_is_its_bytes() {
    for (key, type_oid, expected, partition) in [
        ("漢字", TEXT, "漢字", "1"),
        ("😀é", TEXT, "😀é", "1"),
        ("e\u{301}", TEXT, "e\u{301}", "1"),
        ("\\x6b65792d30", BYTEA, "key-0", "1"),
        ("\\x", BYTEA, "", "0"),
        ("key-0", BYTEA, "R010", "R010"),
    ] {
        let outcome = route_with(&table(), ("aggregate_id", type_oid, Value::Text(key)));
        assert_eq!(outcome.key(), expected, "{key}");
        assert_eq!(outcome.partition(), partition, "{key}");
    }
}

#[test]
fn infinity_is_no_time_of_a_record() {
    let mut table = OutboxTable { timestamp: Timestamp::Column, ..table() };
    table.columns.set(Role::Timestamp, vec!["at".into()]);
    for (type_oid, text, expected) in [
        (TIMESTAMPTZ, "infinity", "R012"),
        (TIMESTAMPTZ, "-infinity", "R012"),
        (TIMESTAMP, "infinity", "R012"),
        (DATE, "-infinity", "R012"),
        (TIMESTAMPTZ, "1970-01-01 00:00:00+00", "R012"),
        (TIMESTAMPTZ, "0044-03-15 12:00:00+00 BC", "R012"),
        (TIMESTAMPTZ, "1970-01-01 00:00:00.001+00", "1"),
        (TIMESTAMP, "294276-12-31 23:59:59.999999", "9224318015999999"),
        (DATE, "5874897-12-31", "185331706992000000"),
        (INT8, "0", "R012"),
        (INT8, "9223372036854775807", "9223372036854775807"),
    ] {
        let outcome = route_with(&table, ("at", type_oid, Value::Text(text)));
        assert_eq!(outcome.time(), expected, "{text}");
    }
}

/// In Debezium's format the figures are those that the cases of `differential` have from Debezium.
#[test]
fn infinity_in_a_header_is_what_postgresql_or_debezium_writes() {
    let header = |type_oid, text, format| {
        let value = HeaderValue::Column("at".to_owned());
        let extra_headers = vec![ExtraHeader { name: "at".to_owned(), value }];
        let table = OutboxTable { format, extra_headers, ..table() };
        route_with(&table, ("at", type_oid, Value::Text(text))).header("at")
    };
    for (type_oid, text, debezium) in [
        (TIMESTAMPTZ, "infinity", "infinity"),
        (TIMESTAMPTZ, "-infinity", "-infinity"),
        (TIMESTAMP, "infinity", "9223372036854775807"),
        (TIMESTAMP, "-infinity", "-9223372036854775808"),
        (DATE, "infinity", "2146033979"),
    ] {
        assert_eq!(header(type_oid, text, Format::Plain), text);
        assert_eq!(header(type_oid, text, Format::Debezium), debezium);
    }
    assert_eq!(header(BOOL, "yes", Format::Plain), "R009", "not what a server sends");
}
