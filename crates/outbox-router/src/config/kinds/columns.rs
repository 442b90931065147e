//! `columns.ROLE`: one key for each role that `relay` knows.

use relay::{ColumnNames, Preset, Role};

use super::super::{
    entry::{Content, KeyEntry, KeyType, Secrecy},
    names::identifier,
    print::{Lines, quoted},
    read::{Problems, Section},
    table::DeclaredTable,
};

impl DeclaredTable for ColumnNames {
    fn defaults() -> Self {
        Self::default()
    }

    fn read(mut section: Section, problems: &mut Problems<'_>) -> Self {
        let mut columns = Self::default();
        for role in Role::ALL {
            let names =
                section.texts(role.as_str(), problems, |text| identifier(text).map(str::to_owned));
            if let Some(names) = names {
                columns.set(role, names);
            }
        }
        section.finish(problems);
        columns
    }

    fn write(&self, prefix: &str, lines: &mut Lines) {
        for role in Role::ALL {
            if let Some(names) = self.get(role) {
                let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                lines
                    .set(&format!("{prefix}{}", role.as_str()), &format!("[{}]", names.join(", ")));
            }
        }
    }

    fn describe(prefix: &str, entries: &mut Vec<KeyEntry>) {
        for role in Role::ALL {
            // A role for which the preset has no column may have a column of any name.
            let example =
                Preset::Default.columns(role).first().unwrap_or(&role.as_str()).to_owned();
            let value = KeyType {
                takes: "a column's name, or a list of names".to_owned(),
                default: None,
                examples: vec![quoted(example)],
                secrecy: Secrecy::Public,
            };
            let name = format!("{prefix}{}", role.as_str());
            entries.push(KeyEntry { name, help: help(role), content: Content::Value(value) });
        }
    }
}

const fn help(role: Role) -> &'static [&'static str] {
    match role {
        Role::Id => &["The event's id."],
        Role::AggregateType => &["What `${aggregate_type}` stands for in the topic."],
        Role::AggregateId => &["The record's key."],
        Role::EventType => &["The event's type."],
        Role::Payload => &["The record's value."],
        Role::Headers => &["More headers, as a JSON object."],
        Role::TraceParent | Role::TraceState => &["A header of the W3C trace context."],
        Role::Timestamp => &["The record's time, with timestamp = \"column\"."],
        Role::Partition => {
            &["The record's partition, an integer; where it is NULL, the key's partition."]
        }
    }
}
