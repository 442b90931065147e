//! Tables, slots and rows of cases, and what the server sends of the rows.

use std::ops::RangeInclusive;

use anyhow::{Context, ensure};
use outbox_router::postgres::VALUE_FORMS;
use testbed::postgres::{DatabaseSession, PostgresOptions, PostgresServer, create_slot};
use tokio_postgres::types::PgLsn;

use crate::case::Case;
use crate::golden::Hex;

/// The server's messages about the rows of a case.
pub(crate) struct Sent {
    /// What comes before the message about the table.
    pub(crate) types: Vec<Hex>,
    pub(crate) relation: Hex,
    pub(crate) inserts: Vec<Hex>,
    /// What comes before the last row, where the case has other statements.
    pub(crate) before_last_row: Vec<Hex>,
    /// Each row's id, as text.
    pub(crate) ids: Vec<String>,
    pub(crate) inserted: Inserted,
}

/// Where and when the rows of a case were written.
#[derive(Debug, Clone)]
pub(crate) struct Inserted {
    /// The end of WAL after the last statement.
    pub(crate) end: PgLsn,
    /// The server's clock before the first and after the last statement, in milliseconds since
    /// 1970.
    pub(crate) millis: RangeInclusive<i64>,
}

/// Who reads a case's rows from a slot of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SlotOf {
    /// Debezium, and the recording of what the server sends.
    Debezium,
    /// `outbox-router compare`
    Compare,
    /// `outbox-router run`
    Run,
}

impl SlotOf {
    /// The name of the slot of a case.
    pub(crate) fn name(self, case: &Case) -> String {
        let identifier = case.identifier();
        match self {
            Self::Debezium => identifier,
            Self::Compare => format!("{identifier}_compare"),
            Self::Run => format!("{identifier}_run"),
        }
    }
}

/// A server that has room for the slots of each case, and some temporary ones.
pub(crate) async fn start(version: u16, cases: &[Case]) -> anyhow::Result<PostgresServer> {
    let senders = (3 * cases.len() + 20).to_string();
    let connections = (10 * cases.len() + 50).to_string();
    let options = PostgresOptions::version(version)
        .set("max_replication_slots", &senders)
        .set("max_wal_senders", &senders)
        .set("max_connections", &connections);
    PostgresServer::start(options).await
}

/// Makes a case's table, publication and slots, and inserts its rows.
pub(crate) async fn insert(server: &PostgresServer, case: &Case) -> anyhow::Result<Sent> {
    let session = server.connect().await?;
    let name = case.identifier();
    let make = format!("{}\nCREATE PUBLICATION {name} FOR TABLE {name};", case.create_table());
    session.batch_execute(&make).await.with_context(|| format!("{}: {make}", case.name))?;
    for slot in [SlotOf::Debezium, SlotOf::Compare, SlotOf::Run] {
        create_slot(&session, &slot.name(case), "pgoutput").await?;
    }
    let before = millis(&session).await?;
    let mut ids = Vec::new();
    let key = case.router.get("table.field.event.id").map_or("id", String::as_str);
    for (number, row) in case.rows.iter().enumerate() {
        if number == case.rows_before_others() {
            run_others(&session, case).await?;
        }
        let insert = format!("{} RETURNING {key}::text", case.insert(number, row));
        let inserted = session.query_one(&insert, &[]).await;
        let inserted = inserted.with_context(|| format!("{}: {insert}", case.name))?;
        ids.push(inserted.get::<_, Option<String>>(0).unwrap_or_default());
    }
    let end = session.query_one("SELECT pg_current_wal_flush_lsn()", &[]).await?.get(0);
    let inserted = Inserted { end, millis: before..=millis(&session).await? };
    let messages = sent(&session, &name).await?;
    let of = |kind: u8| messages.iter().filter(move |message| message.first() == Some(&kind));
    let inserts: Vec<Hex> = of(b'I').cloned().map(Hex).collect();
    ensure!(inserts.len() == case.rows.len(), "{}: {} inserts", case.name, inserts.len());
    let relation = of(b'R').next().cloned().context("no relation")?;
    let before = messages.iter().take_while(|message| message.first() != Some(&b'R'));
    let types = before.filter(|message| message.first() == Some(&b'Y')).cloned().map(Hex);
    let before_last_row = if case.before_last_row.is_empty() {
        Vec::new()
    } else {
        messages_before_last_row(&messages)
    };
    Ok(Sent {
        types: types.collect(),
        relation: Hex(relation),
        inserts,
        before_last_row,
        ids,
        inserted,
    })
}

async fn run_others(session: &DatabaseSession, case: &Case) -> anyhow::Result<()> {
    for statement in &case.before_last_row {
        let done = session.batch_execute(statement).await;
        done.with_context(|| format!("{}: {statement}", case.name))?;
    }
    Ok(())
}

/// The messages between the last two rows, without Begin and Commit, which are the comparison's
/// own.
fn messages_before_last_row(messages: &[Vec<u8>]) -> Vec<Hex> {
    let is_row = |message: &&Vec<u8>| message.first() == Some(&b'I');
    let mut between: Vec<Hex> = messages
        .iter()
        .rev()
        .skip_while(|message| !is_row(message))
        .skip(1)
        .take_while(|message| !is_row(message))
        .filter(|message| !matches!(message.first(), Some(b'B' | b'C')))
        .cloned()
        .map(Hex)
        .collect();
    between.reverse();
    between
}

/// What the server sends through a slot.
async fn sent(session: &DatabaseSession, slot: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    // As the router's connection sets them.
    for (parameter, value) in VALUE_FORMS {
        session.execute("SELECT set_config($1, $2, false)", &[&parameter, &value]).await?;
    }
    let peek = format!(
        "SELECT data FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, \
         'proto_version', '1', 'publication_names', '{slot}')"
    );
    Ok(session.query(&peek, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// The server's clock, in milliseconds since 1970.
async fn millis(session: &DatabaseSession) -> anyhow::Result<i64> {
    let clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8";
    Ok(session.query_one(clock, &[]).await?.get(0))
}
