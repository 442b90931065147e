//! Values of the core as PostgreSQL's types.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use relay::{
    Code, Failure, Lsn, PgTimestamp,
    held::{EventId, KeyHash},
};
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, PgLsn, ToSql, Type, accepts, to_sql_checked},
};

use super::failure::unsuitable;
use crate::postgres::sql_failure;

/// A `timestamptz`: both count microseconds since 2000.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timestamptz(pub(super) PgTimestamp);

impl ToSql for Timestamptz {
    fn to_sql(
        &self,
        _ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0.as_micros());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Timestamptz {
    fn from_sql(_ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(PgTimestamp::from_micros(i64::from_be_bytes(raw.try_into()?))))
    }

    accepts!(TIMESTAMPTZ);
}

/// An LSN.
pub(super) fn lsn(lsn: Lsn) -> PgLsn {
    PgLsn::from(lsn.as_u64())
}

/// A value of a row.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: &str) -> Result<T, Failure> {
    row.try_get(column).map_err(sql_failure)
}

/// `commit_lsn` and `event_index`.
pub(super) fn event_id(row: &Row) -> Result<EventId, Failure> {
    let lsn: PgLsn = get(row, "commit_lsn")?;
    let index: i64 = get(row, "event_index")?;
    let index = u32::try_from(index)
        .map_err(|_| unsuitable(format!("the event_index {index} is no row's number")))?;
    Ok(EventId { commit_lsn: Lsn::from_u64(lsn.into()), index })
}

/// `key_hash`.
pub(super) fn key_hash(row: &Row) -> Result<KeyHash, Failure> {
    let bytes: &[u8] = get(row, "key_hash")?;
    let hash = bytes.try_into();
    hash.map(KeyHash).map_err(|_| unsuitable(format!("a key_hash has {} bytes", bytes.len())))
}

/// `code`, for a dead letter.
pub(super) fn code(row: &Row) -> Result<Option<Code>, Failure> {
    let text: Option<&str> = get(row, "code")?;
    let known = |text: &str| {
        Code::parse(text)
            .ok_or_else(|| unsuitable(format!("this version does not know the code {text}")))
    };
    text.map(known).transpose()
}

/// A number that cannot be negative.
pub(super) fn count(row: &Row, column: &str) -> Result<u64, Failure> {
    let number: i64 = get(row, column)?;
    u64::try_from(number).map_err(|_| unsuitable(format!("{column} is {number}")))
}
