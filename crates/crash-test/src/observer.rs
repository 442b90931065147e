//! Which events were committed, and where their transactions end: read from a slot with another
//! output plugin, from the table of committed events that writers keep beside the outbox.
//!
//! So one query returns everything that was committed since the last, in commit order, without the
//! product's decoder.

use anyhow::Context;
use testbed::load::COMMITTED;
use testbed::postgres::create_slot;
use tokio_postgres::Client;
use tokio_postgres::types::PgLsn;
use uuid::Uuid;

const SLOT: &str = "observer";

/// A committed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObservedCommit {
    pub(crate) id: Uuid,
    /// The end of its transaction: what a consumer has to confirm.
    pub(crate) end: PgLsn,
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
         WHERE data = 'COMMIT' OR data LIKE '{}%'",
        committed_row()
    );
    let rows = client.query(&query, &[&SLOT]).await.context("cannot read what was committed")?;
    let mut commits = Vec::new();
    let mut open = Vec::new();
    for row in &rows {
        let (lsn, data): (PgLsn, &str) = (row.get(0), row.get(1));
        if data == "COMMIT" {
            commits.extend(open.drain(..).map(|id| ObservedCommit { id, end: lsn }));
        } else {
            open.push(event_id(data).with_context(|| format!("cannot read {data:?}"))?);
        }
    }
    Ok(commits)
}

fn committed_row() -> String {
    format!("table {COMMITTED}: INSERT: id[uuid]:''")
}

/// The id in a row of that table, as `test_decoding` writes it.
fn event_id(data: &str) -> Option<Uuid> {
    let (_, rest) = data.split_once("id[uuid]:'")?;
    let (id, _) = rest.split_once('\'')?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_committed_event_is_read_from_the_first_column() {
        let id = Uuid::from_u128(7);
        let row = format!(
            "table testbed.committed: INSERT: id[uuid]:'{id}' aggregate_type[text]:'id[uuid]:'"
        );
        assert_eq!(event_id(&row), Some(id));
        assert_eq!(event_id("table public.outbox: INSERT: id[text]:'x'"), None);
    }
}
