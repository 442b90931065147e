//! A payload of JSON as a part of a JSON value: its text as it is, or written anew without white
//! space between its tokens and, if so configured, without members that are null or empty arrays.
//! Debezium leaves those out unless it is told otherwise (`table.json.payload.null.behavior`,
//! `table.json.payload.empty.array.behavior`), except where another object of the same array has a
//! value for the member.
//!
//! Nothing is parsed into numbers, so each keeps its digits, and nothing is inferred: an array's
//! elements may be of different types.

use std::{borrow::Cow, cell::OnceCell, collections::HashSet, fmt};

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
        | ExpandJson::DropBoth => copy(value, how, DEPTH_MAX, None, out).map_err(|_| NotJson),
    }
}

fn copy(
    value: &RawValue,
    how: ExpandJson,
    depth_left: u8,
    siblings: Option<&Siblings<'_>>,
    out: &mut String,
) -> Result<(), serde_json::Error> {
    let text = value.get();
    match depth_left.checked_sub(1) {
        Some(depth_left) if text.starts_with(['{', '[']) => {
            let copy = Copy { value, how, depth_left, siblings, out };
            copy.deserialize(&mut serde_json::Deserializer::from_str(text))
        }
        _ => {
            out.push_str(text);
            Ok(())
        }
    }
}

/// Whether a member of this value is left out.
fn is_dropped(value: &RawValue, how: ExpandJson) -> bool {
    let text = value.get();
    let is_null = text == "null";
    let is_empty_array =
        text.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with(']'));
    match how {
        ExpandJson::No | ExpandJson::AsItIs | ExpandJson::Compact => false,
        ExpandJson::DropNulls => is_null,
        ExpandJson::DropEmptyArrays => is_empty_array,
        ExpandJson::DropBoth => is_null || is_empty_array,
    }
}

/// The array that an object is an element of. Debezium gives all its objects the members that one
/// of them has a value for, so it writes a null or an empty array in the others.
struct Siblings<'v> {
    array: &'v RawValue,
    how: ExpandJson,
    /// The names with a value, which are collected only when a member would be left out. They are
    /// parts of the array's text, so their number is limited by limits.row_bytes.
    valued: OnceCell<HashSet<Cow<'v, str>>>,
}

impl Siblings<'_> {
    fn have_value(&self, name: &str) -> Result<bool, serde_json::Error> {
        if let Some(valued) = self.valued.get() {
            return Ok(valued.contains(name));
        }
        let mut names = HashSet::new();
        let collect = ValuedNames { how: self.how, names: &mut names };
        serde_json::Deserializer::from_str(self.array.get()).deserialize_seq(collect)?;
        Ok(self.valued.get_or_init(|| names).contains(name))
    }
}

/// Collects the names of an array's objects whose members are not left out.
struct ValuedNames<'n, 'v> {
    how: ExpandJson,
    names: &'n mut HashSet<Cow<'v, str>>,
}

impl<'de> Visitor<'de> for ValuedNames<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(element) = sequence.next_element::<&RawValue>()? {
            if element.get().starts_with('{') {
                let collect = ValuedNames { how: self.how, names: &mut *self.names };
                serde_json::Deserializer::from_str(element.get())
                    .deserialize_map(collect)
                    .map_err(serde::de::Error::custom)?;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((JsonText(name), value)) = map.next_entry::<_, &RawValue>()? {
            if !is_dropped(value, self.how) {
                self.names.insert(name);
            }
        }
        Ok(())
    }
}

/// Copies an object or an array.
struct Copy<'c, 'v, 's> {
    value: &'v RawValue,
    how: ExpandJson,
    depth_left: u8,
    /// Where the value is an element.
    siblings: Option<&'c Siblings<'s>>,
    out: &'c mut String,
}

impl<'de> DeserializeSeed<'de> for Copy<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Copy<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let custom = serde::de::Error::custom::<serde_json::Error>;
        self.out.push('{');
        let mut separator = "";
        while let Some(JsonText(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            if is_dropped(value, self.how) {
                let is_kept = self.siblings.map(|siblings| siblings.have_value(&name)).transpose();
                if !is_kept.map_err(custom)?.unwrap_or_default() {
                    continue;
                }
            }
            self.out.push_str(separator);
            super::simple::string(&name, self.out);
            self.out.push(':');
            copy(value, self.how, self.depth_left, None, self.out).map_err(custom)?;
            separator = ",";
        }
        self.out.push('}');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let siblings = Siblings { array: self.value, how: self.how, valued: OnceCell::new() };
        self.out.push('[');
        let mut separator = "";
        while let Some(value) = sequence.next_element::<&RawValue>()? {
            self.out.push_str(separator);
            copy(value, self.how, self.depth_left, Some(&siblings), self.out)
                .map_err(serde::de::Error::custom)?;
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
    fn a_member_stays_where_another_object_of_the_array_has_a_value() {
        for (text, how, expected) in [
            (
                r#"{"items":[{"colors":[]},{"colors":[{"name":"white"}]}]}"#,
                ExpandJson::DropBoth,
                r#"{"items":[{"colors":[]},{"colors":[{"name":"white"}]}]}"#,
            ),
            (r#"[{"x":null},{"x":1}]"#, ExpandJson::DropBoth, r#"[{"x":null},{"x":1}]"#),
            (r#"[{"\u0078":null},{"x":1}]"#, ExpandJson::DropBoth, r#"[{"x":null},{"x":1}]"#),
            // No other object, or none of the same array.
            (r#"[{"x":null},{"x":[]},{"y":1}]"#, ExpandJson::DropBoth, r#"[{},{},{"y":1}]"#),
            (r#"[{"x":null},null,[{"x":1}],7]"#, ExpandJson::DropBoth, "[{},null,[{\"x\":1}],7]"),
            (
                r#"[{"n":{"x":null}},{"n":{"x":1}}]"#,
                ExpandJson::DropBoth,
                r#"[{"n":{}},{"n":{"x":1}}]"#,
            ),
            // What is not left out is a value.
            (r#"[{"x":null},{"x":[]}]"#, ExpandJson::DropNulls, r#"[{"x":null},{"x":[]}]"#),
            (r#"[{"x":null},{"x":[]}]"#, ExpandJson::DropEmptyArrays, r#"[{"x":null},{"x":[]}]"#),
        ] {
            assert_eq!(expanded(text, how).unwrap(), expected, "{text}");
        }
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
