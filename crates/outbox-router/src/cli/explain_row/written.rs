//! When a row was written that is polled, by a column of its table: that is its record's time,
//! where the configuration gives no other.

use relay::{EpochUnit, Mapping, PgTimestamp};
use tokio_postgres::Client;

use super::explained::TimeSource;
use crate::{
    cli::TaskError,
    created_at::{self, NUMBERS, TIMES, micros_of_number, micros_of_time},
    postgres::{quote_literal, sql_failure},
    republish::table_row::{Column, TableRow},
};

/// The first column that says when a row was written. The router takes the same one.
pub(super) fn column<'r>(row: &'r TableRow, mapping: Mapping<'_>) -> Option<&'r Column> {
    let mut named = created_at::names(mapping)
        .filter_map(|name| row.columns.iter().find(|column| column.name == name));
    named.find(|column| column.sql_type.is(&TIMES) || column.sql_type.is(&NUMBERS))
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
    let query = match TIMES.iter().find(|time| time.oid() == column.sql_type.oid) {
        Some(time) => {
            format!("select {} from (select {literal}::{time} as t) x", micros_of_time("t"))
        }
        None => format!("select {}", micros_of_number(&literal, unit)),
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
