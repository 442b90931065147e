//! Which types the columns of the roles may have.

use pgoutput::RelationColumn;

use super::event::Encoding;
use crate::{
    failure::{Code, Failure},
    routing::{
        mapping::{self, Form},
        table::{Format, OutboxTable, Role},
        timestamp::TimeForm,
    },
};

/// `text[]` and `varchar[]`, see [`Form::of`].
const TEXT_ARRAYS: [u32; 2] = [1009, 1015];

pub(super) fn encoding(
    table: &OutboxTable,
    role: Role,
    column: &RelationColumn<'_>,
) -> Result<Encoding, Failure> {
    let (encoding, is_as_debezium_writes) = match Form::of(column) {
        // Debezium writes a header of bytes in Base64, and no topic.
        Form::Bytea => (Encoding::Hex, !matches!(role, Role::Id | Role::AggregateType)),
        Form::Text | Form::Json | Form::Integer => (Encoding::Text, true),
        Form::Boolean | Form::Timestamp(_) | Form::TimestampTz(_) | Form::Date | Form::Other => {
            (Encoding::Text, mapping::is_written(table, role))
        }
    };
    if table.format == Format::Debezium && !is_as_debezium_writes {
        return Err(unfit(table, role, column, "whose text differs from what Debezium writes"));
    }
    Ok(encoding)
}

pub(super) fn time_form(
    table: &OutboxTable,
    column: &RelationColumn<'_>,
) -> Result<TimeForm, Failure> {
    match Form::of(column) {
        Form::Timestamp(_) | Form::TimestampTz(_) | Form::Date => Ok(TimeForm::Calendar),
        Form::Integer => Ok(TimeForm::Epoch(table.timestamp_unit)),
        Form::Text | Form::Json | Form::Boolean | Form::Bytea | Form::Other => {
            let why = "and a record's time is a timestamp, a date or an integer";
            Err(unfit(table, Role::Timestamp, column, why))
        }
    }
}

pub(super) fn require_integer(
    table: &OutboxTable,
    column: &RelationColumn<'_>,
) -> Result<(), Failure> {
    if Form::of(column) == Form::Integer {
        Ok(())
    } else {
        Err(unfit(table, Role::Partition, column, "and a partition is an integer"))
    }
}

/// Whether the column is an array of texts.
pub(super) fn is_text_array(column: &RelationColumn<'_>) -> bool {
    TEXT_ARRAYS.contains(&column.type_oid.as_u32())
}

#[cold]
fn unfit(table: &OutboxTable, role: Role, column: &RelationColumn<'_>, why: &str) -> Failure {
    let (name, type_oid) = (lossy(column.name), column.type_oid.as_u32());
    let (table, role) = (&table.name, role.as_str());
    let what = format!("column {name} of {table} ({role}) has type oid {type_oid}, {why}");
    Failure::new(Code::ColumnType, what)
}

pub(super) fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
