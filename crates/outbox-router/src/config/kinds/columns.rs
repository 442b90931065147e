//! `columns.ROLE`: one key for each role that `relay` knows.

use relay::{ColumnName, ColumnNames, DEFAULT, Role};

use super::super::{
    entry::{Content, KeyEntry, KeyType, Secrecy},
    error::Rejection,
    names::identifier,
    print::{Lines, quoted, quoted_template},
    read::{Problems, Section},
    table::DeclaredTable,
};

impl DeclaredTable for ColumnNames {
    fn defaults() -> Self {
        Self::default()
    }

    fn read_keys(section: &mut Section, problems: &mut Problems<'_>) -> Self {
        let mut columns = Self::default();
        for role in Role::ALL {
            let names = section.texts(role.as_str(), problems, |text| column_name(role, text));
            if let Some(names) = names {
                columns.set(role, names);
            }
        }
        columns
    }

    fn write(&self, prefix: &str, lines: &mut Lines) {
        for role in Role::ALL {
            if let Some(names) = self.get(role) {
                let names: Vec<String> =
                    names.iter().map(|name| quoted_template(&name.to_string())).collect();
                lines
                    .set(&format!("{prefix}{}", role.as_str()), &format!("[{}]", names.join(", ")));
            }
        }
    }

    fn describe(prefix: &str, entries: &mut Vec<KeyEntry>) {
        for role in Role::ALL {
            // A role for which the preset has no column may have a column of any name.
            let example = DEFAULT.alternatives(role).first().unwrap_or(&role.as_str()).to_owned();
            let value = KeyType {
                takes: if role.takes_template() {
                    "a column's name, a text with ${…}, or a list of these".to_owned()
                } else {
                    "a column's name, or a list of names".to_owned()
                },
                default: None,
                examples: vec![quoted(example)],
                secrecy: Secrecy::Public,
            };
            let name = format!("{prefix}{}", role.as_str());
            entries.push(KeyEntry { name, help: help(role), content: Content::Value(value) });
        }
    }
}

fn column_name(role: Role, text: &str) -> Result<ColumnName, Rejection> {
    match ColumnName::parse(text) {
        Ok(ColumnName::Column(name)) => identifier(&name).map(ColumnName::from),
        Ok(template) if role.takes_template() => Ok(template),
        Ok(_) => Err(Rejection::value("is a text with ${…}")
            .hint(format!("columns.{} takes the name of a column", role.as_str()))),
        Err(why) => Err(Rejection::value(format!("is no text with ${{…}}: {why}"))),
    }
}

const fn help(role: Role) -> &'static [&'static str] {
    match role {
        Role::Id => &["The event's id."],
        Role::AggregateType => &["What `${aggregate_type}` stands for in the topic."],
        Role::AggregateId => &["The record's key."],
        Role::EventType => &["The event's type."],
        Role::Payload => &["The record's value."],
        Role::Headers => &["More headers: a JSON object, or an array of names and values in turn."],
        Role::TraceParent | Role::TraceState => &["A header of the W3C trace context."],
        Role::Timestamp => &["The record's time, with timestamp = \"column\"."],
        Role::Partition => {
            &["The record's partition, an integer; where it is NULL, the key's partition."]
        }
        Role::Tracing => &[
            "A trace context as the text of a java.util.Properties, as Debezium's tracing has it;",
            " its traceparent, tracestate and baggage become headers.",
        ],
    }
}
