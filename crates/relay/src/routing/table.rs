//! Which table is an outbox, which of its columns is what, and where its events go: the configured
//! side of routing, checked before anything is read. What a *relation* on the wire makes of it is
//! in [`crate::columns`].

use std::fmt;

use crate::routing::topic::{IllegalTopicName, TopicName};

/// The outbox tables. Empty means: every table of the publication, each with the defaults.
#[derive(Debug, Clone, Default)]
pub struct Outboxes {
    /// In the order of the configuration.
    pub tables: Vec<OutboxTable>,
}

/// One outbox table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxTable {
    /// Schema and name, as PostgreSQL stores them.
    pub name: TableName,
    /// Which column is what.
    pub preset: Preset,
    /// What a record looks like.
    pub format: Format,
    /// Where it goes.
    pub topic: TopicTemplate,
    /// Which time its records carry.
    pub timestamp: Timestamp,
    /// Columns that differ from the preset's.
    pub columns: ColumnNames,
    /// Names of the headers that the format writes.
    pub headers: HeaderNames,
}

impl OutboxTable {
    /// A table with every default.
    pub fn with_defaults(name: TableName) -> Self {
        Self {
            name,
            preset: Preset::Auto,
            format: Format::Plain,
            topic: TopicTemplate::default(),
            timestamp: Timestamp::Commit,
            columns: ColumnNames::default(),
            headers: HeaderNames::default(),
        }
    }
}

/// A table by schema and name, unquoted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// `public` unless said otherwise.
    pub schema: String,
    /// The table.
    pub name: String,
}

impl TableName {
    /// Whether these bytes, as a Relation message has them, name this table.
    pub(crate) fn is(&self, schema: &[u8], name: &[u8]) -> bool {
        self.schema.as_bytes() == schema && self.name.as_bytes() == name
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// A known shape of outbox table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// The one preset whose columns the table has.
    Auto,
    /// Our own table: `id, aggregate_type, aggregate_id, event_type, payload[, headers,
    /// traceparent, tracestate]`.
    Default,
    /// Debezium's: `id, aggregatetype, aggregateid, type, payload`.
    Debezium,
}

impl Preset {
    /// The names of a role's column; the first that a table has is taken. [`Preset::Auto`] stands
    /// for our own table.
    pub const fn columns(self, role: Role) -> &'static [&'static str] {
        match (role, self) {
            (Role::Id, _) => &["id"],
            (Role::AggregateType, Self::Default | Self::Auto) => &["aggregate_type"],
            (Role::AggregateType, Self::Debezium) => &["aggregatetype"],
            (Role::AggregateId, Self::Default | Self::Auto) => &["aggregate_id"],
            (Role::AggregateId, Self::Debezium) => &["aggregateid"],
            (Role::EventType, Self::Default | Self::Auto) => &["event_type"],
            (Role::EventType, Self::Debezium) => &["type"],
            (Role::Payload, _) => &["payload"],
            (Role::Headers, Self::Default | Self::Auto) => &["headers"],
            // Debezium's router knows no such column: a column of that name is the application's
            // own.
            (Role::Headers, Self::Debezium) => &[],
            (Role::TraceParent, _) => &["traceparent"],
            (Role::TraceState, _) => &["tracestate"],
        }
    }
}

/// What a record looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Headers `id` and `type`, then the row's own.
    Plain,
    /// What Debezium's `EventRouter` writes with `StringConverter` for key and value: the header
    /// `id` alone.
    Debezium,
}

/// Which time a record carries. Kafka deletes by it (`retention.ms`), and a topic may limit how far
/// it is from the broker's own clock (`message.timestamp.before.max.ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamp {
    /// When the source transaction was committed.
    Commit,
    /// When the record is produced: later by as long as an outage lasted.
    Now,
}

/// What a column means to the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The event's id: a header.
    Id,
    /// Chooses the topic.
    AggregateType,
    /// The record's key.
    AggregateId,
    /// The event's type: a header.
    EventType,
    /// The record's value.
    Payload,
    /// More headers, as a JSON object.
    Headers,
    /// W3C trace context, a header.
    TraceParent,
    /// W3C trace context, a header.
    TraceState,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 8] = [
        Self::Id,
        Self::AggregateType,
        Self::AggregateId,
        Self::EventType,
        Self::Payload,
        Self::Headers,
        Self::TraceParent,
        Self::TraceState,
    ];

    /// Its place in [`Role::ALL`].
    #[inline]
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Id => 0,
            Self::AggregateType => 1,
            Self::AggregateId => 2,
            Self::EventType => 3,
            Self::Payload => 4,
            Self::Headers => 5,
            Self::TraceParent => 6,
            Self::TraceState => 7,
        }
    }

    /// The word in `columns.…` of the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::EventType => "event_type",
            Self::Payload => "payload",
            Self::Headers => "headers",
            Self::TraceParent => "traceparent",
            Self::TraceState => "tracestate",
        }
    }
}

