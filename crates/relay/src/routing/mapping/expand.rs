//! A payload of JSON as a part of a JSON value: its text as it is, or written anew without white
//! space between its tokens and, if so configured, without members that are null or empty arrays.
//! Debezium leaves those out unless it is told otherwise (`table.json.payload.null.behavior`,
//! `table.json.payload.empty.array.behavior`).
//!
//! Nothing is parsed into numbers, so each keeps its digits, and nothing is inferred: an array's
//! elements may be of different types.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::routing::{
    json::{JsonText, NotJson},
    table::ExpandJson,
};

/// How deep members are looked for. What lies deeper is copied as it is, so that no row can exhaust
/// the stack.
const DEPTH_MAX: u8 = 128;

/// Appends the JSON of `text`.
///
/// # Errors
/// The text is not valid JSON.
pub(super) fn expand(text: &[u8], how: ExpandJson, out: &mut String) -> Result<(), NotJson> {
    let value: &RawValue = serde_json::from_slice(text).map_err(|_| NotJson)?;
    match how {
        ExpandJson::No | ExpandJson::AsItIs => {
            out.push_str(value.get());
            Ok(())
        }
        ExpandJson::Compact
        | ExpandJson::DropNulls
        | ExpandJson::DropEmptyArrays
        | ExpandJson::DropBoth => copy(value, how, DEPTH_MAX, out).map_err(|_| NotJson),
    }
}

fn copy(
    value: &RawValue,
    how: ExpandJson,
    depth_left: u8,
    out: &mut String,
) -> Result<(), serde_json::Error> {
    let text = value.get();
    match depth_left.checked_sub(1) {
        Some(depth_left) if text.starts_with(['{', '[']) => {
            let copy = Copy { how, depth_left, out };
            copy.deserialize(&mut serde_json::Deserializer::from_str(text))
        }
        _ => {
            out.push_str(text);
            Ok(())
        }
    }
}

/// Copies an object or an array.
struct Copy<'o> {
    how: ExpandJson,
    depth_left: u8,
    out: &'o mut String,
}

impl Copy<'_> {
    fn is_dropped(&self, value: &RawValue) -> bool {
        let text = value.get();
        let is_null = text == "null";
        let is_empty_array =
            text.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with(']'));
        match self.how {
            ExpandJson::No | ExpandJson::AsItIs | ExpandJson::Compact => false,
            ExpandJson::DropNulls => is_null,
            ExpandJson::DropEmptyArrays => is_empty_array,
            ExpandJson::DropBoth => is_null || is_empty_array,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Copy<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Copy<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push('{');
        let mut separator = "";
        while let Some(JsonText(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            if self.is_dropped(value) {
                continue;
            }
            self.out.push_str(separator);
            super::simple::string(&name, self.out);
            self.out.push(':');
            copy(value, self.how, self.depth_left, self.out).map_err(serde::de::Error::custom)?;
            separator = ",";
        }
        self.out.push('}');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        self.out.push('[');
        let mut separator = "";
        while let Some(value) = sequence.next_element::<&RawValue>()? {
            self.out.push_str(separator);
            copy(value, self.how, self.depth_left, self.out).map_err(serde::de::Error::custom)?;
            separator = ",";
        }
        self.out.push(']');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str, how: ExpandJson) -> Result<String, NotJson> {
        let mut out = String::new();
        expand(text.as_bytes(), how, &mut out).map(|()| out)
    }

    const MIXED: &str = r#"{"a": null, "b": [], "c": [ ], "d": [null, [], {"x": null, "y": 1.50}],
        "e": 12345678901234567890, "f\"": {"n": null}, "g": [1, "2", 3.0]}"#;

    #[test]
    fn compact_drops_white_space_between_tokens_and_nothing_else() {
        let text = r#" {"a": null, "b": [ ], "c": [1.50, "x y"], "d": { }} "#;
        assert_eq!(
            expanded(text, ExpandJson::Compact).unwrap(),
            r#"{"a":null,"b":[],"c":[1.50,"x y"],"d":{}}"#
        );
        assert_eq!(expanded(" 1 ", ExpandJson::Compact).unwrap(), "1");
    }

    #[test]
    fn json_is_copied_as_it_is() {
        for text in [MIXED, "[1, \"2\", null]", "null", "\"x\"", "1.50"] {
            assert_eq!(expanded(text, ExpandJson::AsItIs).unwrap(), text);
        }
        assert_eq!(expanded(" {\"a\": 1} ", ExpandJson::AsItIs).unwrap(), "{\"a\": 1}");
    }

    #[test]
    fn members_are_left_out_and_elements_stay() {
        assert_eq!(
            expanded(MIXED, ExpandJson::DropBoth).unwrap(),
            r#"{"d":[null,[],{"y":1.50}],"e":12345678901234567890,"f\"":{},"g":[1,"2",3.0]}"#
        );
        assert_eq!(
            expanded(r#"{"a": null, "b": []}"#, ExpandJson::DropNulls).unwrap(),
            r#"{"b":[]}"#
        );
        assert_eq!(
            expanded(r#"{"a": null, "b": []}"#, ExpandJson::DropEmptyArrays).unwrap(),
            r#"{"a":null}"#
        );
    }

    #[test]
    fn a_value_of_any_depth_is_copied() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(expanded(&deep, ExpandJson::DropBoth).unwrap(), deep);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "plain", "{", "{} {}", "{'a': 1}"] {
            assert_eq!(expanded(text, ExpandJson::AsItIs), Err(NotJson), "{text}");
            assert_eq!(expanded(text, ExpandJson::DropBoth), Err(NotJson), "{text}");
        }
    }
}
