//! A row in the text format of COPY as an Insert message (manual, "COPY", section "Text Format").

use std::ops::Range;

/// What stands before the columns of an Insert message: its tag, the relation's OID, the tag of the
/// new row, and the number of columns.
const HEADER_BYTES: usize = 8;

/// An Insert message, whose memory is used again for the next row.
#[derive(Debug, Default)]
pub(crate) struct InsertBuffer {
    message: Vec<u8>,
    /// Where the value of each column is; `None` is NULL.
    values: Vec<Option<Range<usize>>>,
}

impl InsertBuffer {
    /// Takes one row of COPY, with or without the line's end. Returns `false` for a row that ends
    /// within an escape sequence, or has more columns than a table can have; the server sends
    /// neither.
    pub(crate) fn fill(&mut self, relation: u32, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        self.values.clear();
        self.message.clear();
        self.message.push(b'I');
        self.message.extend_from_slice(&relation.to_be_bytes());
        self.message.extend_from_slice(b"N\0\0");
        for field in line.split(|byte| *byte == b'\t') {
            if !self.field(field) {
                return false;
            }
        }
        let Ok(count) = u16::try_from(self.values.len()) else { return false };
        if let Some(place) = self.message.get_mut(HEADER_BYTES - 2..HEADER_BYTES) {
            place.copy_from_slice(&count.to_be_bytes());
        }
        true
    }

    /// The message.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// The value of a column; `None` is NULL.
    pub(crate) fn value(&self, column: usize) -> Option<&[u8]> {
        self.message.get(self.values.get(column)?.clone()?)
    }

    fn field(&mut self, field: &[u8]) -> bool {
        if field == br"\N" {
            self.message.push(b'n');
            self.values.push(None);
            return true;
        }
        self.message.push(b't');
        let length_at = self.message.len();
        self.message.extend_from_slice(&[0; 4]);
        let start = self.message.len();
        if !unescape(field, &mut self.message) {
            return false;
        }
        let value = start..self.message.len();
        // No value of PostgreSQL is larger than 1 GiB.
        let Ok(length) = u32::try_from(value.len()) else { return false };
        if let Some(place) = self.message.get_mut(length_at..start) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        self.values.push(Some(value));
        true
    }
}

/// Appends what a field stands for. The encodings that the server may be asked for have no
/// character that contains the byte of a backslash.
fn unescape(mut field: &[u8], out: &mut Vec<u8>) -> bool {
    while let Some(at) = field.iter().position(|byte| *byte == b'\\') {
        let (before, after) = field.split_at(at);
        let Some((escaped, rest)) = after.get(1..).and_then(<[u8]>::split_first) else {
            return false;
        };
        out.extend_from_slice(before);
        out.push(match escaped {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            other => *other,
        });
        field = rest;
    }
    out.extend_from_slice(field);
    true
}

#[cfg(test)]
mod tests {
    use pgoutput::{Insert, TupleData};
    use proptest::prelude::*;

    use super::*;

    /// `CopyAttributeOutText` of copyto.c.
    fn escape(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in value {
            match byte {
                0x08 => out.extend(br"\b"),
                0x0c => out.extend(br"\f"),
                b'\n' => out.extend(br"\n"),
                b'\r' => out.extend(br"\r"),
                b'\t' => out.extend(br"\t"),
                0x0b => out.extend(br"\v"),
                b'\\' => out.extend(br"\\"),
                other => out.push(*other),
            }
        }
        out
    }

    fn line(values: &[Option<Vec<u8>>]) -> Vec<u8> {
        let fields = values.iter().map(|value| match value {
            Some(value) => escape(value),
            None => br"\N".to_vec(),
        });
        let mut line = fields.collect::<Vec<_>>().join(&b'\t');
        line.push(b'\n');
        line
    }

    fn check(buffer: &mut InsertBuffer, values: &[Option<Vec<u8>>]) {
        assert!(buffer.fill(77, &line(values)));
        let insert = Insert::parse(buffer.message()).expect("an Insert").expect("well formed");
        assert_eq!(insert.relation.as_u32(), 77);
        let read: Vec<Option<&[u8]>> = insert
            .tuple
            .iter()
            .map(|value| match value {
                TupleData::Text(text) => Some(text),
                TupleData::Null => None,
                TupleData::UnchangedToast | TupleData::Binary(_) => panic!("{value:?}"),
            })
            .collect();
        let expected: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
        assert_eq!(read, expected);
        for (column, value) in expected.iter().enumerate() {
            assert_eq!(buffer.value(column), *value);
        }
        assert_eq!(buffer.value(expected.len()), None);
    }

    proptest! {
        #[test]
        fn a_row_is_read_as_the_server_has_written_it(
            rows in prop::collection::vec(
                prop::collection::vec(
                    prop::option::of(prop::collection::vec(
                        prop_oneof![any::<u8>(), prop::sample::select(&b"\\\t\n\r\x08\x0b\x0cNnt."[..])],
                        0..40,
                    )),
                    1..12,
                ),
                1..4,
            )
        ) {
            // One buffer for all: nothing of a row is left in the next.
            let mut buffer = InsertBuffer::default();
            rows.iter().for_each(|values| check(&mut buffer, values));
        }

        #[test]
        fn any_bytes_are_a_row_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = InsertBuffer::default();
            if buffer.fill(1, &bytes) {
                Insert::parse(buffer.message()).expect("an Insert").expect("well formed");
            }
        }
    }

    #[test]
    fn null_is_no_text_and_its_letters_are_one() {
        let mut buffer = InsertBuffer::default();
        check(&mut buffer, &[None, Some(br"\N".to_vec()), Some(b"N".to_vec()), Some(Vec::new())]);
    }

    #[test]
    fn a_row_that_ends_within_an_escape_is_refused() {
        assert!(!InsertBuffer::default().fill(1, b"a\tb\\"));
        assert!(!InsertBuffer::default().fill(1, b"a\tb\\\n"));
    }
}
