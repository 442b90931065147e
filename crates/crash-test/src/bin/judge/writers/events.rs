//! Transactions of rows that are events, each.

use std::time::Duration;

use anyhow::Context as _;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use testbed::postgres::copy_in;
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::scenario::{Layout, Times};
use crate::table::RowTime;
use crate::truth::Kind;

use super::Writer;
use super::row::{COLUMNS, IsLarge, Row, notes};
use super::statement::{Ending, Isolation, Plan, Statement, time};

/// What a slow statement takes for each row.
const SLOW_MILLIS: u64 = 80;
/// The age of rows of a backlog that nobody has delivered yet.
const OLD: RowTime = RowTime::Shifted(-40 * 86_400);

impl Writer {
    /// One transaction. If it fails, nothing of it was committed, or all of it.
    pub(super) async fn event_transaction(&mut self, client: &Client) -> anyhow::Result<()> {
        let plan = Plan::draw(&self.assignment.scenario, &mut self.random);
        client.batch_execute(&format!("begin isolation level {}", plan.isolation.sql())).await?;
        if let Some(millis) = plan.snapshot_millis {
            let look = format!("select count(*) from {}", self.assignment.table);
            client.query_one(&look, &[]).await?;
            sleep(Duration::from_millis(millis)).await;
        }
        for statement in &plan.statements {
            self.pause(plan.think_millis).await;
            self.statement(client, *statement, plan.isolation).await?;
        }
        self.end(client, plan.ending).await
    }

    async fn statement(
        &mut self,
        client: &Client,
        statement: Statement,
        isolation: Isolation,
    ) -> anyhow::Result<()> {
        let how = format!("{statement:?} {}", isolation.sql());
        match statement {
            Statement::Single => {
                let rows = [self.row()];
                self.insert(client, &rows, &how).await
            }
            Statement::MultiRow => {
                let rows = self.rows(8);
                self.insert(client, &rows, &how).await
            }
            Statement::SlowSelect => self.slow_select(client, &how).await,
            Statement::Copy => self.copy(client, &how).await,
            Statement::Savepoint => {
                client.batch_execute("savepoint s").await?;
                for ending in ["rollback to savepoint s", "release savepoint s"] {
                    let rows = self.rows(2);
                    self.insert(client, &rows, &how).await?;
                    client.batch_execute(ending).await?;
                }
                Ok(())
            }
            Statement::InsertDelete => self.insert_delete(client, &how).await,
            Statement::ByPartition => self.by_partition(client, &how).await,
            Statement::Poison => self.poison(client, &how).await,
        }
    }

    fn row(&mut self) -> Row {
        let time = time(&self.assignment.scenario, &mut self.random);
        self.rows.event(self.random.random_range(0..100), time)
    }

    fn rows(&mut self, most: usize) -> Vec<Row> {
        (0..self.random.random_range(1..=most)).map(|_| self.row()).collect()
    }

    /// The values of rows, each in parentheses.
    fn values(&self, rows: &[Row]) -> String {
        rows.iter().map(|row| row.values(&self.assignment)).collect::<Vec<_>>().join(", ")
    }

    fn notes(&self, rows: &[Row], how: &str) -> String {
        notes(rows, self.assignment.table, how)
    }

    async fn insert(&self, client: &Client, rows: &[Row], how: &str) -> anyhow::Result<()> {
        self.insert_into(client, self.assignment.table, rows, how).await
    }

    async fn insert_into(
        &self,
        client: &Client,
        table: &str,
        rows: &[Row],
        how: &str,
    ) -> anyhow::Result<()> {
        let sql = format!("insert into {table} ({COLUMNS}) values {}", self.values(rows));
        client.batch_execute(&sql).await?;
        Ok(client.batch_execute(&self.notes(rows, how)).await?)
    }

    async fn slow_select(&mut self, client: &Client, how: &str) -> anyhow::Result<()> {
        let rows = self.rows(25);
        let (table, values) = (self.assignment.table, self.values(&rows));
        let seconds = f64::from(u32::try_from(SLOW_MILLIS)?) / 1000.0;
        let sql = format!(
            "insert into {table} ({COLUMNS}) select v.* from (values {values}) v ({COLUMNS}) \
             where pg_sleep({seconds}) is not null"
        );
        client.batch_execute(&sql).await?;
        Ok(client.batch_execute(&self.notes(&rows, how)).await?)
    }

