//! What a command that looks for events has to know of a table's columns.

use relay::{BytesFormat, EpochUnit, FilterKind, Mapping, Role};
use tokio_postgres::types::Type;

use crate::{created_at, postgres::quote_identifier, republish::table_row::TableRow};

/// What the core has found in the table's columns.
pub(super) struct Names {
    /// The column of the id, or the text that stands for it.
    pub(super) id: String,
    /// The column of the key, or the text that stands for it.
    pub(super) key: String,
    pub(super) id_header: String,
    pub(super) topic: String,
    pub(super) partitioning: Partitioning,
    /// The filter, in words.
    pub(super) filter: Option<String>,
    pub(super) time: Option<TimeColumn>,
}

/// What a record's partition follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partitioning {
    /// The hash of the key's text.
    Text,
    /// The hash of the key as JSON.
    Json,
    /// A column.
    Column,
}

/// The column with the time at which a row was written.
pub(super) struct TimeColumn {
    pub(super) name: String,
    /// Its milliseconds since 1970, as SQL.
    pub(super) millis: String,
}

impl Names {
    pub(super) fn of(mapping: Mapping<'_>, described: &TableRow) -> Self {
        let table = mapping.table();
        let filter = table.filter.as_ref().map(|filter| {
            let kind = match filter.kind {
                FilterKind::In => "in",
                FilterKind::NotIn => "not_in",
            };
            let values: Vec<_> = filter.values.iter().map(|value| format!("\"{value}\"")).collect();
            format!("where.column = \"{}\", where.{kind} = [{}]", filter.column, values.join(", "))
        });
        let partitioning = match mapping.column(Role::Partition) {
            Some(_) => Partitioning::Column,
            None if table.key_format == BytesFormat::Json => Partitioning::Json,
            None => Partitioning::Text,
        };
        let role = |role| mapping.column(role).unwrap_or_default().to_owned();
        Self {
            id: role(Role::Id),
            key: role(Role::AggregateId),
            id_header: table.headers.id.clone(),
            topic: mapping.topic().to_string(),
            partitioning,
            filter,
            time: TimeColumn::of(mapping, described),
        }
    }
}

impl TimeColumn {
    fn of(mapping: Mapping<'_>, described: &TableRow) -> Option<Self> {
        let unit = mapping.table().timestamp_unit;
        created_at::names(mapping).find_map(|name| {
            let column = described.columns.iter().find(|column| column.name == name)?;
            let quoted = quote_identifier(name);
            let millis = if column.sql_type.is(&created_at::TIMES) {
                format!(
                    "case when isfinite({quoted}) \
                     then floor(extract(epoch from {quoted}) * 1000)::int8 end"
                )
            } else if column.sql_type.is(&[Type::INT8, Type::INT4]) {
                match unit {
                    EpochUnit::Seconds => format!("({quoted}::numeric * 1000)::int8"),
                    EpochUnit::Milliseconds => format!("{quoted}::int8"),
                    EpochUnit::Microseconds => format!("{quoted}::int8 / 1000"),
                }
            } else {
                return None;
            };
            Some(Self { name: name.to_owned(), millis })
        })
    }
}
