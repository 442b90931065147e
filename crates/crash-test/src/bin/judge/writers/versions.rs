//! Transactions of a table with one row for each key, which is written again and again.

use rand::RngExt as _;
use tokio_postgres::Client;

use crate::table::RowTime;
use crate::truth::Kind;

use super::Writer;
use super::row::{COLUMNS, Row};

impl Writer {
    /// One transaction that writes some keys, some of them twice. A lock on a row is held until its
    /// end.
    pub(super) async fn version_transaction(&mut self, client: &Client) -> anyhow::Result<()> {
        let is_long = self.random.random_ratio(1, 8);
        client.batch_execute("begin").await?;
        for _ in 0..self.random.random_range(1..=3) {
            let row = self.rows.event(self.random.random_range(0..100), RowTime::Default);
            self.write_version(client, row).await?;
            self.pause(if is_long { 900 } else { 15 }).await;
        }
        let is_rolled_back = self.random.random_ratio(1, 20);
        let ending = if is_rolled_back { "rollback" } else { "commit" };
        Ok(client.batch_execute(ending).await?)
    }

    /// An application updates the row if it is there, or relies on `on conflict`.
    async fn write_version(&mut self, client: &Client, row: Row) -> anyhow::Result<()> {
        let (table, pending) = (self.assignment.table, self.assignment.scenario.pending_sql());
        let again = format!(
            "set payload = excluded.payload, created_at = excluded.created_at, \
             seq = nextval('{table}_seq'){pending}"
        );
        let sql = format!(
            "insert into {table} ({COLUMNS}) values {} \
             on conflict (aggregate_id) do update {again}",
            row.values(&self.assignment)
        );
        client.batch_execute(&sql).await?;
        let note = row.note(table, Kind::Version, "upsert");
        let (key, event) = (&row.key, &row.event);
        let notes = format!(
            "insert into judge.committed values {note}; \
             insert into judge.latest values ('{key}', '{event}') \
             on conflict (key) do update set event = excluded.event"
        );
        Ok(client.batch_execute(&notes).await?)
    }
}
