//! One writer: a connection, a random generator, and a journal. It reconnects when its server
//! restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::{Client, Statement};

use super::Load;
use super::journal::Journal;
use super::mix::TransactionKind;
use super::random_choices::RandomChoices;
use super::schema::Schema;
use super::transaction::{
    Attempt, CommitState, Draft, NumberedRow, copy, delete, insert, note, number,
};
use crate::postgres::DatabaseSession;
use crate::wait::until_ok;

const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
const SETTLE_DEADLINE: Duration = Duration::from_secs(60);

pub(super) struct Writer {
    index: usize,
    url: String,
    schema: Schema,
    load: Load,
    random: RandomChoices,
    journal: Journal,
    committed: Arc<AtomicU64>,
    prepared: u64,
}

impl Writer {
    pub(super) fn new(
        index: usize,
        url: String,
        schema: Schema,
        load: Load,
        committed: Arc<AtomicU64>,
    ) -> Self {
        let offset = u64::try_from(index).unwrap_or(u64::MAX);
        Self {
            index,
            url,
            random: RandomChoices::new(
                load.seed.wrapping_mul(1_000_003).wrapping_add(offset),
                load.payload,
                &schema,
            ),
            schema,
            load,
            journal: Journal::default(),
            committed,
            prepared: 0,
        }
    }

    /// Writes until stopped (the channel is closed) or until enough is committed.
    pub(super) async fn run(mut self, stopped: watch::Receiver<()>) -> anyhow::Result<Journal> {
        let mut open: Option<(DatabaseSession, Statement)> = None;
        let started = Instant::now();
        while stopped.has_changed().is_ok() && !self.enough() {
            match &open {
                Some((session, single)) if !session.is_closed() => {
                    self.one_transaction(session, single).await?;
                    self.wait_for_rate(started).await;
                }
                Some(_) | None => {
                    open = self.connect().await.ok();
                    if open.is_none() {
                        sleep(RECONNECT_PAUSE).await;
                    }
                }
            }
        }
        if open.is_none_or(|(session, _)| session.is_closed()) {
            until_ok(SETTLE_DEADLINE, "a server to settle prepared transactions on", || {
                self.connect()
            })
            .await?;
        }
        Ok(self.journal)
    }

    /// Waits until the rate allows what all writers have committed since this one has started.
    async fn wait_for_rate(&self, started: Instant) {
        if let Some(rate) = self.load.events_per_second {
            let committed = self.committed.load(Ordering::Relaxed);
            let millis = committed.saturating_mul(1000).checked_div(u64::from(rate));
            sleep_until(started + Duration::from_millis(millis.unwrap_or_default())).await;
        }
    }

    fn enough(&self) -> bool {
        let committed = self.committed.load(Ordering::Relaxed);
        self.load.events.is_some_and(|wanted| committed >= wanted)
    }

    /// Opens a session. What an earlier session left prepared is rolled back first, because it
    /// holds locks.
    async fn connect(&self) -> anyhow::Result<(DatabaseSession, Statement)> {
        let session = DatabaseSession::open(&self.url).await?;
        let left = session
            .query(
                "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE $1 AND database = current_database()",
                &[&format!("testbed-{}-%", self.index)],
            )
            .await?;
        for row in left {
            let gid: &str = row.get(0);
            session.batch_execute(&format!("ROLLBACK PREPARED '{gid}'")).await?;
        }
        let single = session.prepare(&self.single_sql()).await?;
        Ok((session, single))
    }

    async fn one_transaction(&mut self, client: &Client, single: &Statement) -> anyhow::Result<()> {
        let mut attempt = Attempt::default();
        let outcome = self.attempt(client, single, &mut attempt).await;
        self.journal.rolled_back.append(&mut attempt.rolled_back);
        if outcome.is_ok() {
            let count = u64::try_from(attempt.written.len())?;
            self.journal.committed += count;
            self.committed.fetch_add(count, Ordering::Relaxed);
            return Ok(());
        }
        if attempt.commit == CommitState::NotSent {
            self.journal.rolled_back.append(&mut attempt.written);
        }
        self.journal.failures += 1;
        // If the connection is gone, the server rolls back by itself, and the next attempt
        // reconnects.
        drop(client.batch_execute("ROLLBACK").await);
        sleep(RECONNECT_PAUSE).await;
        Ok(())
    }

    async fn attempt(
        &mut self,
        client: &Client,
        single: &Statement,
        attempt: &mut Attempt,
    ) -> anyhow::Result<()> {
        let kind = self.random.kind(&self.load.mix);
        if kind == TransactionKind::Single {
            return self.single(client, single, attempt).await;
        }
        client.batch_execute("BEGIN").await?;
        self.think().await;
        let drafts = self.random.drafts(kind);
        self.write(client, kind, &drafts, attempt).await?;
        self.think().await;
        match kind {
            TransactionKind::Rollback => {
                attempt.roll_back_to(0);
                client.batch_execute("ROLLBACK").await?;
            }
            TransactionKind::Prepared => self.prepare_and_end(client, attempt).await?,
            TransactionKind::Single
            | TransactionKind::Several
            | TransactionKind::MultiRow
            | TransactionKind::Copy
            | TransactionKind::Savepoint
            | TransactionKind::Upsert
            | TransactionKind::InsertDelete => {
                attempt.commit = CommitState::Sent;
                client.batch_execute("COMMIT").await?;
            }
        }
        Ok(())
    }

