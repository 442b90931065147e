//! When a row was written that is polled, by a column of its table: that is its record's time,
//! where the configuration gives no other.

use relay::{EpochUnit, Mapping, PgTimestamp};
use tokio_postgres::Client;

use super::explained::TimeSource;
use crate::{
    cli::TaskError,
    created_at,
    postgres::{micros_of_number, micros_of_time, quote_literal, sql_failure},
    republish::table_row::{Column, TableRow},
};

/// The types of times, as PostgreSQL numbers them: `timestamptz`, `timestamp` and `date`.
const TIMES: [u32; 3] = [1184, 1114, 1082];

/// `int8`, `int4` and `int2`.
const NUMBERS: [u32; 3] = [20, 23, 21];

/// The first column that says when a row was written. The router takes the same one.
pub(super) fn column<'r>(row: &'r TableRow, mapping: Mapping<'_>) -> Option<&'r Column> {
    let mut named = created_at::names(mapping)
        .filter_map(|name| row.columns.iter().find(|column| column.name == name));
    named.find(|column| TIMES.iter().chain(&NUMBERS).any(|oid| *oid == column.sql_type.oid))
}

/// By the configuration alone: which column gives the time, unless it is NULL.
pub(super) fn by_column(column: Option<&Column>) -> TimeSource {
    match column.filter(|column| column.value.is_some()) {
        Some(column) => TimeSource::ByColumn(column.name.clone()),
        None => TimeSource::Reading,
    }
}

/// The time that the column gives.
///
/// # Errors
/// The connection breaks.
pub(super) async fn at(
    client: &Client,
    column: Option<&Column>,
    unit: EpochUnit,
) -> Result<TimeSource, TaskError> {
    let Some((column, value)) = column.and_then(|column| Some((column, column.value.as_ref()?)))
    else {
        return Ok(TimeSource::Reading);
    };
    let literal = quote_literal(value);
    let of_time = |sql_type: &str| {
        format!("select {} from (select {literal}::{sql_type} as t) x", micros_of_time("t"))
    };
    let query = match column.sql_type.oid {
        1184 => of_time("timestamptz"),
        1114 => of_time("timestamp"),
        1082 => of_time("date"),
        _ => format!("select {}", micros_of_number(&literal, unit)),
    };
    let answer = client.query_one(&query, &[]).await.map_err(sql_failure)?;
    Ok(match answer.try_get::<_, Option<i64>>(0)? {
        Some(micros) => {
            let millis = PgTimestamp::from_unix_micros(micros).unix_millis();
            TimeSource::Column(millis, column.name.clone())
        }
        None => TimeSource::Reading,
    })
}
