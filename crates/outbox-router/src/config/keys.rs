//! Every key there is, by its full name, and the nearest one to a misspelling. Readers do not consult this list; a
//! test holds it against what they ask for, and another holds the example file against it.

use strsim::levenshtein;

/// Every key. `*` stands for a name that the user chooses; `[]` for one of several tables.
pub const KEYS: [&str; 34] = [
    "name",
    "postgres.url",
    "postgres.slot",
    "postgres.publication",
    "outbox[].table",
    "outbox[].preset",
    "outbox[].format",
    "outbox[].topic",
    "outbox[].timestamp",
    "outbox[].columns.id",
    "outbox[].columns.aggregate_type",
    "outbox[].columns.aggregate_id",
    "outbox[].columns.event_type",
    "outbox[].columns.payload",
    "outbox[].columns.headers",
    "outbox[].columns.traceparent",
    "outbox[].columns.tracestate",
    "outbox[].headers.id",
    "outbox[].headers.event_type",
    "kafka.bootstrap_servers",
    "kafka.create_topics.partitions",
    "kafka.create_topics.replication_factor",
    "kafka.state_topic",
    "kafka.properties.*",
    "limits.window_events",
    "limits.window_bytes",
    "limits.row_bytes",
    "limits.shutdown",
    "monitor.interval",
    "monitor.bytes_behind.warning",
    "monitor.bytes_behind.critical",
    "admin.listen",
    "log.format",
    "log.level",
];

/// The last part of a key's full name.
pub(super) fn leaf(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, leaf)| leaf)
}

/// The candidate that is most like `word`, if any is like it at all.
pub(super) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    // Two letters exchanged count as two edits, so even a word of four must tolerate that many.
    let tolerated = word.chars().count().div_ceil(3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Where a key of that very name belongs, if it exists elsewhere.
pub(super) fn elsewhere(word: &str) -> Option<&'static str> {
    KEYS.into_iter().find(|key| leaf(key) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_something_alike_is_suggested() {
        let keys = ["slot", "url", "publication"];
        assert_eq!(nearest("slto", keys), Some("slot"));
        assert_eq!(nearest("sl", keys), None);
        assert_eq!(nearest("slots", keys), Some("slot"));
        assert_eq!(nearest("publicaton", keys), Some("publication"));
        assert_eq!(elsewhere("slot"), Some("postgres.slot"));
        assert_eq!(elsewhere("table"), Some("outbox[].table"));
    }
}
