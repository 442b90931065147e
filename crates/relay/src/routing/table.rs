//! The configured side of routing, checked before anything is read: which tables are outboxes,
//! which role each column has, and which topic the events go to. `routing/columns` applies it to
//! the Relation messages of the stream.

use std::fmt;

use crate::routing::{
    timestamp::EpochUnit,
    topic::{IllegalTopicName, TopicName},
};

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
    /// Which column has which role.
    pub preset: Preset,
    /// What a record looks like.
    pub format: Format,
    /// The topic of its events.
    pub topic: TopicTemplate,
    /// Which time its records carry.
    pub timestamp: Timestamp,
    /// The unit of a time that comes from a column of numbers.
    pub timestamp_unit: EpochUnit,
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
            timestamp_unit: EpochUnit::Milliseconds,
            columns: ColumnNames::default(),
            headers: HeaderNames::default(),
        }
    }
}

/// A table by schema and name, unquoted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The schema; `public` where the configuration names none.
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

/// A known set of column names of an outbox table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// The one preset whose columns the table has.
    Auto,
    /// The router's own table: `id, aggregate_type, aggregate_id, event_type, payload[, headers,
    /// traceparent, tracestate, created_at]`; `created_at` is for [`Timestamp::Column`].
    Default,
    /// Debezium's: `id, aggregatetype, aggregateid, type, payload[, traceparent, tracestate]`.
    Debezium,
}

impl Preset {
    /// The presets that [`Preset::Auto`] chooses from.
    pub const CONCRETE: [Self; 2] = [Self::Default, Self::Debezium];

    /// The name in the configuration and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Default => "default",
            Self::Debezium => "debezium",
        }
    }

    /// The names of a role's column, of which the first that a table has is taken. [`Preset::Auto`]
    /// gives the names of [`Preset::Default`].
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
            // Debezium's router has no such column: a column of that name is the application's own.
            (Role::Headers, Self::Debezium) => &[],
            (Role::TraceParent, _) => &["traceparent"],
            (Role::TraceState, _) => &["tracestate"],
            (Role::Timestamp, Self::Default | Self::Auto) => &["created_at"],
            (Role::Timestamp, Self::Debezium) | (Role::Partition, _) => &[],
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

/// Which timestamp a record carries. Kafka deletes records by it (`retention.ms`), and a topic may
/// limit how far it is from the broker's clock (`message.timestamp.before.max.ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamp {
    /// When the source transaction was committed.
    Commit,
    /// When the record is produced, which an outage may delay.
    Now,
    /// What the column of [`Role::Timestamp`] says; the commit time where it is NULL.
    Column,
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
    /// The record's timestamp, with [`Timestamp::Column`].
    Timestamp,
    /// The record's partition, in place of the key's.
    Partition,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 10] = [
        Self::Id,
        Self::AggregateType,
        Self::AggregateId,
        Self::EventType,
        Self::Payload,
        Self::Headers,
        Self::TraceParent,
        Self::TraceState,
        Self::Timestamp,
        Self::Partition,
    ];

    /// Its index in [`Role::ALL`].
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
            Self::Timestamp => 8,
            Self::Partition => 9,
        }
    }

    /// The name of the role in the configuration (`columns.NAME`).
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
            Self::Timestamp => "timestamp",
            Self::Partition => "partition",
        }
    }
}

/// Column names in the configuration, by role: alternatives, of which the first that the relation
/// has is taken. Roles that are not configured take the preset's names.
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

/// The only placeholder that a template may have.
const PLACE: &str = "${aggregate_type}";

impl TopicTemplate {
    /// Reads a template such as `outbox.event.${aggregate_type}`.
    ///
    /// # Errors
    /// [`IllegalTemplate::Placeholder`]: an unknown or a second placeholder.
    /// [`IllegalTemplate::Topic`]: the fixed parts are not legal in a topic name.
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
        // The fixed parts must be legal with any aggregate type: "x" is put in its place.
        TopicName::new(&template.joined("x")).map_err(IllegalTemplate::Topic)?;
        Ok(template)
    }

    /// Whether the topic depends on the row's aggregate type.
    pub fn depends_on_row(&self) -> bool {
        self.after.is_some()
    }

    /// The topic of an aggregate type.
    ///
    /// # Errors
    /// The resulting name is not legal in Kafka. The position of a character is counted within the
    /// aggregate type, since [`TopicTemplate::parse`] has found the fixed parts legal.
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
    /// `outbox.event.${aggregate_type}`, which is Debezium's default.
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
    /// A placeholder other than `${aggregate_type}`, or a second one.
    #[error("{0} has no meaning here; one ${{aggregate_type}} is all that a topic may hold")]
    Placeholder(String),
    /// The fixed parts are not legal in a topic name.
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
