//! The configuration as a tree in which every value knows where it was set: the file's values, then
//! the overrides from environment and flags, applied one at a time. The meaning of a key is not
//! known here, except that the names below `kafka.properties` contain dots.

use std::{collections::BTreeMap, ops::Range};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::error::{ConfigCode, ConfigError, Place};
use super::source::SourceFile;

/// Where the names of librdkafka's properties begin.
pub(super) const PROPERTIES: [&str; 2] = ["kafka", "properties"];

/// Where something was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// At these bytes of the file.
    File(Range<usize>),
    /// By the environment variable of this name.
    Environment(String),
    /// By `--set` with this key.
    Flag(String),
}

impl Origin {
    /// The place, as a message names it.
    pub(super) fn place(&self, file: Option<&SourceFile>) -> Place {
        match (self, file) {
            (Self::File(span), Some(file)) => Place::File(Box::new(file.excerpt(span))),
            (Self::File(_), None) => Place::Nowhere,
            (Self::Environment(name), _) => Place::Environment(name.clone()),
            (Self::Flag(key), _) => Place::Flag(key.clone()),
        }
    }
}

/// A value and where it was set.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) value: Value,
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(Text),
    /// Any other single value, as text; an integer in decimal.
    Literal {
        text: String,
        kind: &'static str,
    },
    List(Vec<Node>),
    Table(Table),
}

/// A text, and whether it may be quoted in a message: what a placeholder gave may be secret.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) quoting: Quoting,
}

/// Whether a value may appear in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    Allowed,
    Forbidden,
}

/// Members by name, each with the origin of its key.
pub(super) type Table = BTreeMap<String, Member>;

/// A member of a table.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) key: Origin,
    pub(super) node: Node,
}

impl Value {
    /// With its article, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Literal { kind, .. } => kind,
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Reads a file's text.
pub(super) fn parse(file: &SourceFile) -> Result<Table, ConfigError> {
    let document = DeTable::parse(&file.text).map_err(|error| {
        let end = file.text.len();
        let span = error.span().unwrap_or(end..end);
        ConfigError::new(
            ConfigCode::Syntax,
            format!("this is not TOML: {}", describe(error.message())),
        )
        .at(Place::File(Box::new(file.excerpt(&span))))
    })?;
    let mut table = members(document.into_inner());
    let [kafka, properties] = PROPERTIES;
    if let Some(Value::Table(kafka)) = table.get_mut(kafka).map(|member| &mut member.node.value)
        && let Some(Value::Table(names)) =
            kafka.get_mut(properties).map(|member| &mut member.node.value)
    {
        let nested = std::mem::take(names);
        join_names("", nested, names, file)?;
    }
    Ok(table)
}

/// The parser's message in the style of our own: no capital at its beginning, no full stop. It
/// names characters and what was expected, never a value.
fn describe(message: &str) -> String {
    let mut text = message.trim().trim_end_matches('.').to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

fn members(table: DeTable<'_>) -> Table {
    table
        .into_iter()
        .map(|(key, value)| {
            let origin = Origin::File(key.span());
            (key.into_inner().into_owned(), Member { key: origin, node: node(value) })
        })
        .collect()
}

fn node(value: Spanned<DeValue<'_>>) -> Node {
    let origin = Origin::File(value.span());
    let literal = |text: String, kind| Value::Literal { text, kind };
    let value = match value.into_inner() {
        DeValue::String(text) => {
            Value::Text(Text { text: text.into_owned(), quoting: Quoting::Allowed })
        }
        DeValue::Integer(number) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            literal(decimal.map_or_else(|_| number.to_string(), |n| n.to_string()), "an integer")
        }
        DeValue::Float(number) => literal(number.as_str().to_owned(), "a fraction"),
        DeValue::Boolean(value) => literal(value.to_string(), "a boolean"),
        DeValue::Datetime(value) => literal(value.to_string(), "a date"),
        DeValue::Array(items) => Value::List(items.into_iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(members(table)),
    };
    Node { origin, value }
}

/// `compression.type = "lz4"` without quotes is a table within a table for TOML; for librdkafka it
/// is one name.
fn join_names(
    prefix: &str,
    nested: Table,
    joined: &mut Table,
    file: &SourceFile,
) -> Result<(), ConfigError> {
    for (name, member) in nested {
        let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        if let Value::Table(inner) = member.node.value {
            join_names(&name, inner, joined, file)?;
            continue;
        }
        let place = member.key.place(Some(file));
        if joined.insert(name.clone(), member).is_some() {
            let message = format!("kafka.properties sets {name} twice");
            return Err(ConfigError::new(ConfigCode::Syntax, message).at(place));
        }
    }
    Ok(())
}

/// A value from outside the file, with the path to its place.
#[derive(Debug, Clone)]
pub(super) struct Override {
    pub(super) path: Vec<PathPart>,
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// One step of a path through the tree. Numbers come first when sorted, in their own order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathPart {
    Item(usize),
    Member(String),
}

impl PathPart {
    pub(super) fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Member(text.to_owned()), Self::Item)
    }
}

/// Applies one override to the tree. It replaces whatever is at its place.
pub(super) fn apply(table: &mut Table, change: Override) -> Result<(), ConfigError> {
    let Override { path, text, origin } = change;
    let leaf = Value::Text(Text { text, quoting: Quoting::Allowed });
    let mut steps = path.into_iter();
    let Some(PathPart::Member(first)) = steps.next() else {
        return Err(ConfigError::new(ConfigCode::Override, "a key begins with a name")
            .at(origin.place(None)));
    };
    let rest: Vec<PathPart> = steps.collect();
    let member = table.entry(first).or_insert_with(|| Member {
        key: origin.clone(),
        node: Node { origin: origin.clone(), value: Value::Table(Table::new()) },
    });
    place(&mut member.node, &rest, leaf, origin)
}

fn place(
    node: &mut Node,
    path: &[PathPart],
    leaf: Value,
    origin: Origin,
) -> Result<(), ConfigError> {
    let Some((step, rest)) = path.split_first() else {
        *node = Node { origin, value: leaf };
        return Ok(());
    };
    let empty = || Node { origin: origin.clone(), value: Value::Table(Table::new()) };
    match step {
        PathPart::Member(name) => {
            if !matches!(node.value, Value::Table(_)) {
                *node = empty();
            }
            let Value::Table(table) = &mut node.value else { return Ok(()) };
            let member = table
                .entry(name.clone())
                .or_insert_with(|| Member { key: origin.clone(), node: empty() });
            place(&mut member.node, rest, leaf, origin)
        }
        PathPart::Item(index) => {
            if !matches!(node.value, Value::List(_)) {
                *node = Node { origin: origin.clone(), value: Value::List(Vec::new()) };
            }
            let Value::List(items) = &mut node.value else { return Ok(()) };
            if items.len() == *index {
                items.push(empty());
            }
            let count = items.len();
            match items.get_mut(*index) {
                Some(item) => place(item, rest, leaf, origin),
                None => Err(ConfigError::new(
                    ConfigCode::Override,
                    format!("there is no item {index}: the list has {count}"),
                )
                .at(origin.place(None))
                .hint(format!("items count from 0; the next one would be {count}"))),
            }
        }
    }
}
