//! What rows look like: their columns, keys and payloads, and where their records go.

use relay::{
    TableName,
    polling::SHARDS,
    testing::wire::{self, TEXT, Value},
};

/// The largest row that is produced.
pub const ROW_BYTES: usize = 1 << 16;
/// The topics; a key's topic is the same for all of its rows.
pub const TOPICS: usize = 2;
/// Partitions of each topic.
pub const PARTITIONS: i32 = 2;
/// What the value of a record begins with that the broker refuses.
pub const REFUSED: &str = "refuse ";

const RELATION: u32 = 16_400;
const COLUMNS: [(&str, u32); 5] = [
    ("id", TEXT),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
];

/// Why a row cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// It has no key.
    NullKey,
    /// Its topic has no legal name.
    IllegalTopic,
    /// It is larger than `limits.row_bytes`.
    TooLarge,
    /// The broker refuses its record.
    Refused,
}

impl Poison {
    /// Every one there is.
    pub const ALL: [Self; 4] = [Self::NullKey, Self::IllegalTopic, Self::TooLarge, Self::Refused];
}

/// The name of a table, by its place in the configuration.
pub fn table_name(table: usize) -> TableName {
    TableName { schema: "public".to_owned(), name: format!("outbox{table}") }
}

/// The message that describes a table.
pub fn relation(table: usize) -> Vec<u8> {
    wire::relation_message(oid(table), &table_name(table).name, &COLUMNS)
}

/// A key's text.
pub fn key_text(table: usize, key: u64) -> String {
    format!("{table}/{key}")
}

/// The topic of a key, by its place in the list of topics.
pub fn topic_of(key: u64) -> usize {
    usize::try_from(key).expect("a few") % TOPICS
}

/// The topic with this name, by its place in the list.
pub fn topic_named(name: &str) -> Option<usize> {
    (0..TOPICS).find(|topic| name.ends_with(&format!("t{topic}")))
}

/// The value of a row that can be delivered, by its number and its content's.
pub fn value(row: usize, content: u64) -> String {
    format!("payload {row}/{content}")
}

/// The number of the content in such a value, or in one that the broker refuses.
pub fn content_of(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    text.rsplit_once('/')?.1.parse().ok()
}

/// The Insert message of a row.
pub fn insert(
    table: usize,
    (row, content): (usize, u64),
    key: u64,
    poison: Option<Poison>,
) -> Vec<u8> {
    let id = row.to_string();
    let key_column = key_text(table, key);
    let topic = match poison {
        Some(Poison::IllegalTopic) => "no topic".to_owned(),
        _ => format!("t{}", topic_of(key)),
    };
    let value = match poison {
        Some(Poison::TooLarge) => "x".repeat(ROW_BYTES + 1),
        Some(Poison::Refused) => format!("{REFUSED}{row}/{content}"),
        _ => value(row, content),
    };
    let key = match poison {
        Some(Poison::NullKey) => Value::Null,
        _ => Value::Text(&key_column),
    };
    let values =
        [Value::Text(&id), Value::Text(&topic), key, Value::Text("made"), Value::Text(&value)];
    wire::insert_message(oid(table), &values)
}

/// The shard of a key. How keys are divided is the server's business, as long as it is always the
/// same.
pub fn shard_of(key: Option<&str>) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    key.unwrap_or_default().bytes().fold(0x811c_9dc5, mix) % SHARDS
}

/// The number of a table.
pub fn oid(table: usize) -> u32 {
    RELATION + u32::try_from(table).expect("a few")
}
