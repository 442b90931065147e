//! Which events were committed, and where their transactions end: read from a slot with another
//! output plugin, from the tables of committed events and of poisoned rows that writers keep beside
//! the outbox.
//!
//! So one query returns everything that was committed since the last, in commit order, without the
//! product's decoder.

use anyhow::Context;
use testbed::load::{COMMITTED, POISONED};
use testbed::postgres::create_slot;
use tokio_postgres::Client;
use tokio_postgres::types::PgLsn;
use uuid::Uuid;

const SLOT: &str = "observer";

/// A committed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedCommit {
    pub(crate) id: Uuid,
    pub(crate) key: String,
    pub(crate) kind: RowKind,
    /// The end of its transaction: what a consumer has to confirm.
    pub(crate) end: PgLsn,
}

/// What a row of the outbox can become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// A record.
    Event,
    /// Nothing: it is a dead letter, until a person drops it.
    Poisoned,
}

/// Creates the slot: commits from now on are seen.
pub(crate) async fn create(client: &Client) -> anyhow::Result<()> {
    create_slot(client, SLOT, "test_decoding").await
}

/// What was committed since the last call. If the response is lost, its commits are lost to the
/// observer: the checker finds out at the end.
pub(crate) async fn committed(client: &Client) -> anyhow::Result<Vec<ObservedCommit>> {
    // The row of a commit has the position after the commit.
    let query = format!(
        "SELECT lsn, data FROM pg_logical_slot_get_changes($1::text::name, NULL, NULL, \
         'include-xids', '0', 'skip-empty-xacts', '1') \
         WHERE data = 'COMMIT' OR data LIKE '{}%' OR data LIKE '{}%'",
        inserted_into(COMMITTED),
        inserted_into(POISONED),
    );
    let rows = client.query(&query, &[&SLOT]).await.context("cannot read what was committed")?;
    let mut commits = Vec::new();
    let mut open = Vec::new();
    for row in &rows {
        let (lsn, data): (PgLsn, &str) = (row.get(0), row.get(1));
        if data == "COMMIT" {
            let commit = |(id, key, kind)| ObservedCommit { id, key, kind, end: lsn };
            commits.extend(open.drain(..).map(commit));
        } else {
            open.push(inserted_row(data).with_context(|| format!("cannot read {data:?}"))?);
        }
    }
    Ok(commits)
}

fn inserted_into(table: &str) -> String {
    format!("table {table}: INSERT: id[uuid]:''")
}

/// Id and key in a row of one of the tables, as `test_decoding` writes it, and what the row is.
fn inserted_row(data: &str) -> Option<(Uuid, String, RowKind)> {
    let (table, rest) = data.strip_prefix("table ")?.split_once(": INSERT: id[uuid]:'")?;
    let (id, rest) = rest.split_once('\'')?;
    let (_, rest) = rest.split_once("aggregate_id[text]:'")?;
    let (key, _) = rest.split_once('\'')?;
    let kind = if table == POISONED { RowKind::Poisoned } else { RowKind::Event };
    Some((id.parse().ok()?, key.to_owned(), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_and_key_of_a_row_are_read_from_their_columns_and_its_kind_from_the_table() {
        let id = Uuid::from_u128(7);
        let committed = format!(
            "table testbed.committed: INSERT: id[uuid]:'{id}' aggregate_type[text]:'id[uuid]:' \
             aggregate_id[text]:'order-1' seq[bigint]:4"
        );
        let poisoned =
            format!("table testbed.poisoned: INSERT: id[uuid]:'{id}' aggregate_id[text]:'order-2'");
        let of = |key: &str, kind| Some((id, key.to_owned(), kind));
        assert_eq!(inserted_row(&committed), of("order-1", RowKind::Event));
        assert_eq!(inserted_row(&poisoned), of("order-2", RowKind::Poisoned));
        assert_eq!(inserted_row("table public.outbox: INSERT: id[text]:'x'"), None);
    }
}
