//! Which keys have a meaning with which source of rows. One that has none is refused by name where
//! it is set, so that nobody relies on it; `check` does not print it, and the example file has it
//! commented out.
//!
//! A key counts as set wherever it is: in the file, by a variable or by `--set`, also to its
//! default.

use std::collections::BTreeMap;

use relay::Timestamp;

use super::{
    error::{ConfigCode, ConfigError, Place},
    keys::{Config, KEYS},
    places::Places,
    polling::SourceKind,
    print::Shown,
    read::Problems,
};

/// A key, or the value of a key, that has a meaning with one source alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfOneSource {
    /// The key's full name, as in [`KEYS`]; with a dot at its end, every key that begins so.
    pub name: &'static str,
    /// The value, where others have a meaning with both.
    pub value: Option<OneValue>,
    /// The source that it belongs to.
    pub source: SourceKind,
    /// Why it has none with the other.
    pub why: &'static str,
    /// What to do.
    pub instead: &'static str,
}

/// The one value of a key, its default, that has a meaning with one source alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneValue {
    /// As a text.
    pub text: &'static str,
    /// What applies with the other source while the key is not set.
    pub unset: &'static str,
}

const LEAVE_OUT: &str = "leave it out";

/// A key that only the stream has.
const fn of_stream(name: &'static str, why: &'static str, instead: &'static str) -> OfOneSource {
    OfOneSource { name, value: None, source: SourceKind::Stream, why, instead }
}

/// A key that only polling has.
const fn of_polling(name: &'static str, why: &'static str) -> OfOneSource {
    let instead = "set postgres.source = \"polling\", or leave it out";
    OfOneSource { name, value: None, source: SourceKind::Polling, why, instead }
}

/// Every key of which only one source makes something. Each other key has a meaning with both.
pub const OF_ONE_SOURCE: &[OfOneSource] = &[
    of_stream(
        "postgres.backlog",
        "there is no WAL to catch up with",
        "leave it out; polling.batch says how many rows are read at a time",
    ),
    OfOneSource {
        value: Some(OneValue {
            text: "commit",
            unset: "the time of the row's time column, else the time at which it is read",
        }),
        ..of_stream(
            "outbox[].timestamp",
            "a row does not say when its transaction was committed",
            "set \"column\" or \"now\", or leave it out: then the time column of the mapping applies, \
             else the time at which the row is read",
        )
    },
    of_stream(
        "outbox[].on_update",
        "a row is read while it is pending, and an UPDATE of it is not seen",
        LEAVE_OUT,
    ),
    of_stream(
        "dead_letters.topic",
        "a row that cannot be delivered stays in its own table, marked as abandoned",
        "leave it out; outbox-router dead-letters list shows such rows",
    ),
    of_stream(
        "dead_letters.max_events",
        "rows that wait stay in their own table",
        "leave it out; dead_letters.max_keys limits the keys that wait",
    ),
    of_stream(
        "dead_letters.max_bytes",
        "rows that wait stay in their own table",
        "leave it out; dead_letters.max_keys limits the keys that wait",
    ),
    of_stream(
        "recover.order_by",
        "without a slot there are no gaps from which rows are recovered",
        "leave it out; outbox.order_by is the order in which pending rows are read",
    ),
    of_stream(
        "limits.window_events",
        "one batch is in flight at a time",
        "set polling.batch, and leave it out",
    ),
    of_stream("monitor.bytes_behind.", "there is no slot that could be behind", LEAVE_OUT),
    of_polling("polling.", "rows come from the slot"),
    of_polling("retry.", "on_error alone says what becomes of a row that cannot be delivered"),
    of_polling("outbox[].order_by", "rows come in the order in which they were committed"),
    of_polling("outbox[].mark.", "the slot knows what is delivered, and no row is marked"),
];

/// The entry about a key of [`KEYS`], where it has a meaning with one source alone.
pub fn of_one_source(name: &str) -> Option<&'static OfOneSource> {
    OF_ONE_SOURCE.iter().find(|entry| match entry.name.strip_suffix('.') {
        Some(_) => name.starts_with(entry.name),
        None => name == entry.name,
    })
}

/// What `check` shows of a key.
pub(super) fn shown(source: SourceKind, name: &str, value: Option<&str>) -> Shown {
    let Some(entry) = of_one_source(name).filter(|entry| entry.source != source) else {
        return Shown::AsItIs;
    };
    match entry.value {
        None => Shown::Nothing,
        Some(one) if value.is_some_and(|value| value.trim_matches('"') == one.text) => {
            Shown::Unset(one.unset)
        }
        Some(_) => Shown::AsItIs,
    }
}

