//! Where each value was set, for problems that are found after it was read: those that only
//! librdkafka or the parser of connection strings can find.

use std::collections::BTreeMap;

use super::{
    error::Place,
    source::SourceFile,
    tree::{Node, Table, Value},
};

/// The place of every value that was set.
#[derive(Debug, Clone, Default)]
pub struct Places(BTreeMap<String, Place>);

impl Places {
    pub(super) fn of(table: &Table, file: Option<&SourceFile>) -> Self {
        let mut places = Self::default();
        places.add_members("", table, file);
        places
    }

    /// Where `key` was set; [`Place::Nowhere`] for a table, or for a key that was not set.
    pub fn find(&self, key: &str) -> Place {
        self.0.get(key).cloned().unwrap_or(Place::Nowhere)
    }

    /// Where the first of these keys was set that was set at all.
    pub(super) fn find_first(&self, keys: &[&str]) -> Place {
        let found = keys.iter().find_map(|key| self.0.get(*key));
        found.cloned().unwrap_or(Place::Nowhere)
    }

    /// Every key that was set, with its place. Those of a list have their number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.0.iter().map(|(key, place)| (key.as_str(), place))
    }

    fn add_members(&mut self, path: &str, table: &Table, file: Option<&SourceFile>) {
        for (name, member) in table {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.add(&path, &member.node, file);
        }
    }

    fn add(&mut self, path: &str, node: &Node, file: Option<&SourceFile>) {
        match &node.value {
            Value::Text(_) | Value::Literal { .. } => {
                self.0.insert(path.to_owned(), node.origin.place(file));
            }
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add(&format!("{path}[{index}]"), item, file);
                }
            }
            Value::Table(members) => self.add_members(path, members, file),
        }
    }
}
