//! Which types the columns of the roles may have.

use super::event::Encoding;
use crate::{
    failure::{Case, Code, Failure},
    routing::{
        mapping::{self, Column, Form},
        table::{Format, OutboxTable, Role},
        timestamp::TimeForm,
    },
};

/// `text[]` and `varchar[]`.
const TEXT_ARRAYS: [u32; 2] = [1009, 1015];

/// How the bytes of a role's column are found in its text.
///
/// # Errors
/// Debezium writes the type in another way.
pub(super) fn encoding(
    table: &OutboxTable,
    role: Role,
    column: &Column<'_>,
) -> Result<Encoding, Failure> {
    if table.format == Format::Debezium && !is_as_debezium_writes(table, role, column.form) {
        return Err(unsuitable(
            table,
            role,
            column,
            "whose text differs from what Debezium writes",
        ));
    }
    Ok(if column.form == Form::Bytea { Encoding::Hex } else { Encoding::Text })
}

fn is_as_debezium_writes(table: &OutboxTable, role: Role, form: Form) -> bool {
    let is_text = matches!(form, Form::Text | Form::Json | Form::Integer);
    match role {
        Role::AggregateType => is_text,
        Role::Id | Role::AggregateId | Role::Payload => {
            is_text || form == Form::Bytea || mapping::is_written(table, role, form)
        }
        Role::EventType
        | Role::Headers
        | Role::TraceParent
        | Role::TraceState
        | Role::Timestamp
        | Role::Partition
        | Role::Tracing => true,
    }
}

pub(super) fn time_form(table: &OutboxTable, column: &Column<'_>) -> Result<TimeForm, Failure> {
    match column.form {
        Form::Timestamp(_) | Form::TimestampTz(_) | Form::UnclearTime | Form::Date => {
            Ok(TimeForm::Calendar)
        }
        Form::Integer => Ok(TimeForm::Epoch(table.timestamp_unit)),
        Form::Text
        | Form::Json
        | Form::Float(_)
        | Form::Decimal(_)
        | Form::Boolean
        | Form::Bytea
        | Form::Clock(_)
        | Form::ClockTz
        | Form::Interval(_)
        | Form::Array(_)
        | Form::Other => {
            let why = "and a record's time is a timestamp, a date or an integer";
            Err(unsuitable(table, Role::Timestamp, column, why).with_case(Case::TimeType))
        }
    }
}

pub(super) fn require_integer(table: &OutboxTable, column: &Column<'_>) -> Result<(), Failure> {
    if column.form == Form::Integer {
        Ok(())
    } else {
        Err(unsuitable(table, Role::Partition, column, "and a partition is an integer")
            .with_case(Case::PartitionType))
    }
}

/// Whether the column is an array of texts.
pub(super) fn is_text_array(column: &Column<'_>) -> bool {
    TEXT_ARRAYS.contains(&column.type_oid.as_u32())
}

#[cold]
fn unsuitable(table: &OutboxTable, role: Role, column: &Column<'_>, why: &str) -> Failure {
    let (name, type_oid) = (lossy(column.name), column.type_oid.as_u32());
    let (table, role) = (&table.name, role.as_str());
    let what = format!("column {name} of {table} ({role}) has type oid {type_oid}, {why}");
    Failure::new(Code::ColumnType, what)
}

pub(super) fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
