//! The configured side of routing, checked before anything is read: which tables are outboxes,
//! which role each column has, and which topic the events go to. `routing/columns` applies it to
//! the Relation messages of the stream.

use std::fmt;

use crate::routing::{
    mapping::FilterKind,
    timestamp::EpochUnit,
    topic::{IllegalTemplate, JavaRegex, OnMismatch, TopicName, TopicRule, TopicTemplate},
};

pub use preset::{DEBEZIUM, DEFAULT, Example, ExampleRecord, PRESETS, Preset};
pub use role::{ColumnName, ColumnNames, Role};
pub(crate) use role::{RoleNames, ValueIndex};
pub use shape::{
    BytesFormat, Decimals, EmptyPayload, EnvelopeMember, ExpandJson, ExtraHeader, Format,
    HeaderNames, HeaderValue, Intervals, MissingColumns, OnNotJson, OnUpdate, Times, Timestamp,
    TombstoneOn,
};

mod preset;
mod role;
mod shape;

/// The outbox tables. Empty means: every table of the publication, each with the defaults.
#[derive(Debug, Clone, Default)]
pub struct Outboxes {
    /// In the order of the configuration.
    pub tables: Vec<OutboxTable>,
    /// The topic of the witness, to which no row is routed.
    pub state_topic: Option<TopicName>,
    /// The column that gives rows their age, where it is not that of the role.
    pub age_column: Option<String>,
}

/// One outbox table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxTable {
    /// Schema and name, as PostgreSQL stores them.
    pub name: TableName,
    /// Which column has which role; `None`: the one preset that fits the table.
    pub preset: Option<&'static Preset>,
    /// What a record looks like.
    pub format: Format,
    /// The topic of its events; `None`: the preset's.
    pub topic: Option<TopicTemplate>,
    /// What the aggregate type must match as a whole; its groups may stand in the topic.
    pub route_regex: Option<JavaRegex>,
    /// What becomes of a row whose aggregate type does not match.
    pub on_route_mismatch: OnMismatch,
    /// Which time its records carry.
    pub timestamp: Timestamp,
    /// The unit of a time that comes from a column of numbers.
    pub timestamp_unit: EpochUnit,
    /// The bytes of a key.
    pub key_format: BytesFormat,
    /// The bytes of a value.
    pub value_format: BytesFormat,
    /// Where a value is JSON: what becomes of a payload of JSON.
    pub expand_json: ExpandJson,
    /// What becomes of a payload that was to be expanded and is no JSON.
    pub on_not_json: OnNotJson,
    /// Which payloads become Kafka's null.
    pub tombstone_on: TombstoneOn,
    /// What becomes of an extra header or a member of the envelope whose column the table lacks.
    pub missing_columns: MissingColumns,
    /// Headers after those of the format.
    pub extra_headers: Vec<ExtraHeader>,
    /// Members of the value beside `payload`; with none, the value is the payload.
    pub envelope: Vec<EnvelopeMember>,
    /// With Debezium's format: how decimal numbers are written.
    pub decimals: Decimals,
    /// With Debezium's format: how times are written.
    pub times: Times,
    /// With Debezium's format: how intervals are written.
    pub intervals: Intervals,
    /// Which rows are events; `None`: all.
    pub filter: Option<RowFilter>,
    /// What becomes of an UPDATE.
    pub on_update: OnUpdate,
    /// Columns that differ from the preset's.
    pub columns: ColumnNames,
    /// Names of the headers that the format writes.
    pub headers: HeaderNames,
}

/// Which rows are events, by the text of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFilter {
    /// The column.
    pub column: String,
    /// Its texts.
    pub values: Vec<String>,
    /// Whether those are events, or all others.
    pub kind: FilterKind,
}

impl OutboxTable {
    /// A table with every default.
    pub fn with_defaults(name: TableName) -> Self {
        Self {
            name,
            preset: None,
            format: Format::Plain,
            topic: None,
            route_regex: None,
            on_route_mismatch: OnMismatch::Error,
            timestamp: Timestamp::Commit,
            timestamp_unit: EpochUnit::Milliseconds,
            key_format: BytesFormat::Auto,
            value_format: BytesFormat::Auto,
            expand_json: ExpandJson::No,
            on_not_json: OnNotJson::Halt,
            tombstone_on: TombstoneOn::default(),
            missing_columns: MissingColumns::Error,
            extra_headers: Vec::new(),
            envelope: Vec::new(),
            decimals: Decimals::Precise,
            times: Times::Adaptive,
            intervals: Intervals::Number,
            filter: None,
            on_update: OnUpdate::Ignore,
            columns: ColumnNames::default(),
            headers: HeaderNames::default(),
        }
    }

    /// The topic of its events under a preset.
    ///
    /// # Errors
    /// The preset's own topic is malformed, which a test excludes.
    pub(crate) fn topic_template(&self, preset: &Preset) -> Result<TopicTemplate, IllegalTemplate> {
        match &self.topic {
            Some(topic) => Ok(topic.clone()),
            None => TopicTemplate::parse(preset.topic),
        }
    }

    /// Checks that `route_regex` has the groups that the topic names.
    ///
    /// # Errors
    /// The template names a group that `route_regex` does not have.
    pub fn check_topic(&self) -> Result<(), IllegalTemplate> {
        match &self.topic {
            Some(topic) => TopicRule::new(topic, self.route()).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Columns that the configuration names beside those of the roles.
    pub(crate) fn named_columns(&self) -> impl Iterator<Item = &str> {
        let headers = self.extra_headers.iter().flat_map(|header| match &header.value {
            HeaderValue::Column(name) => vec![name.as_str()],
            HeaderValue::Template(template) => template.columns().collect(),
        });
        let members = self.envelope.iter().map(|member| member.column.as_str());
        let filter = self.filter.iter().map(|filter| filter.column.as_str());
        headers.chain(members).chain(filter)
    }

    /// The regular expression of its topics.
    pub(crate) fn route(&self) -> Option<(&JavaRegex, OnMismatch)> {
        self.route_regex.as_ref().map(|regex| (regex, self.on_route_mismatch))
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
