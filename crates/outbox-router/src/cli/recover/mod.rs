//! `recover`: brings back what a gap has lost, as long as the rows are in the tables. It makes a
//! new slot, compares the rows that the slot's snapshot sees with the records of the topics, sends
//! the missing ones, and closes the gap with the figures; the router then goes on from the slot.
//!
//! Which rows may be missing, transaction ids say ([`relay::delivered::compared`]), and which are
//! delivered, the records in their own topics; times only narrow what is read of the topics.
//!
//! Each run begins anew: while a gap is open no router streams, so nothing of the slot that an
//! interrupted run has made was sent, and it can be made again. What such a run has sent is found
//! in the topics.
//!
//! Read in this order: `recovery` and `work` (the steps), `refusals`, `since`, `table`, `topics`,
//! `own_topics`, `decided` (what is compared with what), `uncompared`, `slot`, `send`, `report`.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed.
//! ```json
//! {"action": "recover", "dry_run": false, "gaps": ["P010@0/16B3748"],
//!  "since": null, "first_transaction": 81552, "compared": true,
//!  "topics": 2, "records": 120000, "records_without_id": 0,
//!  "given_up": [],
//!  "tables": [{"table": "public.outbox", "rows": 5500, "outside": 0, "missing": 5000,
//!              "why_none": null, "decided": 0, "decided_sent": 0,
//!              "elsewhere": 0, "differing": 0, "without_row": 0,
//!              "oldest": "2026-01-24 00:00:00+00",
//!              "outcome": "complete", "failure": null,
//!              "sent": 5000, "filtered": 0, "left_out": 0, "left_out_ids": []}],
//!  "slot_at": "0/2000000", "closed": true, "seconds": 9.5, "refusals": []}
//! ```
//! where `rows` are those of `first_transaction` and later ones, and those that say that they were
//! made since `since`, the time that a person has named or, where the slot is gone, the last one
//! before that, with the margin. `missing` of them are not in their own topic, though `elsewhere`
//! of those are in others; where none is, `why_none` says why. `decided` of the missing ones were
//! held or skipped and are left out, `decided_sent` have such an id and are sent, since nothing
//! says that no other row had it, `without_row` ids of records have no such row any more, and of
//! `outside` rows their times alone say that they are older. `refusals` has the code, message
//! and hint of what a dry run found that a real run refuses, and `given_up` the tables of
//! `--give-up`.
//! Where nothing is open, `gaps` and `tables` are empty, and `closed` is false.
//! `outcome` is `complete`, `interrupted`, `stopped_at_row` or `failed`; null in a dry run.

mod args;
mod decided;
mod own_topics;
mod recovery;
mod refusals;
mod report;
mod seen;
mod send;
mod since;
mod slot;
mod table;
mod topics;
mod uncompared;
mod work;

pub use args::{DroppedSlot, IdTrust, PublicationPart, RecoverArgs, RecoveredRows, WholeTable};
use relay::TableName;
use tokio::time::Instant;

use super::{
    Exit, TaskError, Terminal,
    accept::{self, Facts},
    connect::{Access, with_connection},
    new_slot,
    republication::session,
    witness::{self, Records},
};
use crate::{config::Config, prepare, republish::journal};
use recovery::{COMMAND, Recovery, others_open, print_others};

/// Compares, asks, sends, and closes the gaps.
pub(super) async fn recover(
    args: &RecoverArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let done = Box::pin(carry_out(args, config, access, terminal)).await;
    done.map_err(|error| match error {
        TaskError::Failure(failure) => args.with_typed(*failure).into(),
        output @ TaskError::Output(_) => output,
    })
}

async fn carry_out(
    args: &RecoverArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let Some(records) = Records::of(config, access)? else {
        return Err(accept::keeps_none().into());
    };
    let begun = Instant::now();
    let source = prepare::source(config, access.endpoint(COMMAND)?);
    source.check_replication().await?;
    let done = with_connection(access, COMMAND, async |books| {
        books.batch_execute(&session()).await?;
        // While one works, the slot is held, and what is open cannot be seen.
        if let Err(holder) = journal::lock(books, &config.name).await? {
            writeln!(terminal.err, "error: nothing was changed: {holder}")?;
            return Ok(Exit::Failure);
        }
        if new_slot::end_dead_run(books, &source).await? {
            let slot = &source.slot;
            writeln!(terminal.err, "note: a run that was killed still made slot {slot}: ended")?;
        }
        let facts = accept::read_when_idle(config, &records, &source).await?;
        let gaps = witness::recoverable_gaps(&facts.witness);
        let others = others_open(&facts.witness, &gaps);
        if gaps.is_empty() {
            witness::check_holder(books, config, facts.found()).await?;
            print_others(&others, terminal.err)?;
            if others.is_empty() {
                report::nothing(&facts.acknowledged(), args, terminal.out)?;
            }
            return Ok(if others.is_empty() { Exit::Done } else { Exit::Failure });
        }
        if let Some(pid) = facts.holder() {
            return Err(witness::in_use(&source.slot, pid).into());
        }
        let tables = tables(config, &facts);
        let work = with_connection(access, COMMAND, async |reader| {
            reader.batch_execute(&session()).await?;
            let recovery = Recovery {
                args,
                begun,
                config,
                access,
                records: &records,
                source: &source,
                reader,
                books,
                gaps: &gaps,
                witness: &facts.witness,
                reading: &facts.reading,
                tables: &tables,
            };
            recovery.carry_out(terminal).await
        });
        Box::pin(work).await
    });
    Box::pin(done).await
}

/// The tables of the configuration, else those that are published.
fn tables(config: &Config, facts: &Facts) -> Vec<TableName> {
    if !config.outbox.is_empty() {
        return config.tables().map(|table| table.name.clone()).collect();
    }
    accept::outbox_tables(config, &facts.reading.catalog)
}
