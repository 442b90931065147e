//! The events that the slot has still to send, and how many of them Kafka has already.
//!
//! The server is asked without moving the slot. It counts by itself, so that only numbers come
//! back; but it keeps on its disk what it has decoded until it answers, so a slot that is far behind
//! is not counted.

use relay::{
    Failure, Lsn,
    source::{Catalog, SlotHealth},
};
use tokio_postgres::Client;

use super::{connector::StoredOffset, source::outbox_tables};
use crate::{
    cli::{
        TaskError,
        connect::{Access, with_connection},
    },
    config::Config,
    postgres::quote_identifier,
    wording,
};

/// What is decoded for a count at most.
const BYTES_MAX: u64 = 1 << 30;

/// Limit for the count: someone waits for it.
const TIMEOUT: &str = "set statement_timeout = '120s'";

/// How far somebody has delivered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Delivered {
    /// Up to an event, by what a connector has stored.
    Offset(StoredOffset),
    /// Up to the end of a transaction.
    Commit(Lsn),
}

/// Numbers of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Those that the slot has still to send.
    pub(super) all: u64,
    /// Those of them that were delivered.
    pub(super) delivered: u64,
}

/// Counts what the slot has still to send.
///
/// # Errors
/// The server refuses, or it is too much to count.
pub(super) async fn count(
    config: &Config,
    access: Access<'_>,
    slot: &SlotHealth,
    catalog: &Catalog,
    delivered: Option<Delivered>,
) -> Result<Waiting, String> {
    let behind = slot.bytes_behind();
    if behind > BYTES_MAX {
        let (behind, limit) = (wording::bytes(behind), wording::bytes(BYTES_MAX));
        return Err(format!("events are counted up to {limit} of WAL, and there are {behind}"));
    }
    let tables = outbox_tables(config, catalog);
    let tables: Vec<i64> = tables.map(|relation| i64::from(relation.oid.as_u32())).collect();
    let counted = with_connection(access, "migrate", async |client| {
        client.batch_execute(TIMEOUT).await?;
        ask(client, config, &tables, delivered).await
    });
    Box::pin(counted).await.map_err(|error| match error {
        TaskError::Failure(failure) => message(&failure),
        TaskError::Output(error) => error.to_string(),
    })
}

fn message(failure: &Failure) -> String {
    format!("{failure:#}")
}

/// `n` numbers the messages in the order in which they are sent. An Insert begins with an `I` and
/// the table's OID; the position of a Commit, a `C`, is the end of its transaction. The last event
/// of an offset may be of another table.
const QUERY: &str = "\
    with message as materialized ( \
      select n, lsn, get_byte(data, 0) as kind, \
        get_byte(data, 0) = ascii('I') and (get_byte(data, 1)::int8 << 24) + \
          (get_byte(data, 2) << 16) + (get_byte(data, 3) << 8) + get_byte(data, 4) \
          = any($3::int8[]) as is_event \
      from pg_logical_slot_peek_binary_changes($1::text::name, null, null, 'proto_version', '1', \
        'publication_names', $2) with ordinality as m(lsn, xid, data, n)), \
    event as ( \
      select n, lsn, row_number() over (partition by lsn order by n) as nth \
      from message where is_event), \
    delivered as ( \
      select greatest( \
        (select max(m.n) from message m left join event e on e.n = m.n \
         where m.lsn = $4::text::pg_lsn and m.kind <> ascii('C') \
           and coalesce(e.nth, 0) <= $5), \
        (select max(n) from message where kind = ascii('C') and lsn <= $6::text::pg_lsn)) as upto) \
    select count(*), count(*) filter (where n <= upto) from event, delivered";

async fn ask(
    client: &Client,
    config: &Config,
    tables: &[i64],
    delivered: Option<Delivered>,
) -> Result<Waiting, TaskError> {
    let (event, nth, commit) = match delivered {
        Some(Delivered::Offset(StoredOffset { lsn, events, commit })) => {
            (Some(lsn), i64::try_from(events).unwrap_or(i64::MAX), commit)
        }
        Some(Delivered::Commit(commit)) => (None, 0, Some(commit)),
        None => (None, 0, None),
    };
    let [event, commit] = [event, commit].map(|lsn| lsn.map(|lsn| lsn.to_string()));
    let slot = config.postgres.slot.as_str();
    let publication = quote_identifier(config.postgres.publication.as_str());
    let row =
        client.query_one(QUERY, &[&slot, &publication, &tables, &event, &nth, &commit]).await?;
    let number = |column: usize| -> Result<u64, tokio_postgres::Error> {
        let number: i64 = row.try_get(column)?;
        Ok(u64::try_from(number).unwrap_or_default())
    };
    Ok(Waiting { all: number(0)?, delivered: number(1)? })
}
