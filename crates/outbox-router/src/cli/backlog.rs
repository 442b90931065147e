//! Whether a slot that nobody reads has a row to send, as the server reports it; the slot does not
//! move.

use std::{io, time::Duration};

use relay::{Code, Failure, Lsn, TableName, source::Oid, witness::Witness};
use tokio::time::Instant;
use tokio_postgres::{Client, Error};

use super::{connect::failure, flushed::wait_flushed, sql};
use crate::{
    config::Config,
    polling::sql::{is_among, named_oids},
    postgres::{quote_identifier, quote_literal},
};

/// Limit for all readings together. Decoding starts where the slot's oldest transaction began,
/// which may be far back.
const PEEK_TIMEOUT: Duration = Duration::from_secs(60);

/// How many messages each reading asks for, until one of them is a row that counts. The first
/// reading suffices for most slots. A slot that has to send five million transactions without such
/// a row is given up, because its server would keep half a gigabyte for the answer.
const MESSAGES_PEEKED: [i32; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// What a slot has not delivered.
pub(super) enum Backlog {
    /// No row.
    Nothing,
    /// At least one row.
    Rows,
    /// It is not known, and why.
    Unknown(Failure),
}

/// The tables whose rows count. A publication may have those of other pipelines, too.
pub(super) enum Counted {
    /// All that are published.
    All,
    /// All but tables that are known to be others: they are there, have none of these names and had
    /// none when the row was written, are none of these, and no partition of one.
    Outboxes { names: Vec<TableName>, known: Vec<Oid> },
}

impl Counted {
    /// The outboxes of a configuration, and what was an outbox before by the witness. Without a
    /// configured table each table is one, and without a witness each may have been one.
    pub(super) fn of(config: &Config, witness: Option<&Witness>) -> Self {
        let names: Vec<TableName> =
            config.outboxes().tables.into_iter().map(|outbox| outbox.name).collect();
        let Some(witness) = witness.filter(|it| !names.is_empty() && !it.tables.is_empty()) else {
            return Self::All;
        };
        let gone = witness.former.keys().chain(witness.detached.keys());
        let read = witness.catalog.relations.iter().flat_map(|table| {
            table.partitions.iter().map(|partition| partition.oid).chain([table.oid])
        });
        let known = witness.tables.iter().copied();
        let known = known.chain(gone.map(|oid| Oid::from_u32(*oid))).chain(read).collect();
        Self::Outboxes { names, known }
    }

    /// The condition that the inserts `i` count, all of one table: `i.id` are the bytes of its OID,
    /// as in the messages of `peeked`.
    fn sql(&self) -> String {
        let Self::Outboxes { names, known } = self else { return "true".to_owned() };
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        let own = format!(
            "{} union all select unnest('{{{}}}'::oid[])",
            named_oids(names.iter()),
            known.join(",")
        );
        let part = |name: &str| {
            format!(
                "convert_to({}, getdatabaseencoding()) || decode('00', 'hex')",
                sql::literal(name)
            )
        };
        let is_named = names.iter().map(|name| {
            let both = format!("{} || {}", part(&name.schema), part(&name.name));
            format!("substr(r.data, 6, octet_length({both})) = {both}")
        });
        format!(
            "(not exists (select from pg_class c \
                where c.oid = ('x' || encode(i.id, 'hex'))::bit(32)::int8::oid \
                  and c.relkind in ('r', 'p') and not {}) \
              or exists (select from peeked r where get_byte(r.data, 0) = ascii('R') \
                and substr(r.data, 2, 4) = i.id and ({})))",
            is_among("c.oid", &own),
            is_named.collect::<Vec<_>>().join(" or ")
        )
    }
}

/// What the slot is asked.
pub(super) struct Peek<'p> {
    pub(super) slot: &'p str,
    pub(super) publication: &'p str,
    /// Transactions that were committed before this position; `None`: before now.
    pub(super) before: Option<Lsn>,
    pub(super) counted: &'p Counted,
}

