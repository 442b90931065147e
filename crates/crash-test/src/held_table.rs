//! The table of held events, as it is; and the person who decides about the dead letters in it.

use std::time::Duration;

use anyhow::{Context, bail};
use testbed::wait::eventually;
use tokio_postgres::types::PgLsn;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use crate::state_topic::{NAME, SLOT};

/// What the table has of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldRow {
    pub(crate) id: Uuid,
    pub(crate) key: String,
    /// Where its transaction's commit begins.
    pub(crate) commit_lsn: PgLsn,
    pub(crate) state: HeldState,
    /// Why it is a dead letter; `None` for an event that is held behind one.
    pub(crate) code: Option<String>,
}

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldState {
    Held,
    Requeued,
    Dropping,
    Delivered,
    Dropped,
}

impl HeldState {
    fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "held" => Self::Held,
            "requeued" => Self::Requeued,
            "dropping" => Self::Dropping,
            "delivered" => Self::Delivered,
            "dropped" => Self::Dropped,
            _ => bail!("{text:?} is no state of a held event"),
        })
    }

    /// Whether the event has left.
    pub(crate) const fn is_closed(self) -> bool {
        matches!(self, Self::Delivered | Self::Dropped)
    }
}

/// Reads the whole table.
pub(crate) async fn read(client: &Client) -> anyhow::Result<Vec<HeldRow>> {
    let query = "SELECT event_id, convert_from(key, 'UTF8'), commit_lsn, state, code \
                 FROM outbox_router.held WHERE pipeline = $1 AND slot = $2";
    let rows = client.query(query, &[&NAME, &SLOT]).await;
    let rows = rows.context("cannot read the table of held events")?;
    rows.iter().map(|row| held_row(row).with_context(|| format!("cannot read {row:?}"))).collect()
}

fn held_row(row: &Row) -> anyhow::Result<HeldRow> {
    Ok(HeldRow {
        id: row.try_get::<_, &str>(0)?.parse()?,
        key: row.try_get(1)?,
        commit_lsn: row.try_get(2)?,
        state: HeldState::parse(row.try_get(3)?)?,
        code: row.try_get(4)?,
    })
}

/// A person gives every dead letter up that waits for a decision, or requeues it, although its
/// cause is still there: then it is refused again. Returns how many there were.
pub(crate) async fn decide(client: &Client) -> anyhow::Result<u64> {
    decide_as(client, "CASE WHEN random() < 0.2 THEN 'requeued' ELSE 'dropping' END").await
}

/// A person gives every dead letter up that waits for a decision. Returns how many there were.
pub(crate) async fn give_up(client: &Client) -> anyhow::Result<u64> {
    decide_as(client, "'dropping'").await
}

async fn decide_as(client: &Client, decision: &str) -> anyhow::Result<u64> {
    let sql = format!(
        "UPDATE outbox_router.held SET state = {decision}, decided_at = now() \
         WHERE code IS NOT NULL AND state = 'held'"
    );
    client.execute(&sql, &[]).await.context("cannot decide about dead letters")
}

/// Whether every decision has been carried out.
pub(crate) async fn is_carried_out(client: &Client) -> anyhow::Result<bool> {
    is_empty(client, "'requeued', 'dropping'").await
}

/// Gives dead letters up until everything has left the table: what is held behind a dead letter may
/// be one itself.
pub(crate) async fn wait_empty(client: &Client, deadline: Duration) -> anyhow::Result<()> {
    eventually(deadline, "the release of all held events", async || {
        give_up(client).await?;
        let is_empty = is_empty(client, "'held', 'requeued', 'dropping'").await?;
        Ok(is_empty.then_some(()))
    })
    .await
}

async fn is_empty(client: &Client, states: &str) -> anyhow::Result<bool> {
    let query = format!("SELECT EXISTS (SELECT FROM outbox_router.held WHERE state IN ({states}))");
    Ok(!client.query_one(&query, &[]).await?.get::<_, bool>(0))
}
