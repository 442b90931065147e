//! "Did you mean": the key that is most like a word, or a key of the same name in another table.

use strsim::levenshtein;

use super::entry::KeyEntry;

/// The candidate that is most like `word`, if any is like it at all.
pub(super) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    // Two exchanged letters count as two edits, so even a word of four letters must tolerate two.
    let tolerated = word.chars().count().div_ceil(3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The full name of a key that ends in this word, if there is one.
pub(super) fn elsewhere<'e>(word: &str, entries: &'e [KeyEntry]) -> Option<&'e str> {
    let found = entries.iter().find(|entry| entry.value().is_some() && entry.leaf() == word);
    found.map(|entry| entry.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::{super::keys::KEYS, *};

    #[test]
    fn only_something_alike_is_suggested() {
        let keys = ["slot", "url", "publication"];
        assert_eq!(nearest("slto", keys), Some("slot"));
        assert_eq!(nearest("sl", keys), None);
        assert_eq!(nearest("slots", keys), Some("slot"));
        assert_eq!(nearest("publicaton", keys), Some("publication"));
        assert_eq!(elsewhere("slot", &KEYS), Some("postgres.slot"));
        assert_eq!(elsewhere("table", &KEYS), Some("outbox[].table"));
    }
}
