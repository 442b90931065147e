//! Rows of the outbox that a command sends, and what is in Kafka of them.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use serde_json::Value;
use testbed::postgres::DatabaseSession;
use testbed::reader::{ConsumedRecord, read_into};
use testbed::wait::eventually;

use crate::{Fixture, SHORT_DEADLINE};

/// For tens of thousands of rows, on a machine that is busy with other things.
pub const LONG_DEADLINE: Duration = Duration::from_secs(120);

const NO_PARAMETERS: [&str; 0] = [];

/// Waits until the last run of a command has settled so many rows.
///
/// # Errors
///
/// Fails when it has not after [`LONG_DEADLINE`].
pub async fn wait_settled(session: &DatabaseSession, rows: i64) -> anyhow::Result<()> {
    // The table is made by the command.
    let is_there = "SELECT to_regclass('outbox_router.republication') IS NOT NULL";
    let settled = "SELECT settled FROM outbox_router.republication ORDER BY id DESC LIMIT 1";
    eventually(LONG_DEADLINE, format!("{rows} settled rows"), async || {
        if !session.query_one(is_there, &[]).await?.get::<_, bool>(0) {
            return Ok(None);
        }
        let run = session.query_opt(settled, &[]).await?;
        Ok(run.filter(|run| run.get::<_, i64>(0) >= rows).map(drop))
    })
    .await
}

impl Fixture {
    /// Starts the router for the first time, and accepts that its slot was made without a witness:
    /// until somebody has, no row is removed, and K022 is open.
    ///
    /// # Errors
    ///
    /// Fails when it does not get to stream, or does not say so.
    pub async fn start_accepted(&mut self) -> anyhow::Result<()> {
        self.restart().await?;
        self.router
            .wait_status("a beginning without a witness", SHORT_DEADLINE, |status| {
                status.pointer("/witness/began_without").is_some_and(Value::is_object)
            })
            .await?;
        self.accept().await
    }

    /// Runs a command that prints JSON to its end. Returns its exit code, its answer, and what it
    /// says beside that.
    ///
    /// # Errors
    ///
    /// Fails when the binary cannot be started.
    pub async fn json_command(
        &self,
        line: &[String],
    ) -> anyhow::Result<(Option<i32>, Value, String)> {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let output = self.router.command(&line).await?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        Ok((output.status.code(), answer, errors))
    }

    /// The ids of the records, and how many records are the second of their row. There may be
    /// millions, so records are not collected.
    ///
    /// # Errors
    ///
    /// Fails when Kafka cannot be read.
    pub async fn delivered_ids(&self) -> anyhow::Result<(HashSet<String>, usize)> {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        let take = |(ids, doubled): &mut (HashSet<String>, usize), record: ConsumedRecord| {
            let is_first = record.header("id").is_some_and(|id| ids.insert(id.to_owned()));
            *doubled += usize::from(!is_first);
        };
        read_into(&self.kafka.bootstrap(), &topics, Default::default(), take).await
    }

    /// Rows that are in no record, and records that are the second of their row.
    ///
    /// # Errors
    ///
    /// Fails when the database or Kafka cannot be read.
    pub async fn missing_and_doubled(
        &self,
        session: &DatabaseSession,
    ) -> anyhow::Result<(usize, usize)> {
        let rows = session.query_raw("SELECT id::text FROM outbox", NO_PARAMETERS).await?;
        let (ids, doubled) = self.delivered_ids().await?;
        let mut rows = pin!(rows);
        let mut missing = 0;
        while let Some(row) = rows.try_next().await? {
            missing += usize::from(!ids.contains(row.get::<_, &str>(0)));
        }
        Ok((missing, doubled))
    }
}
