//! Kinds that hold further keys.

use super::{
    super::{
        entry::{Content, KeyEntry},
        print::Lines,
        read::{Problems, Section},
        table::DeclaredTable,
    },
    kind::{KeyName, Kind, Named},
};

/// A table: `[key]`, or `key.member = …` within one.
pub(in super::super) struct Single(Content);

/// `[key]`
pub(in super::super) const fn section() -> Single {
    Single(Content::Section)
}

/// `key.member = …`
pub(in super::super) const fn group() -> Single {
    Single(Content::Group)
}

impl<T: DeclaredTable> Kind<T> for Single {
    fn read(&self, key: KeyName, from: &mut Section, problems: &mut Problems<'_>) -> Option<T> {
        Some(T::read(from.section(key, problems), problems))
    }

    fn write(&self, key: &str, value: &T, lines: &mut Lines) {
        if let Content::Section = self.0 {
            lines.section(key);
            value.write("", lines);
        } else {
            value.write(&format!("{key}."), lines);
        }
    }

    fn describe(&self, key: Named, _default: &T, entries: &mut Vec<KeyEntry>) {
        list::<T>(key, ".", self.0.clone(), entries);
    }
}

/// `[[key]]`, any number of times.
pub(in super::super) struct Several {
    none: &'static str,
}

/// `[[key]]`, any number of times; `none` says what applies without any.
pub(in super::super) const fn sections(none: &'static str) -> Several {
    Several { none }
}

impl<T: DeclaredTable> Kind<Vec<T>> for Several {
    fn read(
        &self,
        key: KeyName,
        from: &mut Section,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<T>> {
        let sections = from.sections(key, problems);
        Some(sections.into_iter().map(|section| T::read(section, problems)).collect())
    }

    fn write(&self, key: &str, value: &Vec<T>, lines: &mut Lines) {
        if value.is_empty() {
            lines.comment(&format!("no [[{key}]]: {}", self.none));
        }
        for table in value {
            lines.item(key);
            table.write("", lines);
        }
    }

    fn describe(&self, key: Named, _default: &Vec<T>, entries: &mut Vec<KeyEntry>) {
        list::<T>(key, "[].", Content::Sections, entries);
    }
}

/// A table within a section whose presence has a meaning of its own: `key = { … }`.
pub(in super::super) struct Inline;

/// `key = { … }`, or nothing.
pub(in super::super) const fn inline() -> Inline {
    Inline
}

impl<T: DeclaredTable> Kind<Option<T>> for Inline {
    fn read(
        &self,
        key: KeyName,
        from: &mut Section,
        problems: &mut Problems<'_>,
    ) -> Option<Option<T>> {
        from.optional_section(key, problems).map(|section| Some(T::read(section, problems)))
    }

    fn write(&self, key: &str, value: &Option<T>, lines: &mut Lines) {
        if let Some(table) = value {
            let mut members = Lines::default();
            table.write("", &mut members);
            lines.set(key, &members.inline());
        }
    }

    fn describe(&self, key: Named, _default: &Option<T>, entries: &mut Vec<KeyEntry>) {
        list::<T>(key, ".", Content::Group, entries);
    }
}

fn list<T: DeclaredTable>(
    key: Named,
    separator: &str,
    content: Content,
    entries: &mut Vec<KeyEntry>,
) {
    let Named { name, help } = key;
    let prefix = format!("{name}{separator}");
    entries.push(KeyEntry { name, help, content });
    T::describe(&prefix, entries);
}