/// Refuses every key that is set and has no meaning, and a source that has no table.
pub(super) fn validate(config: &Config, places: &Places, problems: &mut Problems<'_>) {
    let source = config.postgres.source;
    let source_place = places.find("postgres.source");
    if source_place != Place::Nowhere && problems.has_any_at(&source_place) {
        // It is neither of them, and nothing follows from the default.
        return;
    }
    if source == SourceKind::Polling && config.outbox.is_empty() {
        problems.push(
            ConfigError::new(
                ConfigCode::Contradiction,
                "postgres.source is \"polling\", and no [[outbox]] is configured: there is no \
                 publication that would name the tables",
            )
            .at(source_place)
            .hint("name each table that is polled: [[outbox]] with table = \"public.outbox\""),
        );
    }
    // Of a list, the first member is reported.
    let mut found: BTreeMap<&str, (&OfOneSource, &Place)> = BTreeMap::new();
    for (key, place) in places.iter() {
        let (name, key) = names_of(key);
        let entry = of_one_source(&name).filter(|entry| entry.source != source);
        let is_key = || KEYS.iter().any(|known| known.name == name && known.value().is_some());
        if let Some(entry) = entry
            && is_key()
            && (entry.value.is_none() || is_set_to_its_value(config, key))
            // A value that is wrong in itself says nothing else.
            && !problems.has_any_at(place)
        {
            found.entry(key).or_insert((entry, place));
        }
    }
    for (key, (entry, place)) in found {
        let value = entry.value.map(|one| format!(" = \"{}\"", one.text)).unwrap_or_default();
        let message = format!(
            "{key}{value} has no effect with postgres.source = \"{}\": {}",
            source.as_str(),
            entry.why
        );
        problems.push(
            ConfigError::new(ConfigCode::Contradiction, message)
                .at(place.clone())
                .hint(entry.instead),
        );
    }
}

/// Of a place, such as `outbox[0].order_by[1]`: the name of the key, `outbox[].order_by`, and how
/// the key is called in messages, `outbox[0].order_by`.
fn names_of(place: &str) -> (String, &str) {
    let key = match place.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
        Some((key, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => key,
        Some(_) | None => place,
    };
    let mut name = String::new();
    let mut rest = key;
    while let Some((before, after)) = rest.split_once('[') {
        name.push_str(before);
        name.push_str("[]");
        rest = after.split_once(']').map_or("", |(_, after)| after);
    }
    name.push_str(rest);
    (name, key)
}

/// Whether a key that is set is set to the value of its entry: `outbox[0].timestamp` to `commit`,
/// as no other entry has a value.
fn is_set_to_its_value(config: &Config, key: &str) -> bool {
    let number = key.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let number = number.and_then(|(number, _)| number.parse::<usize>().ok());
    let outbox = number.and_then(|number| config.outbox.get(number));
    outbox.is_some_and(|outbox| outbox.table.timestamp == Timestamp::Commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_about_a_key_that_exists() {
        for entry in OF_ONE_SOURCE {
            let keys = KEYS.iter().filter(|key| key.value().is_some());
            let about = keys.filter(|key| of_one_source(&key.name) == Some(entry)).count();
            let several = entry.name.ends_with('.');
            assert!(if several { about > 1 } else { about == 1 }, "{}: {about}", entry.name);
        }
    }

    #[test]
    fn the_value_of_an_entry_is_the_default_of_its_key() {
        for entry in OF_ONE_SOURCE {
            let Some(one) = entry.value else { continue };
            let key = KEYS.iter().find(|key| key.name == entry.name).unwrap();
            let default = key.value().unwrap().default.as_deref();
            assert_eq!(default, Some(&*format!("\"{}\"", one.text)));
        }
    }

    #[test]
    fn a_place_is_called_by_its_key() {
        for (place, name, key) in [
            ("polling.batch", "polling.batch", "polling.batch"),
            ("outbox[1].on_update", "outbox[].on_update", "outbox[1].on_update"),
            ("outbox[0].order_by[12]", "outbox[].order_by", "outbox[0].order_by"),
            (
                "outbox[0].extra_headers[1].name",
                "outbox[].extra_headers[].name",
                "outbox[0].extra_headers[1].name",
            ),
        ] {
            assert_eq!(names_of(place), (name.to_owned(), key));
        }
    }
}
