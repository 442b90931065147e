//! What a record has by which it is an event's: its id, its key and its value. Rows of several
//! tables, records of other producers, and rows of a table that was emptied may have one id in one
//! topic; so a row's record has the row's key and value, too.

use std::collections::HashMap;

/// A record that is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    /// What its id header holds.
    pub(super) id: Vec<u8>,
    /// `None`: any key, since nothing says which one a row had that is deleted, but `--key`.
    pub(super) key: Option<Vec<u8>>,
    /// What the row's record has as its value, Kafka's null as nothing; `None`: any value, since
    /// there is no row.
    pub(super) value: Option<Vec<u8>>,
}

impl Wanted {
    /// The records of an event without a row, one of which suffices: with any spelling of its id,
    /// and with the key that a person names, as text or as JSON. Which of both the event had, its
    /// table said by `key_format`, and several tables may write to one topic.
    pub(super) fn without_row(ids: &[String], key: Option<&str>) -> Vec<Self> {
        let keys = match key {
            Some(text) => vec![Some(text.to_owned()), Some(serde_json::json!(text).to_string())],
            None => vec![None],
        };
        let of_id = |id: &String| {
            let of_key = |key: &Option<String>| Self {
                id: id.clone().into_bytes(),
                key: key.clone().map(String::into_bytes),
                value: None,
            };
            keys.iter().map(of_key).collect::<Vec<_>>()
        };
        ids.iter().flat_map(of_id).collect()
    }
}

/// Records that are looked for, and not found yet.
#[derive(Debug, Default)]
pub(super) struct Missing {
    of_id: HashMap<Vec<u8>, Vec<Wanted>>,
}

/// What a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nobody looks for one with its id.
    Unwanted,
    /// It has an id that is looked for, and another key.
    OfAnotherKey,
    /// It has an id and a key that are looked for, and another value.
    OfOtherContent,
    /// One that was looked for, and is not any more.
    Found(Wanted),
}

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        self.of_id.is_empty()
    }

    /// A record with this id, key and value was read.
    pub(super) fn see(&mut self, id: &[u8], key: Option<&[u8]>, value: Option<&[u8]>) -> Seen {
        let Some(wanted) = self.of_id.get_mut(id) else { return Seen::Unwanted };
        // A key that is empty and none are the same to some clients.
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        let is = |sought: &Option<Vec<u8>>, here| sought.as_ref().is_none_or(|one| one == here);
        if !wanted.iter().any(|one| is(&one.key, key)) {
            return Seen::OfAnotherKey;
        }
        let is_it = |one: &Wanted| is(&one.key, key) && is(&one.value, value);
        let Some(place) = wanted.iter().position(is_it) else { return Seen::OfOtherContent };
        let found = wanted.swap_remove(place);
        if wanted.is_empty() {
            self.of_id.remove(id);
        }
        Seen::Found(found)
    }
}

impl FromIterator<Wanted> for Missing {
    fn from_iter<I: IntoIterator<Item = Wanted>>(wanted: I) -> Self {
        let mut missing = Self::default();
        for one in wanted {
            let of_id = missing.of_id.entry(one.id.clone()).or_default();
            if !of_id.contains(&one) {
                of_id.push(one);
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(id: &str, key: Option<&str>) -> Wanted {
        Wanted { id: id.into(), key: key.map(Into::into), value: None }
    }

    #[test]
    fn a_record_with_the_id_and_another_key_is_passed_over() {
        let (of_a, of_b) = (wanted("5", Some("a")), wanted("5", Some("b")));
        let mut missing: Missing = [of_a.clone(), of_b.clone(), of_a.clone()].into_iter().collect();
        assert_eq!(missing.see(b"6", Some(b"a"), None), Seen::Unwanted);
        assert_eq!(missing.see(b"5", Some(b"c"), None), Seen::OfAnotherKey);
        assert_eq!(missing.see(b"5", None, None), Seen::OfAnotherKey);
        assert_eq!(missing.see(b"5", Some(b"b"), None), Seen::Found(of_b));
        assert_eq!(missing.see(b"5", Some(b"b"), None), Seen::OfAnotherKey, "it was found before");
        assert_eq!(missing.see(b"5", Some(b"a"), None), Seen::Found(of_a));
        assert!(missing.is_empty());
        assert_eq!(missing.see(b"5", Some(b"a"), None), Seen::Unwanted);
    }

    #[test]
    fn a_record_with_another_value_is_of_another_row() {
        let one = Wanted { value: Some(b"2".into()), ..wanted("5", Some("a")) };
        let mut missing: Missing = [one.clone()].into_iter().collect();
        assert_eq!(missing.see(b"5", Some(b"a"), Some(b"1")), Seen::OfOtherContent);
        assert_eq!(missing.see(b"5", Some(b"a"), None), Seen::OfOtherContent);
        assert_eq!(missing.see(b"5", Some(b"b"), Some(b"2")), Seen::OfAnotherKey);
        assert_eq!(missing.see(b"5", Some(b"a"), Some(b"2")), Seen::Found(one));
        let null = Wanted { value: Some(Vec::new()), ..wanted("5", Some("a")) };
        let mut missing: Missing = [null.clone()].into_iter().collect();
        assert_eq!(missing.see(b"5", Some(b"a"), None), Seen::Found(null));
    }

    #[test]
    fn without_a_row_a_named_key_has_to_be_the_records_as_text_or_as_json() {
        let ids = ["5".to_owned()];
        let missing = |key| Wanted::without_row(&ids, key).into_iter().collect::<Missing>();
        let as_json = wanted("5", Some("\"a\""));
        assert_eq!(missing(Some("a")).see(b"5", Some(b"b"), None), Seen::OfAnotherKey);
        assert_eq!(
            missing(Some("a")).see(b"5", Some(b"a"), None),
            Seen::Found(wanted("5", Some("a")))
        );
        assert_eq!(missing(Some("a")).see(b"5", Some(b"\"a\""), None), Seen::Found(as_json));
        assert_eq!(missing(None).see(b"5", Some(b"b"), None), Seen::Found(wanted("5", None)));
    }

    #[test]
    fn without_a_row_every_key_fits_and_an_empty_key_is_as_none() {
        let mut missing: Missing = [wanted("5", None)].into_iter().collect();
        assert_eq!(missing.see(b"5", Some(b"c"), None), Seen::Found(wanted("5", None)));
        let mut missing: Missing = [wanted("5", Some(""))].into_iter().collect();
        assert_eq!(missing.see(b"5", None, None), Seen::Found(wanted("5", Some(""))));
    }
}
