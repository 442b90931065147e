//! A value within a JSON text, named by a JSON Pointer (RFC 6901). The value is found in the text
//! itself, so a number keeps every digit. Where an object repeats a name, the last member counts,
//! as in PostgreSQL's `->` on `json`.

use std::{borrow::Cow, fmt};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::routing::json::{JsonText, NotJson};

/// The names on the way from the outermost value to the one that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPointer {
    tokens: Vec<String>,
}

/// What is wrong with a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedPointer {
    /// The first character is another one.
    #[error("it does not begin with \"/\"")]
    Start,
    /// Only `~0` (for `~`) and `~1` (for `/`) are escapes.
    #[error("a \"~\" is followed by neither 0 nor 1")]
    Escape,
}

impl JsonPointer {
    pub(crate) fn parse(text: &str) -> Result<Self, MalformedPointer> {
        let rest = text.strip_prefix('/').ok_or(MalformedPointer::Start)?;
        let tokens = rest.split('/').map(unescape).collect::<Result<_, _>>()?;
        Ok(Self { tokens })
    }

    /// The names, from the outermost on.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(String::as_str)
    }

    /// The value: a string's characters, the text of anything else. `None` where there is no such
    /// value, and for JSON's null.
    ///
    /// # Errors
    /// The text is not valid JSON.
    pub(crate) fn find<'a>(&self, json: &'a [u8]) -> Result<Option<Cow<'a, str>>, NotJson> {
        let mut value: &'a RawValue = serde_json::from_slice(json).map_err(|_| NotJson)?;
        for token in &self.tokens {
            let mut deserializer = serde_json::Deserializer::from_str(value.get());
            match Step(token).deserialize(&mut deserializer) {
                Ok(Some(inner)) => value = inner,
                // Valid as a whole, so only a scalar fails here: it has no members.
                Ok(None) | Err(_) => return Ok(None),
            }
        }
        match value.get() {
            "null" => Ok(None),
            text if text.starts_with('"') => {
                let text: JsonText<'a> = serde_json::from_str(text).map_err(|_| NotJson)?;
                Ok(Some(text.0))
            }
            text => Ok(Some(Cow::Borrowed(text))),
        }
    }
}

fn unescape(token: &str) -> Result<String, MalformedPointer> {
    let mut unescaped = String::new();
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        match character {
            '~' => match characters.next() {
                Some('0') => unescaped.push('~'),
                Some('1') => unescaped.push('/'),
                _ => return Err(MalformedPointer::Escape),
            },
            character => unescaped.push(character),
        }
    }
    Ok(unescaped)
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in &self.tokens {
            write!(f, "/{}", token.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

/// From a value to its member or element of this name.
struct Step<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(MemberName(name)) = map.next_key()? {
            if *name == *self.0.as_bytes() {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        // "01" is no index (RFC 6901, section 4).
        let index: Option<usize> = self.0.parse().ok();
        let index = index.filter(|index| index.to_string() == self.0);
        let mut found = None;
        let mut position = 0;
        while let Some(value) = sequence.next_element::<&'de RawValue>()? {
            if index == Some(position) {
                found = Some(value);
            }
            position += 1;
        }
        Ok(found)
    }
}

/// The name of a member, as bytes: half of a surrogate pair is no text. Such a name equals no
/// token, and concerns no other member.
#[derive(serde::Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, [u8]>);

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pointer: &str, json: &str) -> Option<String> {
        let pointer = JsonPointer::parse(pointer).unwrap();
        pointer.find(json.as_bytes()).unwrap().map(Cow::into_owned)
    }

    #[test]
    fn a_value_is_found_by_names_and_indexes() {
        let json = r#"{"tenant": {"id": "a\"c", "n": 1.50}, "list": [1, {"x": true}], "": "e",
                       "a/b": 12345678901234567890123, "m~n": null, "o": {"k": [1, 2]}}"#;
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found("/tenant/id", json), some("a\"c"));
        assert_eq!(found("/tenant/n", json), some("1.50"));
        assert_eq!(found("/list/1/x", json), some("true"));
        assert_eq!(found("/", json), some("e"));
        assert_eq!(found("/a~1b", json), some("12345678901234567890123"));
        assert_eq!(found("/o", json), some(r#"{"k": [1, 2]}"#));
    }

    #[test]
    fn what_is_not_there_and_null_are_nothing() {
        let json = r#"{"a": [1], "n": null, "s": "x"}"#;
        for pointer in ["/b", "/a/1", "/a/01", "/a/-", "/a/x", "/n", "/s/x", "/a/0/y"] {
            assert_eq!(found(pointer, json), None, "{pointer}");
        }
    }

    #[test]
    fn the_last_of_repeated_members_counts() {
        assert_eq!(found("/a", r#"{"a": 1, "a": 2}"#).as_deref(), Some("2"));
    }

    #[test]
    fn half_of_a_surrogate_pair_beside_the_value_changes_nothing() {
        for other in [r#""\ud83d": 1"#, r#""b": "\ud83d""#, r#""b": {"\udc00": "\ud83d"}"#] {
            let json = format!(r#"{{{other}, "a": {{{other}, "c": 2}}}}"#);
            assert_eq!(found("/a/c", &json).as_deref(), Some("2"), "{json}");
        }
        assert_eq!(found("/\u{1f600}", r#"{"\ud83d\ude00": 3}"#).as_deref(), Some("3"));
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for json in ["", "{", "{} x", r#"{"a": "\ud800"}"#] {
            let pointer = JsonPointer::parse("/a").unwrap();
            let found = pointer.find(json.as_bytes());
            assert_eq!(found, Err(NotJson), "{json}");
        }
    }
}
