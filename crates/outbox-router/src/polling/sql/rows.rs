//! Rows as they are read: from the values of a statement to what the core takes.

use std::{future::poll_fn, pin::pin};

use futures_core::Stream as _;
use relay::{
    Case, Failure, PgTimestamp,
    delivered::RowVersion,
    polling::{Claimed, More, PendingRow, RowId},
};
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::{
    blocked::BlockedKey,
    failure::{Write, malformed, of_table, of_write, unfit},
    table::PolledTable,
    transaction::BEGINS,
};
use crate::postgres::sql_failure;

/// How many rows a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// At most so many.
    pub(super) limit: usize,
    /// Among so many, the first that are pending: more, where some of them cannot be claimed.
    pub(super) looked_at: usize,
}

/// What one statement has read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) rows: Vec<PendingRow>,
    pub(super) more: More,
    /// Keys of which rows were left out, since another transaction has locked one.
    pub(super) blocked: Vec<BlockedKey>,
}

/// Reads the rows of a statement of [`super::fetch`] as they arrive: each is in memory once.
pub(super) async fn read(
    client: &Client,
    table: &PolledTable,
    (sql, claimed): (&str, Claimed),
    wanted: Wanted,
) -> Result<Read, Failure> {
    let failed = |error| match claimed {
        Claimed::Yes => of_write(error, &table.name, Write::Claims),
        Claimed::No => of_table(error, &table.name),
    };
    let mut stream = pin!(client.simple_query_raw(sql).await.map_err(failed)?);
    let mut answers = 0;
    let mut read = Read { rows: Vec::new(), more: More::No, blocked: Vec::new() };
    while let Some(message) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        let message = message.map_err(failed)?;
        if let SimpleQueryMessage::CommandComplete(_) = message {
            answers += 1;
        } else if let SimpleQueryMessage::Row(row) = message
            && answers == BEGINS
        {
            match blocked(&row, table)? {
                Some(key) => read.blocked.push(key),
                None => read.rows.push(pending(&row, table)?),
            }
            read.more = left(&row, table, claimed, wanted.looked_at)?;
        }
    }
    if read.rows.len() >= wanted.limit {
        read.more = More::Maybe;
    }
    Ok(read)
}

/// The key in a row of the answer that has nothing else: a row of a table has an identity.
///
/// # Errors
/// It has nothing at all: a row was claimed, and is as it was (P041).
fn blocked(row: &SimpleQueryRow, table: &PolledTable) -> Result<Option<BlockedKey>, Failure> {
    for column in &table.identity {
        if value(row, column.place)?.is_some() {
            return Ok(None);
        }
    }
    match value(row, table.row.columns.len())? {
        Some(key) => Ok(Some(BlockedKey::new(key))),
        None => {
            let what = "rows that were claimed are as they were: a rule or a trigger of the table \
                        keeps its rows from being updated";
            Err(unfit(&table.name, what).with_case(Case::ClaimsUndone))
        }
    }
}

/// Whether rows are left that were not read, as each row says it: by the bytes up to it; where rows
/// are claimed, by the bytes and the number of those that could be.
fn left(
    row: &SimpleQueryRow,
    table: &PolledTable,
    claimed: Claimed,
    looked_at: usize,
) -> Result<More, Failure> {
    let place = table.row.columns.len() + 5;
    let is_full = number::<usize>(row, place)? >= table.settings.keep_bytes;
    let is_limited = match claimed {
        Claimed::Yes => number::<usize>(row, place + 1)? >= looked_at,
        Claimed::No => false,
    };
    Ok(if is_full || is_limited { More::Maybe } else { More::No })
}

fn pending(row: &SimpleQueryRow, table: &PolledTable) -> Result<PendingRow, Failure> {
    let columns = table.row.columns.len();
    let id = table.identity.iter().map(|column| match value(row, column.place)? {
        Some(text) => Ok(Box::from(text)),
        None => Err(malformed("has a row without an identity")),
    });
    let insert = insert(row, table.row.oid, columns)?;
    let size: Option<usize> = value(row, columns + 4)?.and_then(|size| size.parse().ok());
    Ok(PendingRow {
        id: RowId(id.collect::<Result<_, Failure>>()?),
        version: RowVersion::of_xmin(number(row, columns + 3)?),
        key: value(row, columns)?.map(Box::from),
        bytes: size.unwrap_or_default().max(insert.len()),
        insert,
        attempts: number(row, columns + 1)?,
        at: PgTimestamp::from_unix_micros(number(row, columns + 2)?),
    })
}

/// The Insert message that a walsender would send of the row.
fn insert(row: &SimpleQueryRow, relation: u32, columns: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = 8;
    for place in 0..columns {
        bytes += 5 + value(row, place)?.map_or(0, str::len);
    }
    let mut message = Vec::with_capacity(bytes);
    message.push(b'I');
    message.extend(relation.to_be_bytes());
    message.push(b'N');
    // No table of PostgreSQL has more than 1,600 columns.
    message.extend(u16::try_from(columns).unwrap_or(u16::MAX).to_be_bytes());
    for place in 0..columns {
        match value(row, place)? {
            None => message.push(b'n'),
            Some(text) => {
                message.push(b't');
                // No value of PostgreSQL is larger than 1 GiB.
                message.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
                message.extend_from_slice(text.as_bytes());
            }
        }
    }
    Ok(message)
}

fn value(row: &SimpleQueryRow, place: usize) -> Result<Option<&str>, Failure> {
    row.try_get(place).map_err(sql_failure)
}

fn number<T: std::str::FromStr>(row: &SimpleQueryRow, place: usize) -> Result<T, Failure> {
    let text = value(row, place)?.ok_or_else(|| malformed("has a NULL where a number must be"))?;
    text.parse().map_err(|_| malformed("has no number where one must be"))
}
