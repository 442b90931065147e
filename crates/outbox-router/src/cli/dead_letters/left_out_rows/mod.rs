//! `dead-letters --left-out`: the rows that `recover --skip-bad` or a back-fill has left out of
//! what it sent, since they could not become a record, in `outbox_router.left_out`. They are in no
//! topic and no stream, so nothing but a person settles them: `requeue` reads them from their table
//! and sends them, `drop` gives them up. Both settle the entry, by which retention keeps the row,
//! and leave a line in `outbox_router.republication`; `drop` deletes the entry.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed. `list --left-out --json` prints one object:
//! ```json
//! {"name": "…", "left_out": [{"table": "public.outbox", "id": "…", "rows": 1, "code": "R001",
//!  "error": "…", "left_out_at": "…", "run": 7}]}
//! ```
//! where `rows` counts those that were left out with this id, and `table` is null where there is no
//! such table any more. `requeue` and `drop` print one
//! object:
//! ```json
//! {"action": "requeue", "dry_run": false, "selected": 2, "changed": 1, "filtered": 0,
//!  "unknown_ids": [],
//!  "rows": [{…, "outcome": "sent"}, {…, "outcome": "left_out"}], "runs": [8], "failure": null}
//! ```
//! with the members of the list in each row; `filtered` counts rows that stay left out since
//! `where` filters them (P035). `outcome` is `sent`, `dropped`, `left_out` (again: `code` and
//! `error` say why), `held`, `without_row`, `without_id` (another column has the ids now, or none),
//! and null where nothing became of it.

mod decide;
mod list;
mod requeue;
mod rows;
mod work;

use super::{DeadLetters, Decision, Extent};
use crate::{
    cli::{Exit, TaskError, Terminal, connect::Access},
    config::{Config, SourceKind},
};

/// Carries the command out.
pub(super) async fn dead_letters(
    command: &DeadLetters,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if config.postgres.source == SourceKind::Polling {
        writeln!(
            terminal.err,
            "error: --left-out has no meaning with postgres.source = \"polling\": such rows are \
             pending in the table\n  hint: outbox-router dead-letters list"
        )?;
        return Ok(Exit::Usage);
    }
    match command {
        DeadLetters::List(args) => list::list(args, config, access, terminal).await,
        DeadLetters::Requeue(args) => {
            decide::decide(Decision::Requeue, args, config, access, terminal).await
        }
        DeadLetters::Drop(args) => {
            let decision = Decision::Drop(Extent::Letters);
            decide::decide(decision, &args.decide, config, access, terminal).await
        }
        // They have no such flag.
        DeadLetters::Show(_) | DeadLetters::Adopt(_) => Ok(Exit::Usage),
    }
}
