//! The lines of an answer of `/tap`, each a JSON object: written by the router, read by the
//! command.

use relay::{held::EventId, polling::RowId, wording};
use serde::{Deserialize, Serialize};

use super::{
    content::{Cut, RawContent},
    outcome::Outcome,
    routed::{Routed, RowName, ValueSize},
};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// An event.
    Event(Box<EventLine>),
    /// So many events were wanted and are not shown, because they were routed faster than they were
    /// read.
    NotShown {
        /// How many.
        events: u64,
    },
    /// The last line: what to ask with next.
    Tap {
        /// The tap's name.
        id: String,
        /// The number of the last line before this one.
        after: u64,
    },
}

impl Line {
    /// It, with the end of a line.
    pub(crate) fn written(&self) -> String {
        // Nothing in a line has a form that JSON does not have.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// An event. Where it has no record, topic, sizes and headers are those that its record would have
/// had, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventLine {
    pub(crate) outcome: Outcome,
    /// Of a dead letter: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) partition: Option<i32>,
    pub(crate) key_bytes: Option<usize>,
    pub(crate) value_bytes: Option<usize>,
    pub(crate) tombstone: bool,
    pub(crate) headers: usize,
    pub(crate) table: String,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) event_type: Option<String>,
    /// Of a row that was streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit_lsn: Option<String>,
    /// Of a row that was streamed: its place among the inserts of its transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    /// Of a row that was polled: its primary key, one text for each column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Vec<String>>,
    /// Of a row that was streamed: when its transaction was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) committed_at: Option<String>,
    /// Of a row that was polled: when it was written by its time column; without one, when it was
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) written_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Content>,
}

/// The content of an event, cut to a size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) key: Option<Part>,
    pub(crate) value: Option<Part>,
    pub(crate) headers: Vec<(String, Option<Part>)>,
}

/// A text; or, where it is no text or was cut, an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Part {
    /// The whole of it.
    Text(String),
    /// The beginning of a text of so many bytes.
    CutText {
        /// It.
        text: String,
        /// Bytes of the whole.
        of_bytes: usize,
    },
    /// Bytes that are not UTF-8, or their beginning.
    Hex {
        /// Two digits for each byte.
        hex: String,
        /// Bytes of the whole.
        of_bytes: usize,
    },
}

impl From<Routed> for EventLine {
    fn from(routed: Routed) -> Self {
        let Routed { row, outcome, code, topic, sizes, content, missed_before: _ } = routed;
        let (value_bytes, tombstone) = match sizes.value {
            ValueSize::Bytes(bytes) => (Some(bytes), false),
            ValueSize::Tombstone => (None, true),
            ValueSize::Unknown => (None, false),
        };
        let at = wording::utc_millis(row.at);
        let line = Self {
            outcome,
            code: code.map(|code| code.as_str().to_owned()),
            topic,
            partition: sizes.partition,
            key_bytes: sizes.key,
            value_bytes,
            tombstone,
            headers: sizes.headers,
            table: row.table,
            aggregate_type: row.aggregate_type,
            event_type: row.event_type,
            commit_lsn: None,
            index: None,
            id: None,
            committed_at: None,
            written_at: None,
            content: content.map(Content::from),
        };
        match row.name {
            RowName::Streamed(EventId { commit_lsn, index }) => Self {
                commit_lsn: Some(commit_lsn.to_string()),
                index: Some(index),
                committed_at: at,
                ..line
            },
            RowName::Polled(RowId(id)) => Self {
                id: Some(id.iter().map(|text| text.as_ref().to_owned()).collect()),
                written_at: at,
                ..line
            },
        }
    }
}

impl From<RawContent> for Content {
    fn from(raw: RawContent) -> Self {
        let headers = raw.headers.into_iter().map(|(name, value)| (name, value.map(Part::from)));
        Self {
            key: raw.key.map(Part::from),
            value: raw.value.map(Part::from),
            headers: headers.collect(),
        }
    }
}

impl From<Cut> for Part {
    /// A text may be cut within a character, of which the beginning is left out.
    fn from(Cut { mut kept, of_bytes }: Cut) -> Self {
        let is_cut = kept.len() < of_bytes;
        if let Err(error) = str::from_utf8(&kept)
            && is_cut
            && error.error_len().is_none()
        {
            kept.truncate(error.valid_up_to());
        }
        match String::from_utf8(kept) {
            Ok(text) if is_cut => Self::CutText { text, of_bytes },
            Ok(text) => Self::Text(text),
            Err(error) => {
                let digits = error.as_bytes().iter().map(|byte| format!("{byte:02x}"));
                Self::Hex { hex: digits.collect(), of_bytes }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: &[u8], most: usize) -> Part {
        Part::from(Cut::of(bytes, most))
    }

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        assert_eq!(part("aü".as_bytes(), 9), Part::Text("aü".to_owned()));
        assert_eq!(part("aü".as_bytes(), 2), Part::CutText { text: "a".to_owned(), of_bytes: 3 });
        assert_eq!(part("aü".as_bytes(), 1), Part::CutText { text: "a".to_owned(), of_bytes: 3 });
    }

    #[test]
    fn what_is_no_text_is_hexadecimal() {
        assert_eq!(part(b"\xff\x01", 9), Part::Hex { hex: "ff01".to_owned(), of_bytes: 2 });
        assert_eq!(part(b"\xff\x01a", 2), Part::Hex { hex: "ff01".to_owned(), of_bytes: 3 });
        // A character that is broken off without a cut is none.
        assert_eq!(part(b"a\xc3", 9), Part::Hex { hex: "61c3".to_owned(), of_bytes: 2 });
    }

    #[test]
    fn every_form_of_a_part_reads_back() {
        for part in [part(b"a", 9), part(b"ab", 1), part(b"\xff", 9)] {
            let text = serde_json::to_string(&part).unwrap();
            assert_eq!(serde_json::from_str::<Part>(&text).unwrap(), part, "{text}");
        }
    }
}
