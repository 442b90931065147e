//! What is wrong with an input, precisely enough to find the byte in a hex dump.

use core::fmt;

/// An input that is not what the protocol describes.
///
/// The text reads `insert: tuple column 3 at offset 17 claims 70000 bytes but 12 are left`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{item}: {field} at offset {offset} {kind}")]
pub struct DecodeError {
    /// What was being decoded: `frame`, `keepalive`, `insert`, `relation`…
    pub item: &'static str,
    /// The part of it that is wrong.
    pub field: Field,
    /// Where that part begins, in bytes from the beginning of the buffer that was passed to
    /// `parse`. For a [`Message`](crate::Message) that is the beginning of the message, not of the
    /// `CopyData` payload around it.
    pub offset: usize,
    /// What is wrong with it.
    pub kind: DecodeErrorKind,
}

/// The part of a message an error is about: `final lsn`, or `tuple column 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Which one, counted from 1; `None` where there is only one.
    pub ordinal: Option<u16>,
}

impl Field {
    pub(crate) const fn nth(name: &'static str, ordinal: u16) -> Self {
        Self { name, ordinal: Some(ordinal) }
    }
}

impl From<&'static str> for Field {
    fn from(name: &'static str) -> Self {
        Self { name, ordinal: None }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.ordinal {
            Some(ordinal) => write!(f, " {ordinal}"),
            None => Ok(()),
        }
    }
}

/// The ways in which an input can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    /// The input ends before a part of known size.
    #[error("needs {needed} bytes but {left} are left")]
    Truncated {
        /// Size of the part in bytes.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length word announces more than the input holds.
    #[error("claims {claimed} bytes but {left} are left")]
    TooLong {
        /// Bytes announced.
        claimed: u32,
        /// Bytes that follow the length word.
        left: usize,
    },
    /// A length word is below zero.
    #[error("claims a negative length ({length})")]
    NegativeLength {
        /// The announced length.
        length: i32,
    },
    /// A number of elements is below zero.
    #[error("is a negative number ({count})")]
    NegativeCount {
        /// The announced number.
        count: i32,
    },
    /// A string has no NUL at its end.
    #[error("is a string without its terminating zero byte")]
    UnterminatedString,
    /// A byte that says what follows has no meaning in protocol version 1.
    #[error("has the unknown tag '{}'", tag.escape_ascii())]
    UnknownTag {
        /// The byte.
        tag: u8,
    },
    /// A byte of flags or a choice has a value that the manual does not list.
    #[error("is {value}, expected {expected}")]
    InvalidValue {
        /// The byte.
        value: u8,
        /// What would have been valid, in words.
        expected: &'static str,
    },
    /// The message is complete, the input is not.
    #[error("is followed by {count} more bytes")]
    TrailingBytes {
        /// How many bytes are too many.
        count: usize,
    },
}