/// Column names that the configuration gives, by role: alternatives, of which the first that the
/// row's relation has is taken. Empty: the preset's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnNames {
    names: Vec<(Role, Vec<String>)>,
}

impl ColumnNames {
    /// Sets the alternatives of one role.
    pub fn set(&mut self, role: Role, alternatives: Vec<String>) {
        self.names.retain(|(known, _)| *known != role);
        self.names.push((role, alternatives));
    }

    /// The alternatives of one role, if any were configured.
    pub fn get(&self, role: Role) -> Option<&[String]> {
        self.names.iter().find(|(known, _)| *known == role).map(|(_, names)| names.as_slice())
    }
}

/// Names of the headers that the formats write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// The event's id.
    pub id: String,
    /// The event's type.
    pub event_type: String,
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self { id: "id".to_owned(), event_type: "type".to_owned() }
    }
}

/// A topic name with at most one place for the aggregate type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicTemplate {
    before: String,
    /// What follows the aggregate type; `None` when the topic is the same for every row.
    after: Option<String>,
}

/// The only thing a template may name.
const PLACE: &str = "${aggregate_type}";

impl TopicTemplate {
    /// Reads a template such as `outbox.event.${aggregate_type}`.
    ///
    /// # Errors
    /// Says what is wrong: an unknown or second placeholder, or characters that no topic may have.
    pub fn parse(text: &str) -> Result<Self, IllegalTemplate> {
        let (before, after) = match text.split_once(PLACE) {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        for part in [Some(before), after].into_iter().flatten() {
            if let Some(start) = part.find("${") {
                let name: String = part.chars().skip(start).take_while(|&c| c != '}').collect();
                return Err(IllegalTemplate::Placeholder(format!("{name}}}")));
            }
        }
        let template = Self { before: before.to_owned(), after: after.map(str::to_owned) };
        // Whatever the aggregate type is, the fixed parts must be legal: "x" stands in for it.
        TopicName::new(&template.joined("x")).map_err(IllegalTemplate::Topic)?;
        Ok(template)
    }

    /// Whether rows choose their topic.
    pub fn depends_on_row(&self) -> bool {
        self.after.is_some()
    }

    /// The topic of an aggregate type.
    ///
    /// # Errors
    /// The name that results is not legal in Kafka. The position of a character is counted within
    /// the aggregate type, since the fixed parts were found legal before.
    pub fn render(&self, aggregate_type: &str) -> Result<TopicName, IllegalTopicName> {
        let prefix = self.before.chars().count();
        TopicName::new(&self.joined(aggregate_type)).map_err(|why| why.counted_behind(prefix))
    }

    fn joined(&self, aggregate_type: &str) -> String {
        match &self.after {
            None => self.before.clone(),
            Some(after) => format!("{}{aggregate_type}{after}", self.before),
        }
    }
}

impl Default for TopicTemplate {
    /// Debezium's own default.
    fn default() -> Self {
        Self { before: "outbox.event.".to_owned(), after: Some(String::new()) }
    }
}

impl fmt::Display for TopicTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.before)?;
        match &self.after {
            Some(after) => write!(f, "{PLACE}{after}"),
            None => Ok(()),
        }
    }
}

/// What is wrong with a topic template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTemplate {
    /// Not `${aggregate_type}`, or a second one.
    #[error("{0} has no meaning here; one ${{aggregate_type}} is all that a topic may hold")]
    Placeholder(String),
    /// The fixed parts are no legal topic name.
    #[error("the topic would not be legal: {0}")]
    Topic(IllegalTopicName),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_puts_the_aggregate_type_in_its_place() {
        let template = TopicTemplate::parse("shop.${aggregate_type}.v1").unwrap();
        assert_eq!(template.render("order").unwrap().as_str(), "shop.order.v1");
        assert_eq!(template.to_string(), "shop.${aggregate_type}.v1");
        assert!(template.depends_on_row());
    }

    #[test]
    fn a_template_without_a_place_is_one_topic() {
        let template = TopicTemplate::parse("orders").unwrap();
        assert_eq!(template.render("anything/at all").unwrap().as_str(), "orders");
        assert!(!template.depends_on_row());
    }

    #[test]
    fn unknown_places_and_illegal_parts_are_refused() {
        for text in
            ["${type}", "a.${aggregate_type}.${aggregate_type}", "a b", "", "a/${aggregate_type}"]
        {
            assert!(TopicTemplate::parse(text).is_err(), "{text}");
        }
    }
}