    /// COPY takes texts, so all rows have one time, which the server has printed. It gathers the
    /// rows of a partition, so a key has one row at most where there are partitions.
    async fn copy(&mut self, client: &Client, how: &str) -> anyhow::Result<()> {
        let mut rows = self.rows(10);
        if self.assignment.scenario.layout != Layout::Plain {
            rows.sort_by(|one, other| one.key.cmp(&other.key));
            rows.dedup_by(|one, other| one.key == other.key);
            rows.shuffle(&mut self.random);
        }
        let time = rows.first().context("a COPY has rows")?.time;
        let sql = format!("select ({})::text", self.assignment.scenario.time_sql(time));
        let time: Option<String> = client.query_one(&sql, &[]).await?.try_get(0)?;
        let time = time.as_deref().unwrap_or("\\N");
        let lines: Vec<String> = rows.iter().map(|row| row.copy_line(time)).collect();
        let sql = format!("copy {} ({COLUMNS}) from stdin", self.assignment.table);
        let pause = if self.random.random_ratio(1, 3) { SLOW_MILLIS } else { 0 };
        copy_in(client, &sql, &lines, Duration::from_millis(pause)).await?;
        Ok(client.batch_execute(&self.notes(&rows, how)).await?)
    }

    async fn insert_delete(&mut self, client: &Client, how: &str) -> anyhow::Result<()> {
        let mut row = self.row();
        if row.kind == Kind::Event {
            row.kind = Kind::Deleted;
        } else {
            // What is older than the table's place is neither sent nor kept then.
            return Ok(());
        }
        let condition = row.is_row(&self.assignment);
        self.insert(client, &[row], how).await?;
        let sql = format!("delete from {} where {condition}", self.assignment.table);
        Ok(client.batch_execute(&sql).await?)
    }

    /// Into the partition of the oldest row, with a time of that row.
    async fn by_partition(&mut self, client: &Client, how: &str) -> anyhow::Result<()> {
        let oldest = format!(
            "select tableoid::regclass::text, floor(extract(epoch from created_at \
             - ({})))::int8 from {} where created_at is not null order by created_at limit 1",
            self.assignment.scenario.time_sql(RowTime::Default),
            self.assignment.table
        );
        let Some(found) = client.query_opt(&oldest, &[]).await? else { return Ok(()) };
        let (partition, shift): (String, i64) = (found.try_get(0)?, found.try_get(1)?);
        let mut row = self.row();
        row.time = RowTime::Shifted(shift);
        self.insert_into(client, &partition, &[row], how).await
    }

    /// They are those of a backlog that is older than every `keep`, where rows may be.
    async fn poison(&mut self, client: &Client, how: &str) -> anyhow::Result<()> {
        let is_polled = self.assignment.scenario.mark.is_some();
        let is_large =
            if self.random.random_ratio(1, 2) && !is_polled { IsLarge::Yes } else { IsLarge::No };
        let has_past = self.assignment.scenario.times == Times::Any;
        let time = if is_polled || has_past { OLD } else { RowTime::Default };
        let row = self.rows.poison(is_large, time);
        self.insert(client, &[row], how).await
    }

    async fn end(&mut self, client: &Client, ending: Ending) -> anyhow::Result<()> {
        let gid = self.next_gid();
        let sql = match ending {
            Ending::Commit => "commit".to_owned(),
            Ending::Rollback => "rollback".to_owned(),
            Ending::CommitPrepared | Ending::RollbackPrepared => {
                client.batch_execute(&format!("prepare transaction '{gid}'")).await?;
                self.pause(300).await;
                let verb = if ending == Ending::CommitPrepared { "commit" } else { "rollback" };
                format!("{verb} prepared '{gid}'")
            }
        };
        Ok(client.batch_execute(&sql).await?)
    }
}
