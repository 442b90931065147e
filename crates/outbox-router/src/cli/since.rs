//! Reads times, such as that of a flag `--since`. PostgreSQL reads them, so that a time has every
//! form that a person knows from there, and its clock says what now is.

use tokio_postgres::{Client, error::SqlState};

use super::{TaskError, connect, dead_letters::Since};

/// The time of a flag as PostgreSQL prints it; `Err` within says why it is none.
pub(super) async fn read(
    client: &Client,
    flag: &str,
    since: &Since,
) -> Result<Result<String, String>, TaskError> {
    let read = match since {
        Since::Ago(ago) => {
            let query = "select (now() - $1::float8 * interval '1 second')::text";
            client.query_one(query, &[&ago.as_secs_f64()]).await
        }
        Since::Time(time) => client.query_one("select $1::text::timestamptz::text", &[time]).await,
    };
    match read {
        Ok(row) => Ok(Ok(row.try_get(0)?)),
        Err(error) if error.code().is_some_and(is_no_time) => {
            let message = error.as_db_error().map_or_else(String::new, |e| e.message().to_owned());
            Ok(Err(format!("{flag}: {message}")))
        }
        Err(error) => Err(connect::failure(error).into()),
    }
}

/// A time in any form that PostgreSQL reads, in microseconds since 1970.
///
/// # Errors
/// PostgreSQL does not read it as a time.
pub(super) async fn micros_of(client: &Client, time: &str) -> Result<i64, TaskError> {
    let micros = "select (extract(epoch from $1::text::timestamptz) * 1000000)::int8";
    Ok(client.query_one(micros, &[&time]).await?.try_get(0)?)
}

fn is_no_time(state: &SqlState) -> bool {
    let states = [
        SqlState::INVALID_DATETIME_FORMAT,
        SqlState::DATETIME_FIELD_OVERFLOW,
        // A time zone that there is not.
        SqlState::INVALID_PARAMETER_VALUE,
    ];
    states.contains(state)
}