    async fn write(
        &mut self,
        client: &Client,
        kind: TransactionKind,
        drafts: &[Draft],
        attempt: &mut Attempt,
    ) -> anyhow::Result<()> {
        attempt.written.extend(drafts.iter().map(|draft| draft.id));
        let rows = number(client, drafts).await?;
        let schema = self.schema.clone();
        match kind {
            TransactionKind::Several | TransactionKind::Savepoint => {
                for row in rows.chunks(1) {
                    insert(client, &schema, row, "").await?;
                    self.think().await;
                }
            }
            TransactionKind::Copy => copy(client, &schema, &rows).await?,
            TransactionKind::Upsert => {
                insert(client, &schema, &rows, "ON CONFLICT (id) DO NOTHING").await?;
            }
            TransactionKind::Single
            | TransactionKind::MultiRow
            | TransactionKind::Rollback
            | TransactionKind::InsertDelete
            | TransactionKind::Prepared => insert(client, &schema, &rows, "").await?,
        }
        note(client, &schema, &rows).await?;
        match kind {
            TransactionKind::Savepoint => self.savepoint(client, drafts, attempt).await?,
            TransactionKind::Upsert => {
                let again: Vec<NumberedRow> = rows.iter().map(NumberedRow::rewritten).collect();
                insert(client, &schema, &again, "ON CONFLICT (id) DO NOTHING").await?;
                let update = "ON CONFLICT (id) DO UPDATE SET payload = EXCLUDED.payload";
                insert(client, &schema, &again, update).await?;
            }
            TransactionKind::InsertDelete => delete(client, &schema, &rows).await?,
            TransactionKind::Single
            | TransactionKind::Several
            | TransactionKind::MultiRow
            | TransactionKind::Copy
            | TransactionKind::Rollback
            | TransactionKind::Prepared => {}
        }
        Ok(())
    }

    /// Events that are rolled back to a savepoint, then as many that stay, of the aggregates that
    /// are locked already.
    async fn savepoint(
        &mut self,
        client: &Client,
        drafts: &[Draft],
        attempt: &mut Attempt,
    ) -> anyhow::Result<()> {
        let kept = attempt.written.len();
        client.batch_execute("SAVEPOINT s").await?;
        for ending in ["ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s"] {
            let more: Vec<Draft> =
                drafts.iter().map(|draft| self.random.draft(draft.aggregate)).collect();
            attempt.written.extend(more.iter().map(|draft| draft.id));
            let rows = number(client, &more).await?;
            insert(client, &self.schema, &rows, "").await?;
            note(client, &self.schema, &rows).await?;
            self.think().await;
            client.batch_execute(ending).await?;
            if ending.starts_with("ROLLBACK") {
                attempt.roll_back_to(kept);
            }
        }
        Ok(())
    }

    async fn prepare_and_end(
        &mut self,
        client: &Client,
        attempt: &mut Attempt,
    ) -> anyhow::Result<()> {
        self.prepared += 1;
        let gid = format!("testbed-{}-{}", self.index, self.prepared);
        attempt.commit = CommitState::Sent;
        client.batch_execute(&format!("PREPARE TRANSACTION '{gid}'")).await?;
        self.think().await;
        if self.random.one_in(5) {
            client.batch_execute(&format!("ROLLBACK PREPARED '{gid}'")).await?;
            attempt.roll_back_to(0);
        } else {
            client.batch_execute(&format!("COMMIT PREPARED '{gid}'")).await?;
        }
        Ok(())
    }

    async fn think(&mut self) {
        if !self.load.think.is_zero() {
            sleep(self.random.part_of(self.load.think)).await;
        }
    }

    /// One event in one statement: numbered, written and noted as committed.
    async fn single(
        &mut self,
        client: &Client,
        statement: &Statement,
        attempt: &mut Attempt,
    ) -> anyhow::Result<()> {
        let aggregate = self.random.aggregate();
        let draft = self.random.draft(aggregate);
        attempt.written.push(draft.id);
        attempt.commit = CommitState::Sent;
        let id = draft.id.to_string();
        let (event, payload, headers) = (draft.event_type, draft.payload, draft.headers);
        let written =
            client.execute(statement, &[&aggregate, &id, &event, &payload, &headers]).await?;
        ensure!(written == 1, "one event had to be written, and {written} were");
        Ok(())
    }

    fn single_sql(&self) -> String {
        let schema = &self.schema;
        // Parameter 5 is named in either case, so that the statement has it for every preset.
        let headers = if schema.columns().headers.is_some() { ", r.h::jsonb" } else { "" };
        format!(
            "WITH a AS (UPDATE testbed.aggregate SET seq = seq + 1 WHERE n = $1 \
                 RETURNING type, id, seq), \
             o AS ({} SELECT r.i::uuid, a.type, a.id, r.e, \
                 r.p::jsonb || jsonb_build_object('seq', a.seq){headers} \
                 FROM a, (VALUES ($2::text, $3::text, $4::text, $5::text)) r(i, e, p, h) \
                 RETURNING *) \
             {} SELECT {}, a.seq FROM a, o",
            schema.insert_into(),
            Schema::insert_into_committed(),
            schema.committed_expressions(),
        )
    }
}
