//! `dead-letters`: what waits in the table of held events, and what a person decides about it. It
//! is SQL alone, so it works whether or not a router runs: a router that runs carries out what was
//! decided within about a second, any other at its start.
//!
//! Only *dead letters* are decided about, the events that could not be delivered. Those that are
//! held behind one leave by themselves, unless they are dropped with it. And only the router
//! closes a row: a decision is a change of `held.state`, beside a row in `outbox_router.decision`
//! that says who decided what, when and why.
//!
//! Rows of several tables may have the same id: `--table` says whose is meant, and without it
//! nothing is decided about them.
//!
//! With `--left-out` it is about the rows that a command has left out of what it sent
//! ([`left_out_rows`]), which are no events of a stream.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed. A key is a string, or `{"hex": "…"}` where it
//! is no UTF-8; times are UTC; `at` is the place of the event in WAL, `LSN:INDEX`, which `--id`
//! takes.
//!
//! `list --json` prints one object:
//! ```json
//! {"name": "…", "slot": "…", "keys": [{"key": "order-7", "dead_letters": 1, "undecided": 1,
//!   "behind": 2, "oldest": "…", "code": "R003", "id": "…", "at": "0/16B3748:0",
//!   "hint": "outbox-router dead-letters show --id …"}],
//!  "keys_held": 1, "dead_letters": 1, "undecided": 1, "behind": 2,
//!  "not_carried_out": {"events": 0, "since": null},
//!  "other_pipelines": [{"name": "…", "slot": "…", "events": 1, "keys": 1, "hint": "…"}]}
//! ```
//! where `not_carried_out` counts what nothing keeps from leaving any more, since the first
//! decision about it, and `other_pipelines` have open events in the same table; `hint` is null
//! where no configuration could have such a name.
//! `list --events --json` prints an object a line:
//! ```json
//! {"at": "0/16B3748:0", "id": "…", "table": "public.outbox", "key": "order-7",
//!  "committed_at": "…", "code": "R003", "state": "held"}
//! ```
//! where `code` is null for an event that is held behind a dead letter. `show --json` prints such
//! an object a line with these members more:
//! ```json
//! {"error": "…", "held_at": "…", "decided_at": null, "closed_at": null, "behind": 2,
//!  "waits_for": null, "columns": [{"name": "id", "value": "…"}], "columns_error": null,
//!  "decisions": [{"at": "…", "action": "requeue", "by": "…", "reason": null}], "hint": "…"}
//! ```
//! where `columns` is null for a row that did not arrive whole or cannot be read. `requeue --json`
//! and `drop --json` print one object:
//! ```json
//! {"action": "requeue", "dry_run": false, "selected": 3, "changed": 1, "decided_meanwhile": 1,
//!  "behind": 2, "letters_behind": 0, "with_behind": false, "changed_behind": 0,
//!  "events": [{…}], "refused": [{…, "why": "…"}], "left_out": [{…, "decision": "…"}]}
//! ```
//! where `events` are the selected ones to change, `refused` those that cannot be requeued, and
//! `left_out` what was named, or selected where nothing is to be changed, and is no undecided dead
//! letter: with the last decision about it, or only `id`, and `state` null, where there is no such
//! event.
//! `letters_behind` are dead letters behind the selected ones that are not selected themselves;
//! with `drop --with-behind`, `changed_behind` counts what was dropped besides the selected ones.
//! `adopt --json` prints one object:
//! ```json
//! {"adopted": true, "from": "7300000000000000000", "open": 5, "keys": 3, "closed": 2}
//! ```

mod adopt;
mod ambiguous;
mod args;
mod behind;
pub(super) mod columns;
mod connected;
mod decide;
mod decision;
mod keys;
mod left_out;
mod left_out_rows;
mod list;
mod of_event;
mod polled;
mod relation_oid;
mod selection;
mod show;
mod table;
mod wording;
mod write;

pub use args::{
    AdoptArgs, DeadLetters, DecideArgs, DropArgs, EventRef, Extent, HexKey, Lines, ListArgs,
    NamedArgs, Place, Rows, Scope, SelectArgs, ShowArgs, Since, Which,
};

pub(super) use of_event::{DecidedBy, HeldEvent, HeldState, of_event};

use super::{Exit, TaskError, Terminal, connect::Access, one_table::one_table};
use crate::config::{Config, SourceKind};
use connected::with_table;
use decision::Decision;
use table::Table;

/// Carries the command out.
pub(super) async fn dead_letters(
    command: &DeadLetters,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if let Some(Err(message)) = command.table().map(|name| one_table(Some(name), config)) {
        writeln!(terminal.err, "error: {message}")?;
        return Ok(Exit::Usage);
    }
    if command.which() == Which::LeftOut {
        return Box::pin(left_out_rows::dead_letters(command, config, access, terminal)).await;
    }
    if config.postgres.source == SourceKind::Polling {
        return polled::dead_letters(command, config, access, terminal).await;
    }
    match command {
        DeadLetters::List(ListArgs { rows: Rows::Waiting, .. })
        | DeadLetters::List(ListArgs { limit: Some(_), .. }) => {
            writeln!(
                terminal.err,
                "error: --waiting and --limit have no meaning with postgres.source = \"stream\""
            )?;
            Ok(Exit::Usage)
        }
        DeadLetters::List(args) => {
            with_table(config, access, async |table| {
                list::list(args, config, table, terminal).await
            })
            .await
        }
        DeadLetters::Show(args) => {
            with_table(config, access, async |table| show::show(args, table, terminal).await).await
        }
        DeadLetters::Requeue(args) => {
            Box::pin(decide::decide(Decision::Requeue, args, config, access, terminal)).await
        }
        DeadLetters::Adopt(args) => {
            let adopt = async |table: &Table<'_>| adopt::adopt(args, config, table, terminal).await;
            with_table(config, access, adopt).await
        }
        DeadLetters::Drop(args) => {
            let decision = Decision::Drop(args.extent);
            Box::pin(decide::decide(decision, &args.decide, config, access, terminal)).await
        }
    }
}
