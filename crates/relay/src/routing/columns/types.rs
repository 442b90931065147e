//! Which types the columns of the roles may have.

use pgoutput::RelationColumn;

use super::event::Encoding;
use crate::{
    failure::{Code, Failure},
    routing::{
        mapping,
        table::{Format, OutboxTable, Role},
        timestamp::TimeForm,
    },
};

/// OIDs of `src/include/catalog/pg_type.dat`, stable across versions.
mod oid {
    pub(super) const BYTEA: u32 = 17;
    /// Types whose text is what Debezium's `StringConverter` writes: `name`, `int8`, `int2`,
    /// `int4`, `text`, `json`, `bpchar`, `varchar`, `uuid`, `jsonb`.
    pub(super) const SAME_TEXT: [u32; 10] = [19, 20, 21, 23, 25, 114, 1042, 1043, 2950, 3802];
    /// `text[]`, `varchar[]`.
    pub(super) const TEXT_ARRAYS: [u32; 2] = [1009, 1015];
    /// `int8`, `int2`, `int4`.
    pub(super) const INTEGERS: [u32; 3] = [20, 21, 23];
    /// `date`, `timestamp`, `timestamptz`.
    pub(super) const TIMES: [u32; 3] = [1082, 1114, 1184];
    /// `FirstNormalObjectId`: types from here on are not built in, such as enums, domains and
    /// `citext`.
    pub(super) const FIRST_NORMAL: u32 = 16384;
}

pub(super) fn encoding(
    table: &OutboxTable,
    role: Role,
    column: &RelationColumn<'_>,
) -> Result<Encoding, Failure> {
    let type_oid = column.type_oid.as_u32();
    if type_oid == oid::BYTEA {
        // Debezium writes a header of bytes in Base64, and no topic.
        let is_text = matches!(role, Role::Id | Role::AggregateType);
        return if table.format == Format::Debezium && is_text {
            Err(unfit(table, role, column, "whose text differs from what Debezium writes"))
        } else {
            Ok(Encoding::Hex)
        };
    }
    let same_text = oid::SAME_TEXT.contains(&type_oid) || type_oid >= oid::FIRST_NORMAL;
    if table.format == Format::Debezium && !same_text && !mapping::is_written(table, role) {
        return Err(unfit(table, role, column, "whose text differs from what Debezium writes"));
    }
    Ok(Encoding::Text)
}

pub(super) fn time_form(
    table: &OutboxTable,
    column: &RelationColumn<'_>,
) -> Result<TimeForm, Failure> {
    let type_oid = column.type_oid.as_u32();
    if oid::TIMES.contains(&type_oid) {
        Ok(TimeForm::Calendar)
    } else if oid::INTEGERS.contains(&type_oid) {
        Ok(TimeForm::Epoch(table.timestamp_unit))
    } else {
        let why = "and a record's time is a timestamp, a date or an integer";
        Err(unfit(table, Role::Timestamp, column, why))
    }
}

pub(super) fn require_integer(
    table: &OutboxTable,
    column: &RelationColumn<'_>,
) -> Result<(), Failure> {
    if oid::INTEGERS.contains(&column.type_oid.as_u32()) {
        Ok(())
    } else {
        Err(unfit(table, Role::Partition, column, "and a partition is an integer"))
    }
}

/// Whether the column is an array of texts.
pub(super) fn is_text_array(column: &RelationColumn<'_>) -> bool {
    oid::TEXT_ARRAYS.contains(&column.type_oid.as_u32())
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
