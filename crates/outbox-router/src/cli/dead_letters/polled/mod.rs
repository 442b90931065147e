//! `dead-letters` with `postgres.source = "polling"`: the abandoned rows of the tables, and those
//! that wait for another attempt. They stay in their own tables, so a decision is a change of
//! a row: whoever polls the table carries it out at its next reading.
//!
//! There is no table of decisions here: its rows name places in WAL. Who has dropped a row is
//! written into the row's own last error, where the table has such a column.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed. `list --json` prints one object:
//! ```json
//! {"name": "…", "source": "polling", "waiting": false, "rows": [{…}], "rows_behind": 2,
//!  "cut": false, "without": ["public.other"],
//!  "failed": [{"table": "public.bad", "code": "P041", "error": "…", "hint": "…"}]}
//! ```
//! where `without` are tables that cannot record such a row, `cut` says that `--limit` left some
//! out, and `failed` are tables that cannot be read. A row, which `list --events --json` and `show
//! --json` print one a line, is
//! ```json
//! {"table": "public.outbox", "id": "…", "primary_key": ["7"], "key": "order-7", "attempts": 5,
//!  "code": "R009", "error": "…", "abandoned_at": "…", "available_at": null, "written_at": "…",
//!  "behind": 2}
//! ```
//! with `state`, `columns` and `hint` more in `show`. `requeue --json` and `drop --json` print one
//! object:
//! ```json
//! {"action": "requeue", "dry_run": false, "selected": 3, "changed": 3, "decided_meanwhile": 0,
//!  "events": [{…}], "left_out": [{"id": "…", "why": "…"}], "by": "…", "reason": null}
//! ```

mod decide;
mod list;
mod row;
mod selection;
mod show;
mod streamed;
mod tables;

use super::{DeadLetters, Decision, Extent};
use crate::{
    cli::{Exit, TaskError, Terminal, connect::Access},
    config::Config,
};

/// Carries the command out.
pub(super) async fn dead_letters(
    command: &DeadLetters,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    match command {
        DeadLetters::List(args) => Box::pin(list::list(args, config, access, terminal)).await,
        DeadLetters::Show(args) => Box::pin(show::show(args, config, access, terminal)).await,
        DeadLetters::Requeue(args) => {
            let done = decide::decide(Decision::Requeue, args, config, access, terminal);
            Box::pin(done).await
        }
        DeadLetters::Drop(args) if args.extent == Extent::Behind => refused(
            "--with-behind",
            "what waits behind such a row is pending in the table, and is delivered once the row \
             is dropped",
            "drop the row alone; rows that must not be delivered are marked by SQL before that",
            terminal,
        ),
        DeadLetters::Drop(args) => {
            let decision = Decision::Drop(Extent::Letters);
            let done = decide::decide(decision, &args.decide, config, access, terminal);
            Box::pin(done).await
        }
        DeadLetters::Adopt(_) => refused(
            "dead-letters adopt",
            "it is about the table of held events, and rows that are polled stay in their own",
            "outbox-router dead-letters list",
            terminal,
        ),
    }
}

fn refused(
    what: &str,
    why: &str,
    instead: &str,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    writeln!(
        terminal.err,
        "error: {what} has no meaning with postgres.source = \"polling\": {why}"
    )?;
    writeln!(terminal.err, "  hint: {instead}")?;
    Ok(Exit::Usage)
}
