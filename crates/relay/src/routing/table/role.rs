//! What a column means to the router, and which columns the configuration names for it.

use crate::routing::template::{MalformedTemplate, Template};
use std::fmt;

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
    /// More headers, as a JSON object or an array of names and values.
    Headers,
    /// W3C trace context, a header.
    TraceParent,
    /// W3C trace context, a header.
    TraceState,
    /// The record's timestamp, with [`Timestamp::Column`](super::Timestamp::Column).
    Timestamp,
    /// The record's partition, in place of the key's.
    Partition,
    /// W3C trace context as the text of a `java.util.Properties`.
    Tracing,
}

/// The index of a role's value in an [`Event`](crate::routing::columns::Event).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueIndex(u8);

impl ValueIndex {
    /// How many there are.
    pub(crate) const COUNT: usize = 8;

    /// Below [`ValueIndex::COUNT`], which the compiler can see.
    #[inline]
    pub(crate) fn get(self) -> usize {
        usize::from(self.0) % Self::COUNT
    }
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 11] = [
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
        Self::Tracing,
    ];

    /// The index of its value in an event. The other roles say what becomes of a row, see
    /// `routing/mapping`.
    #[inline]
    pub(crate) const fn value_index(self) -> Option<ValueIndex> {
        match self {
            Self::Id => Some(ValueIndex(0)),
            Self::AggregateType => Some(ValueIndex(1)),
            Self::AggregateId => Some(ValueIndex(2)),
            Self::EventType => Some(ValueIndex(3)),
            Self::Payload => Some(ValueIndex(4)),
            Self::Headers => Some(ValueIndex(5)),
            Self::TraceParent => Some(ValueIndex(6)),
            Self::TraceState => Some(ValueIndex(7)),
            Self::Timestamp | Self::Partition | Self::Tracing => None,
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
            Self::Tracing => "tracing",
        }
    }

    /// Whether a template may stand for the column: the role takes any text.
    pub const fn takes_template(self) -> bool {
        match self {
            Self::Id
            | Self::AggregateType
            | Self::AggregateId
            | Self::EventType
            | Self::Payload
            | Self::TraceParent
            | Self::TraceState => true,
            Self::Headers | Self::Timestamp | Self::Partition | Self::Tracing => false,
        }
    }
}

/// What may stand for a role: a column, or a template over columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnName {
    /// A column.
    Column(String),
    /// A text that columns fill.
    Template(Template),
}

impl ColumnName {
    /// Reads a column's name, or a template, which has a `${`.
    ///
    /// # Errors
    /// The template is malformed.
    pub fn parse(text: &str) -> Result<Self, MalformedTemplate> {
        if Template::is_one(text) {
            Template::parse(text).map(Self::Template)
        } else {
            Ok(Self::Column(text.to_owned()))
        }
    }
}

impl From<&str> for ColumnName {
    /// A column.
    fn from(name: &str) -> Self {
        Self::Column(name.to_owned())
    }
}

impl fmt::Display for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => f.write_str(name),
            Self::Template(template) => template.fmt(f),
        }
    }
}

/// What the columns of a relation are called, by role: for messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RoleNames(Vec<(Role, String)>);

impl RoleNames {
    /// Sets the name of a role's column.
    pub(crate) fn set(&mut self, role: Role, name: String) {
        self.0.retain(|(known, _)| *known != role);
        self.0.push((role, name));
    }

    /// The name of a role's column; the role's own name where the table has no such column.
    pub(crate) fn get(&self, role: Role) -> &str {
        self.found(role).unwrap_or(role.as_str())
    }

    /// The name of a role's column, or the text of its template; `None` where it has neither.
    pub(crate) fn found(&self, role: Role) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == role);
        found.map(|(_, name)| name.as_str())
    }
}

/// Column names in the configuration, by role: alternatives, of which the first that the relation
/// has is taken. Roles that are not configured take the preset's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnNames {
    names: Vec<(Role, Vec<ColumnName>)>,
}

impl ColumnNames {
    /// Sets the alternatives of one role.
    pub fn set(&mut self, role: Role, alternatives: Vec<ColumnName>) {
        self.names.retain(|(known, _)| *known != role);
        self.names.push((role, alternatives));
    }

    /// The alternatives of one role, if any were configured.
    pub fn get(&self, role: Role) -> Option<&[ColumnName]> {
        self.names.iter().find(|(known, _)| *known == role).map(|(_, names)| names.as_slice())
    }
}
