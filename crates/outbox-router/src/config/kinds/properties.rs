//! `kafka.properties.*`: names that librdkafka defines, not this program.

use super::{
    super::{
        entry::{Content, KeyEntry, KeyType, Secrecy},
        print::{Lines, quoted},
        read::{Problems, Section},
        values::Properties,
    },
    kind::{KeyName, Kind, Named},
};

/// Any property of librdkafka; the pairs are names and values that are often set.
pub(in super::super) struct AnyProperty(&'static [(&'static str, &'static str)]);

pub(in super::super) const fn properties(
    examples: &'static [(&'static str, &'static str)],
) -> AnyProperty {
    AnyProperty(examples)
}

impl Kind<Properties> for AnyProperty {
    fn read(
        &self,
        key: KeyName,
        from: &mut Section,
        problems: &mut Problems<'_>,
    ) -> Option<Properties> {
        Some(Properties::new(from.section(key, problems).properties(problems)))
    }

    fn write(&self, key: &str, value: &Properties, lines: &mut Lines) {
        for (name, value) in value.shown() {
            lines.set(&format!("{key}.{}", quoted(name)), &quoted(value));
        }
    }

    fn describe(&self, key: Named, _default: &Properties, entries: &mut Vec<KeyEntry>) {
        let value = KeyType {
            takes: "a text, a number or a boolean".to_owned(),
            default: None,
            examples: self
                .0
                .iter()
                .map(|(name, value)| format!("\"{name}\" = \"{value}\""))
                .collect(),
            secrecy: Secrecy::Secret,
        };
        let name = format!("{}.*", key.name);
        entries.push(KeyEntry { name, help: key.help, content: Content::Value(value) });
    }
}
