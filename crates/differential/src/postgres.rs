//! Tables, slots and rows of cases, and what the server sends of the rows.

use anyhow::{Context, ensure};
use testbed::postgres::{PostgresOptions, PostgresServer, create_slot};

use crate::case::Case;
use crate::golden::Hex;

/// The server's messages about the rows of a case.
pub(crate) struct Sent {
    /// What comes before the message about the table.
    pub(crate) types: Vec<Hex>,
    pub(crate) relation: Hex,
    pub(crate) inserts: Vec<Hex>,
    /// What comes after the rows.
    pub(crate) after: Vec<Hex>,
    /// Each row's id, as text.
    pub(crate) ids: Vec<String>,
}

/// A server that has room for a slot of each case.
pub(crate) async fn start(version: u16, cases: &[Case]) -> anyhow::Result<PostgresServer> {
    let senders = (2 * cases.len() + 10).to_string();
    let connections = (10 * cases.len() + 50).to_string();
    let options = PostgresOptions::version(version)
        .set("max_replication_slots", &senders)
        .set("max_wal_senders", &senders)
        .set("max_connections", &connections);
    PostgresServer::start(options).await
}

/// Makes a case's table, publication and slot, and inserts its rows.
pub(crate) async fn insert(server: &PostgresServer, case: &Case) -> anyhow::Result<Sent> {
    let session = server.connect().await?;
    let name = case.identifier();
    let make = format!("{}\nCREATE PUBLICATION {name} FOR TABLE {name};", case.create_table());
    session.batch_execute(&make).await.with_context(|| format!("{}: {make}", case.name))?;
    create_slot(&session, &name, "pgoutput").await?;
    let mut ids = Vec::new();
    let key = case.router.get("table.field.event.id").map_or("id", String::as_str);
    for (number, row) in case.rows.iter().enumerate() {
        let insert = format!("{} RETURNING {key}::text", case.insert(number, row));
        let inserted = session.query_one(&insert, &[]).await;
        let inserted = inserted.with_context(|| format!("{}: {insert}", case.name))?;
        ids.push(inserted.get::<_, Option<String>>(0).unwrap_or_default());
    }
    for statement in &case.after {
        let done = session.batch_execute(statement).await;
        done.with_context(|| format!("{}: {statement}", case.name))?;
    }
    // As the router's connection sets it.
    session.batch_execute("SET DateStyle = ISO; SET TimeZone = UTC").await?;
    let peek = format!(
        "SELECT data FROM pg_logical_slot_peek_binary_changes('{name}', NULL, NULL, \
         'proto_version', '1', 'publication_names', '{name}')"
    );
    let messages: Vec<Vec<u8>> =
        session.query(&peek, &[]).await?.iter().map(|row| row.get(0)).collect();
    let of = |kind: u8| messages.iter().filter(move |message| message.first() == Some(&kind));
    let inserts: Vec<Hex> = of(b'I').cloned().map(Hex).collect();
    ensure!(inserts.len() == case.rows.len(), "{}: {} inserts", case.name, inserts.len());
    let relation = of(b'R').next().cloned().context("no relation")?;
    let before = messages.iter().take_while(|message| message.first() != Some(&b'R'));
    let types = before.filter(|message| message.first() == Some(&b'Y')).cloned().map(Hex);
    let of_rows = messages.iter().rposition(|message| message.first() == Some(&b'I'));
    let after = messages.iter().skip(of_rows.map_or(0, |last| last + 1));
    // Begin and Commit are the comparison's own.
    let after = after.filter(|message| !matches!(message.first(), Some(b'B' | b'C')));
    Ok(Sent {
        types: types.collect(),
        relation: Hex(relation),
        inserts,
        after: after.cloned().map(Hex).collect(),
        ids,
    })
}
