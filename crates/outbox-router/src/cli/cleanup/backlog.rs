//! Whether a slot that nobody reads has a row to send.

use std::time::Duration;

use relay::{Case, Failure, Lsn};
use tokio_postgres::{Client, Error};

use crate::{
    cli::connect::failure,
    postgres::{quote_identifier, quote_literal},
};

/// Decoding starts where the slot's oldest transaction began, which may be far back.
const LIMIT: Duration = Duration::from_secs(60);

/// How many messages each reading asks for, until one of them is an insert. The first suffices for
/// most slots; the server keeps what it answers in memory.
const MESSAGES: [u32; 3] = [1_000, 100_000, 10_000_000];

/// What the slot has not delivered.
pub(super) enum Backlog {
    Nothing,
    Rows,
}

/// What it has of transactions that were committed before this position. The slot does not move.
pub(super) async fn before(
    client: &Client,
    slot: &str,
    publication: &str,
    lsn: Lsn,
) -> Result<Backlog, Failure> {
    let limits = format!("begin; set local statement_timeout = {}", LIMIT.as_millis());
    client.batch_execute(&limits).await.map_err(failure)?;
    let peeked = peek(client, slot, publication, lsn).await;
    client.batch_execute("rollback").await.map_err(failure)?;
    match peeked.map_err(failure)? {
        Some(backlog) => Ok(backlog),
        None => {
            let what = format!(
                "the slot {slot} has more to send than was read, and no row was among the first of \
                 it"
            );
            Err(Failure::of(Case::RetentionUnconfirmed, what))
        }
    }
}

async fn peek(
    client: &Client,
    slot: &str,
    publication: &str,
    lsn: Lsn,
) -> Result<Option<Backlog>, Error> {
    for messages in MESSAGES {
        let statement = format!(
            "select coalesce(bool_or(get_byte(data, 0) = ascii('I')), false), \
               count(*) >= {messages} \
             from pg_logical_slot_peek_binary_changes({}, '{lsn}', {messages}, \
             'proto_version', '1', 'publication_names', {})",
            quote_literal(slot),
            quote_literal(&quote_identifier(publication))
        );
        let row = client.query_one(&statement, &[]).await?;
        let (has_rows, has_more): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        if has_rows {
            return Ok(Some(Backlog::Rows));
        }
        if !has_more {
            return Ok(Some(Backlog::Nothing));
        }
    }
    Ok(None)
}