impl Backlog {
    /// Asks the server for rows of any table.
    pub(super) async fn of(client: &Client, slot: &str, publication: &str) -> Self {
        let counted = &Counted::All;
        Self::peek(client, Peek { slot, publication, before: None, counted }).await
    }

    /// Asks the server.
    pub(super) async fn peek(client: &Client, what: Peek<'_>) -> Self {
        let peeked = what.answer(client).await;
        // The rollback ends the limit, also where the statement has failed.
        let ended = client.batch_execute("rollback").await;
        let backlog = peeked.and_then(|backlog| ended.map(|()| backlog));
        backlog.unwrap_or_else(|error| Self::Unknown(failure(error)))
    }

    /// Reports the backlog before the person is asked whether the slot is dropped.
    pub(super) fn report(&self, slot: &str, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Rows => writeln!(
                out,
                "the slot {slot} has committed rows that were not delivered: outbox-router run \
                 delivers them first"
            ),
            Self::Unknown(why) => writeln!(out, "{}: {why:#}", unknown(slot)),
        }
    }

    /// The reason to keep the slot although the tables are read: it alone has the events of rows
    /// that were deleted. `None`: it has no event to send.
    pub(super) fn only_there(&self, slot: &str, position: &str) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Rows => Some(format!(
                "the slot {slot} stands at {position}, and has rows to send: those that were \
                 deleted from the table meanwhile are only there"
            )),
            Self::Unknown(why) => Some(format!(
                "the slot {slot} stands at {position}, and whether it has rows to send is not \
                 known ({}): those that were deleted from the table meanwhile would only be there",
                why.message_with_causes()
            )),
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
            Self::Unknown(why) => format!("{}: {why:#}", unknown(slot)),
        };
        Err(Failure::new(Code::SlotMissing, message))
    }
}

fn unknown(slot: &str) -> String {
    format!("whether the slot {slot} has delivered every committed row is not known")
}

impl Peek<'_> {
    async fn answer(&self, client: &Client) -> Result<Backlog, Error> {
        let until = Instant::now() + PEEK_TIMEOUT;
        let end: String = match self.before {
            Some(before) => before.to_string(),
            None => {
                let end = "select pg_current_wal_insert_lsn()::text";
                client.query_one(end, &[]).await?.try_get(0)?
            }
        };
        // At the limit, the reading that follows has no time left, and says so.
        wait_flushed(client, &end, PEEK_TIMEOUT).await?;
        client.batch_execute("begin").await?;
        for messages in MESSAGES_PEEKED {
            // A `statement_timeout` of 0 would be no limit.
            let left = until.saturating_duration_since(Instant::now()).as_millis().max(1);
            client.batch_execute(&format!("set local statement_timeout = {left}")).await?;
            let row = client.query_one(&self.sql(messages), &[]).await?;
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

    /// Whether the slot has such an insert to send, and whether it has as many messages as are
    /// asked for. Not every message is an insert: before PostgreSQL 15 a transaction that changed
    /// no published table sends its Begin and Commit, and a publication may publish more than
    /// inserts.
    ///
    /// The server reads on to the end of the transaction that holds the last of these messages.
    /// Until it answers, it keeps up to `work_mem` of the result in memory, and up to
    /// `logical_decoding_work_mem` of what it decodes; the rest is on its disk.
    fn sql(&self, messages: i32) -> String {
        let before = self.before.map_or_else(|| "null".to_owned(), |lsn| format!("'{lsn}'"));
        format!(
            "with peeked as materialized (select data from pg_logical_slot_peek_binary_changes( \
               {}, {before}, {messages}, 'proto_version', '1', 'publication_names', {})), \
             inserts as (select distinct substr(data, 2, 4) as id from peeked \
               where get_byte(data, 0) = ascii('I')) \
             select exists (select from inserts i where {}), \
               (select count(*) >= {messages} from peeked)",
            quote_literal(self.slot),
            quote_literal(&quote_identifier(self.publication)),
            self.counted.sql()
        )
    }
}
