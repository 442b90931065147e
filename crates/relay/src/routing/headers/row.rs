//! The headers that differ from row to row: those that the table's mapping adds, then the row's
//! own: the members of the JSON object in its `headers` column become Kafka headers, in the
//! object's order.
//!
//! A string becomes its characters, a number or a boolean its JSON spelling, null Kafka's null, an
//! object or an array its JSON text. A value that is not an object is refused. So is a member that
//! repeats a name, since a consumer could not know which of the two is meant.

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{fmt, ops::Range};

use super::{
    header::Header,
    plain::{self, Span},
};
use crate::routing::json::JsonText;

/// How many members one row may have: far above any use, far below what would harm a consumer.
const MEMBERS_MAX: usize = 256;

/// Why a header of the row's own is refused whose name is taken.
pub(crate) const REPEATED: &str = "a member repeats the name of another header";

/// The headers of one row, in two buffers that are reused from row to row: nothing is allocated
/// once they are large enough.
#[derive(Debug, Clone, Default)]
pub struct RowHeaders {
    text: String,
    spans: Vec<Span>,
}

impl RowHeaders {
    /// No headers, nothing allocated.
    pub const fn new() -> Self {
        Self { text: String::new(), spans: Vec::new() }
    }

    /// Removes the headers of the previous row.
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
    }

    /// How many headers the row has.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of names and values.
    pub(crate) fn bytes(&self) -> usize {
        let value = |span: &Span| span.value.as_ref().map_or(0, Range::len);
        self.spans.iter().map(|span| span.name.len() + value(span)).sum()
    }

    /// In the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Header<'_>> + use<'_> {
        self.spans.iter().map(|span| Header {
            name: self.text.get(span.name.clone()).unwrap_or_default(),
            value: span.value.clone().map(|v| self.text.get(v).unwrap_or_default().as_bytes()),
        })
    }

    /// Adds the members of `json`, none of which may have the name of a `taken` header, or of one
    /// that is there already.
    ///
    /// # Errors
    /// What is wrong with the object; never its content.
    pub(crate) fn read(&mut self, json: &[u8], taken: &[Header<'_>]) -> Result<(), String> {
        let (text, spans) = (self.text.len(), self.spans.len());
        match self.read_plain(json, taken) {
            Some(()) => Ok(()),
            None => {
                self.text.truncate(text);
                self.spans.truncate(spans);
                self.parse(json, taken)
            }
        }
    }

    /// Adds what `write` adds, or nothing if it fails.
    pub(crate) fn whole_or_nothing<E>(&mut self, write: impl FnOnce(&mut Self) -> Result<(), E>) {
        let (text, spans) = (self.text.len(), self.spans.len());
        if write(self).is_err() {
            self.text.truncate(text);
            self.spans.truncate(spans);
        }
    }

    /// [`RowHeaders::read`] for plain objects; `None` for every other, and for every malformed one.
    pub(super) fn read_plain(&mut self, json: &[u8], taken: &[Header<'_>]) -> Option<()> {
        let start = self.text.len();
        let json = str::from_utf8(json).ok()?;
        self.text.push_str(json);
        let Self { text, spans } = self;
        // Compared as bytes: no range here divides a character.
        let text = text.as_bytes();
        plain::members(json, start, |member| {
            let name = text.get(member.name.clone());
            let is_taken = taken.iter().any(|header| Some(header.name.as_bytes()) == name)
                || spans.iter().any(|span| text.get(span.name.clone()) == name);
            (!is_taken && spans.len() < MEMBERS_MAX).then(|| spans.push(member))
        })
    }

    /// [`RowHeaders::read`] for every object.
    #[cold]
    pub(super) fn parse(&mut self, json: &[u8], taken: &[Header<'_>]) -> Result<(), String> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        deserializer
            .deserialize_map(Members { headers: self, taken })
            .and_then(|()| deserializer.end())
            .map_err(|error| without_content(&error))
    }

    /// Adds a header.
    pub(crate) fn push(&mut self, name: &str, value: Option<&str>) {
        let name = self.append(name);
        let value = value.map(|value| self.append(value));
        self.spans.push(Span { name, value });
    }

    /// Adds a header whose value `write` appends.
    ///
    /// # Errors
    /// `write` failed; the header is not added.
    pub(crate) fn push_with<E>(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut String) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.text.len();
        let name = self.append(name);
        let start = self.text.len();
        match write(&mut self.text) {
            Ok(()) => {
                self.spans.push(Span { name, value: Some(start..self.text.len()) });
                Ok(())
            }
            Err(error) => {
                self.text.truncate(before);
                Err(error)
            }
        }
    }

    /// Adds a header of the row's own.
    ///
    /// # Errors
    /// There are too many, or the name is taken.
    pub(crate) fn push_own(
        &mut self,
        name: &str,
        value: Option<&str>,
        taken: &[Header<'_>],
    ) -> Result<(), &'static str> {
        if self.len() >= MEMBERS_MAX {
            return Err("it has more than 256 members");
        }
        if taken.iter().any(|header| header.name == name)
            || self.iter().any(|header| header.name == name)
        {
            return Err(REPEATED);
        }
        self.push(name, value);
        Ok(())
    }

    fn append(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }
}

/// serde_json's own messages may quote the input, so only messages made here are passed on.
fn without_content(error: &serde_json::Error) -> String {
    if error.is_data() {
        let text = error.to_string();
        match text.split_once(OURS) {
            Some((_, rest)) => rest.split(" at line ").next().unwrap_or(rest).to_owned(),
            None => "it is not a JSON object".to_owned(),
        }
    } else {
        format!("it is no valid JSON at character {}", error.column())
    }
}

/// Marks the messages below among those of serde_json.
const OURS: &str = "row headers: ";

struct Members<'h> {
    headers: &'h mut RowHeaders,
    taken: &'h [Header<'h>],
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let ours = |text: &str| A::Error::custom(format!("{OURS}{text}"));
        while let Some(name) = map.next_key::<JsonText<'de>>()? {
            let name = name.0.as_ref();
            let value: &'de RawValue = map.next_value()?;
            let pushed = match value.get() {
                "null" => self.headers.push_own(name, None, self.taken),
                text if text.starts_with('"') => {
                    let text: JsonText<'de> = serde_json::from_str(text)
                        .map_err(|_| ours("a text holds a lone surrogate"))?;
                    self.headers.push_own(name, Some(&text.0), self.taken)
                }
                literal => self.headers.push_own(name, Some(literal), self.taken),
            };
            pushed.map_err(ours)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<(String, Option<String>)>, String> {
        let taken = [Header { name: "id", value: None }];
        let mut headers = RowHeaders::new();
        headers.read(json.as_bytes(), &taken)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(headers.iter().map(|h| (h.name.to_owned(), h.value.map(text))).collect())
    }

    #[test]
    fn members_keep_their_order_and_spelling() {
        let json = r#" {"z":"a\"b","a":1.50,"t":true,"n":null,"o":{"x": [1]},"ü":"é"} "#;
        let expected = [
            ("z", Some("a\"b")),
            ("a", Some("1.50")),
            ("t", Some("true")),
            ("n", None),
            ("o", Some("{\"x\": [1]}")),
            ("ü", Some("é")),
        ];
        let expected: Vec<_> =
            expected.map(|(n, v)| (n.to_owned(), v.map(str::to_owned))).into_iter().collect();
        assert_eq!(read(json), Ok(expected));
    }

    #[test]
    fn what_is_no_object_is_refused_without_quoting_it() {
        for json in
            ["", "[]", "1", "\"secret\"", "{\"secret\":", "{} {}", "null", "{\"s\":\"\\ud800\"}"]
        {
            let refused = read(json).unwrap_err();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_repeated_name_is_refused() {
        assert_eq!(
            read(r#"{"id":"x"}"#).unwrap_err(),
            "a member repeats the name of another header"
        );
        assert_eq!(
            read(r#"{"a":1,"a":2}"#).unwrap_err(),
            "a member repeats the name of another header"
        );
    }

    #[test]
    fn the_number_of_members_is_limited() {
        let many: Vec<String> = (0..257).map(|n| format!("\"m{n}\":{n}")).collect();
        let json = format!("{{{}}}", many.join(","));
        assert_eq!(read(&json).unwrap_err(), "it has more than 256 members");
    }
}
