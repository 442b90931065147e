//! The headers of a row's own, as hostile as JSON allows.

use relay::{ExtraHeader, Format, HeaderValue, OutboxTable, Template, testing::wire::Value};

use super::{JSON, Outcome, route_with, table};

fn with_headers(table: &OutboxTable, json: &str) -> Outcome {
    route_with(table, ("headers", JSON, Value::Text(json)))
}

fn members(count: usize) -> String {
    let members: Vec<String> = (0..count).map(|n| format!("\"m{n}\":\"{n}\"")).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn a_name_is_there_once() {
    let value = HeaderValue::Template(Template::parse("x").unwrap());
    let extra_headers = vec![ExtraHeader { name: "extra".to_owned(), value }];
    let table = OutboxTable { extra_headers, ..table() };
    for (json, name, expected) in [
        (r#"{"a": "1", "a": "2"}"#, "a", "R009"),
        (r#"{"a": "1", "\u0061": "2"}"#, "a", "R009"),
        (r#"{"id": "mine"}"#, "id", "R009"),
        (r#"{"type": "mine"}"#, "type", "R009"),
        (r#"{"extra": "mine"}"#, "extra", "R009"),
        // Kafka's names differ by case.
        (r#"{"ID": "mine"}"#, "id", "da8d6de6"),
        (r#"{"A": "1", "a": "2"}"#, "a", "2"),
    ] {
        assert_eq!(with_headers(&table, json).header(name), expected, "{json}");
    }
}

/// Debezium appends, so a name may be there twice in its format.
#[test]
fn in_debeziums_format_a_name_may_be_there_twice() {
    let header = |column: &str| {
        let value = HeaderValue::Column(column.to_owned());
        ExtraHeader { name: "id".to_owned(), value }
    };
    let extra_headers = vec![header("event_type"), header("aggregate_id")];
    let table = OutboxTable { format: Format::Debezium, extra_headers, ..table() };
    assert_eq!(with_headers(&table, "{}").header("id"), "da8d6de6 and OrderPlaced and 42");
}

#[test]
fn members_are_limited_in_number_and_not_in_size() {
    assert_eq!(with_headers(&table(), &members(256)).header("m255"), "255");
    for count in [257, 10_000] {
        assert_eq!(with_headers(&table(), &members(count)).value(), "R009", "{count}");
    }
    let large = "x".repeat(1 << 20);
    let json = format!("{{\"large\": \"{large}\", \"{large}\": 1}}");
    let outcome = with_headers(&table(), &json);
    assert!(outcome.header("large") == large && outcome.header(&large) == "1");
}

/// Kafka's protocol counts bytes, so no character of a name or a value ends it.
#[test]
fn every_character_is_kept() {
    for (json, name, expected) in [
        (r#"{"a\r\nb": "c\r\nd"}"#, "a\r\nb", "c\r\nd"),
        (r#"{"\u0000": "a\u0000b"}"#, "\0", "a\0b"),
        (r#"{"": "empty"}"#, "", "empty"),
        (r#"{"漢\ud83d\ude00": "é"}"#, "漢😀", "é"),
        (r#"{"a": "\ud800"}"#, "a", "R009"),
    ] {
        assert_eq!(with_headers(&table(), json).header(name), expected, "{json}");
    }
}

#[test]
fn a_value_is_its_json_and_headers_are_an_object() {
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let of_deep = format!("{{\"a\": {deep}}}");
    for (json, expected) in [
        (r#"{"a": 12345678901234567890}"#, "12345678901234567890"),
        (r#"{"a": 1.50}"#, "1.50"),
        (r#"{"a": -0}"#, "-0"),
        (r#"{"a": {"b": [1,  2]}}"#, r#"{"b": [1,  2]}"#),
        (r#"{"a": null}"#, "NULL"),
        (of_deep.as_str(), deep.as_str()),
        (r#"["a", "1"]"#, "R009"),
        (r#""a""#, "R009"),
        (r#"{"a": 1} {"b": 2}"#, "R009"),
        (r#"{"a": 01}"#, "R009"),
        ("\u{feff}{}", "R009"),
    ] {
        assert_eq!(with_headers(&table(), json).header("a"), expected, "{json}");
    }
}
