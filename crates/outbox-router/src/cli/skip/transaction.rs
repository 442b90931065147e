//! `skip --lsn LSN --transaction`: a person lets the slot pass the one transaction that the server
//! cannot send, as where it holds a row that PostgreSQL stores and cannot print.
//!
//! A temporary copy of the slot shows what it has to send, before the question and after the
//! answer: nothing is changed unless the server fails within this transaction each time. A
//! transaction is sent if its commit record begins at the slot's position or later, which becomes
//! the byte after the beginning of this one's; those before it, which the copy has shown, are
//! passed with it, where a router does not come to deliver them. The rows of all of them are noted
//! in `outbox_router.left_out` before the slot moves: retention keeps them, and
//! `dead-letters requeue --left-out` sends those that can be read. Rows are found by their `xmin`,
//! which is another transaction's where they were written within a savepoint or were updated since;
//! so the gap stays open (P014), for `recover` or `accept`.

use relay::{Code, Lsn, TableName};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};
use tokio_postgres::Client;

use super::SkipArgs;
use crate::{
    cli::{
        Effect, Exit, Form, TaskError, Terminal, accept,
        connect::{Access, denied, with_connection},
        noted_left_out::{MissingNotes, make_left_out},
        republication::{OutboxRows, session},
        shown_bytes,
        witness::Records,
    },
    codes::ADMIN,
    config::Config,
    postgres::quote_table,
    prepare,
    republish::{
        journal::{self, Completeness, Run, Subject},
        left_out::{self, LeftOut},
    },
    shell::{Source, SourceReading, Transactions, Unsendable},
    wording::count,
};

/// How long the slot is waited for: a router that cannot go on holds it for moments.
const FREE_WITHIN: Duration = Duration::from_secs(40);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How many rows are shown one by one.
const SHOWN_MAX: usize = 20;

/// Rows of a table that the transaction has written.
struct OfTable {
    name: TableName,
    oid: u32,
    /// The column of the ids.
    column: Option<String>,
    ids: Vec<String>,
    /// Without an id, or in a table of which no column has it.
    unnamed: i64,
}

/// The command, and its connection.
struct Work<'a> {
    args: &'a SkipArgs,
    config: &'a Config,
    access: Access<'a>,
    source: &'a Source,
    client: &'a Client,
}

/// Looks, shows, asks, and lets the slot pass.
pub(super) async fn skip(
    args: &SkipArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let source = prepare::source(config, access.endpoint("skip")?);
    let done = with_connection(access, "skip", async |client| {
        client.batch_execute(&session()).await?;
        let work = Work { args, config, access, source: &source, client };
        work.carry_out(terminal).await
    });
    Box::pin(done).await
}

