//! What the slot has still to send, as the server reports it.

use std::{io, time::Duration};

use relay::{Code, Failure};
use tokio::time::Instant;
use tokio_postgres::{Client, Error};

use crate::cli::{connect::failure, flushed::wait_flushed, sql};

/// Limit for all readings together. Decoding starts where the slot's oldest transaction began,
/// which may be far back.
const PEEK_TIMEOUT: Duration = Duration::from_secs(30);

/// How many messages each reading asks for, until one of them is an insert. The first reading
/// suffices for most slots. A slot that has to send five million transactions without an insert is
/// given up, because its server would keep half a gigabyte for the answer.
const MESSAGES_PEEKED: [i32; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// What a slot has not delivered.
pub(in crate::cli) enum Backlog {
    /// No row.
    Nothing,
    /// At least one row.
    Rows,
    /// It is not known, and why.
    Unknown(Failure),
}

impl Backlog {
    /// Asks the server; the slot does not move.
    pub(in crate::cli) async fn of(client: &Client, slot: &str, publication: &str) -> Self {
        let peeked = peek(client, slot, publication).await;
        // The rollback ends the limit, also where the statement has failed.
        let ended = client.batch_execute("rollback").await;
        let backlog = peeked.and_then(|backlog| ended.map(|()| backlog));
        backlog.unwrap_or_else(|error| Self::Unknown(failure(error)))
    }

    /// Reports the backlog before the person is asked.
    pub(super) fn report(&self, slot: &str, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Rows => writeln!(
                out,
                "the slot {slot} has committed rows that were not delivered: outbox-router run \
                 delivers them first"
            ),
            Self::Unknown(why) => writeln!(out, "{}", unknown(slot, why)),
        }
    }

    /// Checks that the dropped slot had delivered every committed row.
    ///
    /// # Errors
    /// It had not, or that is not known.
    pub(super) fn check_delivered(&self, slot: &str) -> Result<(), Failure> {
        let message = match self {
            Self::Nothing => return Ok(()),
            Self::Rows => format!(
                "the slot {slot} was dropped before it had delivered every committed row: the \
                 rest is missing in Kafka"
            ),
            Self::Unknown(why) => unknown(slot, why),
        };
        Err(Failure::new(Code::SlotMissing, message))
    }
}

fn unknown(slot: &str, why: &Failure) -> String {
    format!("whether the slot {slot} has delivered every committed row is not known: {why:#}")
}

async fn peek(client: &Client, slot: &str, publication: &str) -> Result<Backlog, Error> {
    let until = Instant::now() + PEEK_TIMEOUT;
    let end = "select pg_current_wal_insert_lsn()::text";
    let end: String = client.query_one(end, &[]).await?.try_get(0)?;
    // At the limit, the reading that follows has no time left, and says so.
    wait_flushed(client, &end, PEEK_TIMEOUT).await?;
    client.batch_execute("begin").await?;
    for messages in MESSAGES_PEEKED {
        // A `statement_timeout` of 0 would be no limit.
        let left = until.saturating_duration_since(Instant::now()).as_millis().max(1);
        client.batch_execute(&format!("set local statement_timeout = {left}")).await?;
        let row = client.query_one(&sql::peek(slot, publication, messages), &[]).await?;
        let (has_rows, has_more): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        if has_rows {
            return Ok(Backlog::Rows);
        }
        if !has_more {
            return Ok(Backlog::Nothing);
        }
    }
    Ok(Backlog::Unknown(Failure::new(
        Code::SlotMissing,
        "it has more to send than was read, and no row was among the first of it",
    )))
}
