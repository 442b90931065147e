//! `recover`: brings back what a gap has lost, as long as the rows are in the tables. It makes a
//! new slot, compares the rows that the slot's snapshot sees with the records of the topics, sends
//! the missing ones, and closes the gap with the figures; the router then goes on from the slot.
//!
//! Each run begins anew: while a gap is open no router streams, so nothing of the slot that an
//! interrupted run has made was sent, and it can be made again. What such a run has sent is found
//! in the topics.
//!
//! Read in this order: `recovery` and `work` (the steps), `refusals`, `since`, `table`, `topics`
//! (what is compared with what), `slot`, `send`, `report`.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed.
//! ```json
//! {"action": "recover", "dry_run": false, "gaps": ["P010@0/16B3748"],
//!  "since": "2026-01-31 09:00:00+00", "compared": true,
//!  "topics": 2, "records": 120000, "records_without_id": 0,
//!  "tables": [{"table": "public.outbox", "rows": 125000, "missing": 5000, "decided": 0,
//!              "without_row": 0, "oldest": "2026-01-24 00:00:00+00",
//!              "outcome": "complete", "failure": null,
//!              "sent": 5000, "filtered": 0, "left_out": 0, "left_out_ids": []}],
//!  "slot_at": "0/2000000", "closed": true, "seconds": 9.5, "refusals": []}
//! ```
//! where `rows` were made since `since`, `missing` of them are in no topic, `decided` of those were
//! held or skipped and are left out, and `without_row` ids of records have no such row any more.
//! `refusals` has the code, message and hint of what a dry run found that a real run refuses. Where
//! nothing is open, `gaps` and `tables` are empty, and `closed` is false.
//! `outcome` is `complete`, `interrupted`, `stopped_at_row` or `failed`; null in a dry run.

mod args;
mod recovery;
mod refusals;
mod report;
mod send;
mod since;
mod slot;
mod table;
mod topics;
mod work;

pub use args::{DroppedSlot, IdTrust, PublicationPart, RecoverArgs, RecoveredRows, WholeTable};
use relay::TableName;
use tokio::time::Instant;

use super::{
    Exit, TaskError, Terminal,
    accept::{self, Facts},
    connect::{Access, with_connection},
    republication::SESSION,
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
    let Some(records) = Records::of(config, access)? else {
        return Err(accept::keeps_none().into());
    };
    let begun = Instant::now();
    let source = prepare::source(config, access.endpoint(COMMAND)?);
    let done = with_connection(access, COMMAND, async |books| {
        books.batch_execute(SESSION).await?;
        // While one works, the slot is held, and what is open cannot be seen.
        if let Err(holder) = journal::lock(books, &config.name).await? {
            writeln!(terminal.err, "error: nothing was changed: {holder}")?;
            return Ok(Exit::Failure);
        }
        let facts = accept::read_when_idle(config, &records, &source).await?;
        let gaps = witness::recoverable_gaps(&facts.witness);
        let others = others_open(&facts.witness, &gaps);
        if gaps.is_empty() {
            print_others(&others, terminal.err)?;
            if others.is_empty() {
                report::nothing(&facts.witness, args, terminal.out)?;
            }
            return Ok(if others.is_empty() { Exit::Done } else { Exit::Failure });
        }
        if let Some(pid) = facts.holder() {
            return Err(witness::in_use(&source.slot, pid).into());
        }
        let tables = tables(config, &facts);
        let work = with_connection(access, COMMAND, async |reader| {
            reader.batch_execute(SESSION).await?;
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
