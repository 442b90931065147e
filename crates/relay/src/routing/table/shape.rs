//! What a record of a table looks like.

use crate::routing::template::Template;

/// What a record looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Headers `id` and `type`, then the row's own.
    Plain,
    /// What Debezium's `EventRouter` writes: the header `id` alone, and types as Kafka Connect
    /// writes them.
    Debezium,
}

/// Which timestamp a record carries. Kafka deletes records by it (`retention.ms`), and a topic may
/// limit how far it is from the broker's clock (`message.timestamp.before.max.ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamp {
    /// When the source transaction was committed.
    Commit,
    /// When the record is produced, which an outage may delay.
    Now,
    /// What the column of [`Role::Timestamp`](super::Role::Timestamp) says; the commit time where
    /// it is NULL.
    Column,
}

/// Which bytes a key or a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BytesFormat {
    /// The text as it is; of `bytea` its bytes.
    Auto,
    /// The text as it is; the column is no `bytea`. Connect's `StringConverter`.
    String,
    /// JSON, a text being quoted. Connect's `JsonConverter` without schemas.
    Json,
    /// The bytes of a `bytea`; the column is one. Connect's `ByteArrayConverter`.
    Bytes,
}

/// Where a value is JSON: what becomes of a payload that is JSON itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpandJson {
    /// It stands in the value as a string.
    No,
    /// It stands in the value as it is.
    AsItIs,
    /// It stands in the value without the white space between its tokens.
    Compact,
    /// It stands in the value without members that are null.
    DropNulls,
    /// It stands in the value without members that are empty arrays.
    DropEmptyArrays,
    /// It stands in the value without both.
    DropBoth,
}

/// What becomes of a payload that was to be expanded and is no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnNotJson {
    /// The row is refused.
    Halt,
    /// It stands in the value as a string, as a text does that is not expanded.
    AsText,
}

/// How a decimal number is written (`decimal.handling.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimals {
    /// In JSON the bytes of its digits, in a header the number; without a declared scale an object
    /// of both.
    Precise,
    /// A text.
    Text,
    /// A floating-point number.
    Double,
}

/// How a time is written, of which all but the last mode change only those without a time zone
/// (`time.precision.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// A number of milliseconds or microseconds, by the declared precision.
    Adaptive,
    /// The same, and a time of day in microseconds.
    AdaptiveTimeMicroseconds,
    /// A number of microseconds.
    Microseconds,
    /// A number of nanoseconds.
    Nanoseconds,
    /// By Kafka Connect's own types, whose text depends on the JVM: refused.
    Connect,
    /// As ISO 8601: refused.
    IsoString,
    /// As an object of its parts, also an interval and a time with a time zone: refused.
    Structured,
}

/// How an interval is written (`interval.handling.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intervals {
    /// A number of microseconds, a month having 30.4375 days.
    Number,
    /// As ISO 8601 has it.
    Text,
}

/// A payload that counts as empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyPayload {
    /// NULL.
    Null,
    /// A text of white space alone, also an empty one.
    Blank,
    /// A `bytea` without a byte.
    EmptyBytea,
}

/// Which payloads become Kafka's null, a tombstone on a compacted topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TombstoneOn(pub Vec<EmptyPayload>);

impl TombstoneOn {
    /// Whether such a payload does.
    pub(crate) fn has(&self, payload: EmptyPayload) -> bool {
        self.0.contains(&payload)
    }
}

impl Default for TombstoneOn {
    fn default() -> Self {
        Self(vec![EmptyPayload::Null])
    }
}

/// What follows where a table lacks the column of an additional header or of the envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingColumns {
    /// The table's next row is refused.
    Error,
    /// The header or member is left out.
    Ignore,
}

/// What becomes of an UPDATE of a row, of which an outbox has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUpdate {
    /// It is counted.
    Ignore,
    /// It is refused.
    Error,
}

/// A header beside those of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: HeaderValue,
}

/// What a header's value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// A column's; null where that is NULL.
    Column(String),
    /// A text, which columns may fill; null where such a column is NULL.
    Template(Template),
}

/// A member of the envelope beside the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeMember {
    /// Its name.
    pub name: String,
    /// The column of its value.
    pub column: String,
}

/// Names of the headers that the formats write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// The event's id.
    pub id: String,
    /// The event's type.
    pub event_type: String,
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self { id: "id".to_owned(), event_type: "type".to_owned() }
    }
}