impl Work<'_> {
    async fn carry_out(&self, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
        let (unsendable, reading) = match self.look().await? {
            Ok(found) => found,
            Err(why) => return refused(&why, terminal),
        };
        let rows = self.rows(&reading, &unsendable).await?;
        if self.args.decision.form == Form::Text {
            self.show(&unsendable, &rows, terminal)?;
        }
        if self.args.decision.how.effect == Effect::Dry {
            return self.report(&unsendable, &rows, None, terminal);
        }
        let words = ("let the slot pass it", "passed");
        if let Some(refused) = self.args.decision.confirm(self.config, words, terminal)? {
            return Ok(refused);
        }
        if let Err(holder) = journal::lock(self.client, &self.config.name).await? {
            return refused(&holder.to_string(), terminal);
        }
        // Memory may have been short, and a router may have gone on meanwhile.
        let (unsendable, reading) = match self.look().await? {
            Ok(found) => found,
            Err(why) => return refused(&why, terminal),
        };
        let rows = self.rows(&reading, &unsendable).await?;
        journal::make(self.client).await.map_err(denied)?;
        make_left_out(self.client, self.config, self.access, MissingNotes::Refused)
            .await
            .map_err(denied)?;
        // A slot moves at once, whatever becomes of a transaction: the notes are there before.
        let run = self.note(&unsendable, &rows).await?;
        let past = match self.pass(&unsendable, &rows).await {
            Ok(past) => past,
            Err(error) => {
                drop(run.end("failed: the slot was not moved", Completeness::Partial).await);
                return Err(error);
            }
        };
        let outcome = format!("complete: slot {} was moved to {past}", self.config.postgres.slot);
        run.end(&outcome, Completeness::Complete).await.map_err(denied)?;
        self.report(&unsendable, &rows, Some(run.id()), terminal)
    }

    /// Has the witness say that rows were left out, and moves the slot past the transaction.
    async fn pass(&self, unsendable: &Unsendable, rows: &[OfTable]) -> Result<Lsn, TaskError> {
        if rows.iter().any(|of| !of.ids.is_empty())
            && let Some(records) = Records::of(self.config, self.access)?
        {
            let noted = left_out::noted(self.client, &self.config.name).await?;
            records.note_left_out(noted.unwrap_or_default()).await?;
        }
        self.advance(unsendable.commit_at).await
    }

    /// Moves the slot past the transaction, once no process holds it.
    async fn advance(&self, commit_at: Lsn) -> Result<Lsn, TaskError> {
        let past = Lsn::from_u64(commit_at.as_u64().saturating_add(1));
        let (slot, to) = (self.config.postgres.slot.as_str(), past.to_string());
        let advance = "select pg_replication_slot_advance($1::text::name, $2::text::pg_lsn)::text";
        let until = Instant::now() + FREE_WITHIN;
        loop {
            match self.client.query_one(advance, &[&slot, &to]).await.map_err(TaskError::from) {
                Ok(_) => return Ok(past),
                Err(error) if is_in_use(&error) && Instant::now() < until => {
                    sleep(POLL_INTERVAL).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The transaction, where the server cannot send it; else why nothing is to be passed.
    async fn look(&self) -> Result<Result<(Unsendable, SourceReading), String>, TaskError> {
        let lsn = self.args.lsn;
        let (found, reading) = self.source.transactions(lsn).await?;
        Ok(match found {
            Transactions::Unsendable(it) if it.commit_at == lsn => Ok((it, reading)),
            Transactions::Unsendable(Unsendable { commit_at, .. }) => Err(format!(
                "the server cannot send the transaction that commits at {commit_at}, which the \
                 slot comes to before {lsn}; type that position"
            )),
            Transactions::Sendable => Err(format!(
                "the server can send everything that the slot has up to {lsn}; a row at which the \
                 router stands is given up by --id, without --transaction"
            )),
            Transactions::Many => Err(format!(
                "the slot has many transactions to send before {lsn}: let a router deliver them \
                 first (outbox-router run)"
            )),
        })
    }

    /// Finds the rows that are passed, and reads no more of them than their ids.
    async fn rows(
        &self,
        reading: &SourceReading,
        unsendable: &Unsendable,
    ) -> Result<Vec<OfTable>, TaskError> {
        let xids = unsendable.before.iter().chain([&unsendable.xid]);
        let xids: Vec<String> = xids.map(u32::to_string).collect();
        let xids = xids.join(",");
        let mut all = Vec::new();
        for name in accept::outbox_tables(self.config, &reading.catalog) {
            let rows = OutboxRows::describe(self.client, self.config, &name).await?;
            let mut query = rows.all();
            query.and(format!("{}.xmin = any('{{{xids}}}'::xid[])", quote_table(&name)));
            let id = rows.columns.id.as_ref().ok().map(|id| query.column(id));
            let expression = id.map_or_else(|| "''".to_owned(), |id| format!("concat({id})"));
            let (mut ids, mut unnamed) = (Vec::new(), 0);
            for row in self.client.query(&query.aggregate(&expression), &[]).await? {
                match row.try_get::<_, String>(0)? {
                    id if id.is_empty() => unnamed += 1,
                    id => ids.push(id),
                }
            }
            if unnamed > 0 || !ids.is_empty() {
                let column = rows.columns.id.as_ref().ok().map(|id| id.name.clone());
                all.push(OfTable { name, oid: rows.row.oid, column, ids, unnamed });
            }
        }
        Ok(all)
    }

    fn show(
        &self,
        unsendable: &Unsendable,
        rows: &[OfTable],
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let out = &mut terminal.out;
        let Unsendable { commit_at, xid, before, error } = unsendable;
        writeln!(out, "pass the transaction {xid}, which commits at {commit_at}")?;
        if !before.is_empty() {
            let number = i64::try_from(before.len()).unwrap_or(i64::MAX);
            let before = count(number, "transaction");
            writeln!(out, "and {before} before it, which no router has delivered")?;
        }
        writeln!(out, "the server cannot send it: {}", error.message_with_causes())?;
        for OfTable { name, ids, unnamed, .. } in rows {
            let number = i64::try_from(ids.len()).unwrap_or(i64::MAX);
            writeln!(out, "{name}: {}", count(number, "row"))?;
            for id in ids.iter().take(SHOWN_MAX) {
                writeln!(out, "  {}", shown_bytes::id(id.as_bytes()))?;
            }
            if let more @ 1.. = ids.len().saturating_sub(SHOWN_MAX) {
                writeln!(out, "  and {more} more")?;
            }
            if *unnamed > 0 {
                writeln!(out, "  and {} without an id", count(*unnamed, "row"))?;
            }
        }
        writeln!(
            out,
            "\nThe slot sends none of these rows. They are left out: retention keeps them, and\n\
             outbox-router dead-letters requeue --left-out sends those that PostgreSQL can print. \
             Rows that were\nwritten within a savepoint, or updated or deleted since, are not found. \
             Everything else that the\nslot has is sent."
        )?;
        Ok(())
    }

    /// Notes who lets the slot pass which rows.
    async fn note(&self, unsendable: &Unsendable, rows: &[OfTable]) -> Result<Run<'_>, TaskError> {
        self.client.batch_execute("begin").await?;
        let (lsn, slot) = (unsendable.commit_at, self.config.postgres.slot.as_str());
        let ids = |of: &OfTable| (of.name.to_string(), json!(of.ids));
        let named: serde_json::Map<String, Value> = rows.iter().map(ids).collect();
        let xids: Vec<u32> = unsendable.before.iter().chain([&unsendable.xid]).copied().collect();
        let selection = json!({ "transaction": lsn.to_string(), "xids": xids, "left_out": named });
        let selection = selection.to_string();
        let subject =
            Subject { pipeline: &self.config.name, slot, command: "skip", selection: &selection };
        let decider = self.args.decision.decider(self.access.environment);
        let run = Run::begin(self.client, subject, &decider.by, decider.reason).await;
        let run = run.map_err(denied)?;
        let error = unsendable.error.message_with_causes();
        for OfTable { oid, column, ids, .. } in rows {
            let row = |id: &String| LeftOut {
                id: id.clone(),
                column: column.clone(),
                code: Code::ServerError.to_string(),
                error: error.clone(),
            };
            let rows: Vec<LeftOut> = ids.iter().map(row).collect();
            run.note_left_out(*oid, &rows).await.map_err(denied)?;
        }
        self.client.batch_execute("commit").await?;
        Ok(run)
    }

    fn report(
        &self,
        unsendable: &Unsendable,
        rows: &[OfTable],
        run: Option<i64>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        match (self.args.decision.form, run) {
            (Form::Json, _) => {
                let ids = |of: &OfTable| (of.name.to_string(), json!(of.ids));
                let left_out: serde_json::Map<String, Value> = rows.iter().map(ids).collect();
                let document = json!({
                    "action": "skip",
                    "dry_run": self.args.decision.how.effect == Effect::Dry,
                    "lsn": self.args.lsn.to_string(),
                    "transaction": unsendable.xid,
                    "before": unsendable.before.len(),
                    "error": unsendable.error.message_with_causes(),
                    "left_out": left_out,
                    "without_id": rows.iter().map(|of| of.unnamed).sum::<i64>(),
                    "passed": run.is_some(),
                    "run": run,
                });
                writeln!(terminal.out, "{document:#}")?;
            }
            (Form::Text, None) => writeln!(terminal.out, "nothing was passed")?,
            // Without a witness nothing tells the router that the slot was moved.
            (Form::Text, Some(run)) if self.config.kafka.state_topic.is_none() => writeln!(
                terminal.out,
                "passed; this is run {run} of outbox_router.republication\n\
                 without kafka.state_topic no router reports what was passed: the rows above are \
                 named in outbox_router.left_out, and the others of the transaction nowhere\n\
                 next: outbox-router dead-letters requeue --left-out --code P008 {ADMIN}"
            )?,
            (Form::Text, Some(run)) => writeln!(
                terminal.out,
                "passed; this is run {run} of outbox_router.republication\n\
                 the router reports the transaction as a gap (P014) and waits for one of these:\n  \
                 outbox-router accept {ADMIN}\n  \
                 outbox-router recover {ADMIN}\n\
                 the first where each row that matters is named above, the second to look for others\n\
                 (the row that cannot be printed has to be deleted before);\n\
                 then: outbox-router dead-letters requeue --left-out --code P008 {ADMIN}"
            )?,
        }
        Ok(Exit::Done)
    }
}

fn refused(why: &str, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
    writeln!(terminal.err, "error: nothing was passed: {why}")?;
    Ok(Exit::Failure)
}

/// Whether a process holds the slot.
fn is_in_use(error: &TaskError) -> bool {
    matches!(error, TaskError::Failure(failure) if failure.code == Code::SlotInUse)
}
