//! Payloads of JSON of every shape, and texts that are none.

use relay::{BytesFormat, ExpandJson, OnNotJson, OutboxTable, testing::wire::Value};

use super::{TEXT, route_with, table};

/// The payload, its expansion as it is, and its expansion without nulls and empty arrays.
const PAYLOADS: [(&str, &str, &str); 26] = [
    // Of every kind at the top.
    (r#"{"a": 1}"#, r#"{"a": 1}"#, r#"{"a":1}"#),
    ("[1, 2]", "[1, 2]", "[1,2]"),
    ("[]", "[]", "[]"),
    ("5", "5", "5"),
    (r#""text""#, r#""text""#, r#""text""#),
    ("true", "true", "true"),
    ("null", "null", "null"),
    // White space is no part of the value.
    (" {\"a\": 1}", r#"{"a": 1}"#, r#"{"a":1}"#),
    ("\n\t[1]\r\n", "[1]", "[1]"),
    // Numbers keep their digits.
    ("12345678901234567890", "12345678901234567890", "12345678901234567890"),
    ("-0", "-0", "-0"),
    ("1e400", "1e400", "1e400"),
    (
        r#"{"a":0.10000000000000000000001}"#,
        r#"{"a":0.10000000000000000000001}"#,
        r#"{"a":0.10000000000000000000001}"#,
    ),
    // Arrays may mix what they like.
    (r#"[1, "x", null, 2.5, {}]"#, r#"[1, "x", null, 2.5, {}]"#, r#"[1,"x",null,2.5,{}]"#),
    (r#"[[], [1], [[2]]]"#, r#"[[], [1], [[2]]]"#, "[[],[1],[[2]]]"),
    (
        r#"[{"n":{"x":1}},{"n":{"y":2}}]"#,
        r#"[{"n":{"x":1}},{"n":{"y":2}}]"#,
        r#"[{"n":{"x":1}},{"n":{"y":2}}]"#,
    ),
    // Members are left out, elements are not.
    (r#"{"a":null,"b":[],"c":[null]}"#, r#"{"a":null,"b":[],"c":[null]}"#, r#"{"c":[null]}"#),
    // Names and texts stay as they are written; a name that is written anew has Java's escapes.
    (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
    (r#"{"é":"\u00e9\/"}"#, r#"{"é":"\u00e9\/"}"#, r#"{"é":"\u00e9\/"}"#),
    (r#"{"":"😀"}"#, r#"{"":"😀"}"#, r#"{"":"😀"}"#),
    // What is no JSON stops the router.
    ("plain", "R014", "R014"),
    ("", "R014", "R014"),
    (" ", "R014", "R014"),
    (r#"{"a": 1} x"#, "R014", "R014"),
    (r#"{"a": NaN}"#, "R014", "R014"),
    (r#"{"a": 01}"#, "R014", "R014"),
];

fn expanded(expand_json: ExpandJson) -> OutboxTable {
    OutboxTable { value_format: BytesFormat::Json, expand_json, ..table() }
}

fn value(table: &OutboxTable, payload: &str) -> String {
    route_with(table, ("payload", TEXT, Value::Text(payload))).value()
}

#[test]
fn a_payload_passes_byte_for_byte() {
    for (payload, ..) in PAYLOADS {
        assert_eq!(value(&table(), payload), payload);
    }
}

#[test]
fn an_expanded_payload_is_embedded_or_stops_the_router() {
    for (payload, as_it_is, dropped) in PAYLOADS {
        assert_eq!(value(&expanded(ExpandJson::AsItIs), payload), as_it_is, "{payload}");
        assert_eq!(value(&expanded(ExpandJson::DropBoth), payload), dropped, "{payload}");
    }
}

#[test]
fn what_is_no_json_is_a_string_where_the_configuration_lets_it() {
    let table = OutboxTable { on_not_json: OnNotJson::AsText, ..expanded(ExpandJson::DropBoth) };
    for (payload, .., dropped) in PAYLOADS {
        let as_text = format!("\"{}\"", payload.replace('"', "\\\""));
        let expected = if dropped == "R014" { as_text.as_str() } else { dropped };
        assert_eq!(value(&table, payload), expected, "{payload}");
    }
}

#[test]
fn json_of_any_depth_passes() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for how in [ExpandJson::AsItIs, ExpandJson::Compact, ExpandJson::DropBoth] {
        assert_eq!(value(&expanded(how), &deep), deep);
    }
}

#[test]
fn half_a_surrogate_pair_is_kept_unless_a_name_has_to_be_read() {
    let lone = r#"{"\ud800": 1}"#;
    assert_eq!(value(&expanded(ExpandJson::AsItIs), lone), lone);
    assert_eq!(value(&expanded(ExpandJson::DropBoth), lone), "R014");
    let in_a_text = r#"{"a":"\ud800"}"#;
    assert_eq!(value(&expanded(ExpandJson::DropBoth), in_a_text), in_a_text);
}
