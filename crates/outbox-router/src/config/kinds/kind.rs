//! The trait that every kind of key implements.

use super::super::{
    entry::KeyEntry,
    print::Lines,
    read::{Problems, Section},
};

/// A key's name within its table.
pub(in super::super) type KeyName = &'static str;

/// A key's full name, and what it means.
pub(in super::super) struct Named {
    pub(in super::super) name: String,
    pub(in super::super) help: &'static [&'static str],
}

/// What a key of type `T` takes.
pub(in super::super) trait Kind<T> {
    /// Removes the key from its table; `None` when it is absent, or wrong and reported.
    fn read(&self, key: KeyName, from: &mut Section, problems: &mut Problems<'_>) -> Option<T>;

    /// Writes the key, if it is set.
    fn write(&self, key: &str, value: &T, lines: &mut Lines);

    /// Lists the key.
    fn describe(&self, key: Named, default: &T, entries: &mut Vec<KeyEntry>);
}
