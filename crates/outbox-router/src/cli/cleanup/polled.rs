//! `cleanup` with `postgres.source = "polling"`: one sweep by the tables' own marks. It needs no
//! proof, since a row says itself whether it is published.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed.
//! ```json
//! {"mode": "delete", "source": "polling", "dry_run": false,
//!  "tables": [{"table": "public.outbox", "removed": 1200, "abandoned_removed": 0,
//!    "removable": null, "abandoned_removable": null, "error": null}]}
//! ```
//! where `removable` are the rows that could be removed, up to a million; null where they were not
//! counted, since nobody was to be asked. Abandoned rows are never removed, so `abandoned_removed`
//! and `abandoned_removable` are 0.

use relay::{Failure, TableName, polling::TableIndex};
use serde_json::{Value, json};

use super::args::{CleanupArgs, Older};
use crate::{
    cli::{
        Confirmation, Exit, Form, TaskError, Terminal, connect, decision_args::Effect,
        print_failure,
    },
    config::{Config, print_duration},
    polling::retention::Sweeper,
    shell::Endpoint,
};

/// What was done with a table.
struct Cleaned {
    index: TableIndex,
    name: TableName,
    /// What could leave; `None` where it was not counted.
    removable: Option<u64>,
    removed: u64,
    failure: Option<Failure>,
}

/// Counts, asks, removes, and reports.
pub(super) async fn cleanup(
    args: &CleanupArgs,
    config: &Config,
    mut sweeper: Sweeper<Endpoint>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if args.older == Older::GivenUp {
        let what = "error: nothing was removed: --older is for tables that are streamed; a row that is \
                    polled says itself whether it is published\n  hint: give rows up that are not: \
                    outbox-router dead-letters drop";
        writeln!(terminal.err, "{what}")?;
        return Ok(Exit::Usage);
    }
    let asks = args.effect == Effect::Dry || args.confirmation != Confirmation::Yes;
    let mut tables = Vec::new();
    for (index, name) in sweeper.tables() {
        let counted = if asks { sweeper.count(index).await.map(Some) } else { Ok(None) };
        let (removable, failure) = match counted {
            Ok(counted) => (counted, None),
            Err(failure) => (None, Some(connect::denied(failure))),
        };
        tables.push(Cleaned { index, name, removable, removed: 0, failure });
    }
    let keeps = format!(
        "published rows are kept {}; all others until they are published, or a person drops them",
        print_duration(config.retention.keep)
    );
    if asks && args.form == Form::Text {
        for Cleaned { name, removable, .. } in &tables {
            match removable {
                Some(rows) => {
                    writeln!(terminal.out, "{name}: {rows} published rows to delete")?;
                }
                None => writeln!(terminal.out, "{name}: left out, see below")?,
            }
        }
        writeln!(terminal.out, "{keeps}")?;
    }
    if args.effect == Effect::Real {
        let wanted = ("remove these rows", "removed");
        if let Some(refused) = args.confirmation.ask(args.form, config, wanted, terminal)? {
            return Ok(refused);
        }
        for table in tables.iter_mut().filter(|table| table.failure.is_none()) {
            let swept = sweeper.sweep(table.index, |left| table.removed += left).await;
            table.failure = swept.err().map(connect::denied);
        }
    }
    match (args.form, args.effect) {
        (Form::Json, _) => writeln!(terminal.out, "{:#}", document(&tables, args.effect))?,
        (Form::Text, Effect::Dry) => writeln!(terminal.out, "nothing was removed")?,
        (Form::Text, Effect::Real) => {
            for Cleaned { name, removed, .. } in &tables {
                writeln!(terminal.out, "{name}: {removed} published rows deleted")?;
            }
        }
    }
    let mut exit = Exit::Done;
    for failure in tables.iter().filter_map(|table| table.failure.as_ref()) {
        print_failure::print_failure(terminal.err, failure)?;
        exit = Exit::Failure;
    }
    Ok(exit)
}

fn document(tables: &[Cleaned], effect: Effect) -> Value {
    let tables = tables.iter().map(|table| {
        json!({
            "table": table.name.to_string(),
            "removed": table.removed,
            "abandoned_removed": 0,
            "removable": table.removable,
            "abandoned_removable": table.removable.map(|_| 0),
            "error": table.failure.as_ref().map(Failure::message_with_causes),
        })
    });
    json!({
        "mode": "delete",
        "source": "polling",
        "dry_run": effect == Effect::Dry,
        "tables": tables.collect::<Vec<_>>(),
    })
}
