//! `cleanup` with `postgres.source = "polling"`: one sweep by the tables' own marks. It needs no
//! proof, since a row says itself whether it is published.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed.
//! ```json
//! {"mode": "delete", "source": "polling", "dry_run": false,
//!  "tables": [{"table": "public.outbox", "removed": 1200, "abandoned_removed": 3,
//!    "removable": null, "abandoned_removable": null, "error": null}]}
//! ```
//! where `removable` are the rows that could be removed, up to a million; null where they were not
//! counted, since nobody was to be asked.

use relay::{Failure, TableName, polling::TableIndex};
use serde_json::{Value, json};

use super::args::CleanupArgs;
use crate::{
    cli::{
        Confirmation, Exit, Form, TaskError, Terminal, connect, decision_args::Effect,
        print_failure,
    },
    config::{Config, print_duration},
    polling::retention::{Left, Sweeper},
    shell::Endpoint,
};

/// What was done with a table.
struct Cleaned {
    index: TableIndex,
    name: TableName,
    /// What could leave; `None` where it was not counted.
    removable: Option<Left>,
    removed: Left,
    failure: Option<Failure>,
}

/// Counts, asks, removes, and reports.
pub(super) async fn cleanup(
    args: &CleanupArgs,
    config: &Config,
    mut sweeper: Sweeper<Endpoint>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let asks = args.effect == Effect::Dry || args.confirmation != Confirmation::Yes;
    let mut tables = Vec::new();
    for (index, name) in sweeper.tables() {
        let counted = if asks { sweeper.count(index).await.map(Some) } else { Ok(None) };
        let (removable, failure) = match counted {
            Ok(counted) => (counted, None),
            Err(failure) => (None, Some(connect::denied(failure))),
        };
        tables.push(Cleaned { index, name, removable, removed: Left::default(), failure });
    }
    let keeps = format!(
        "published rows are kept {}, abandoned ones {}; pending ones always",
        print_duration(config.retention.keep),
        print_duration(config.retention.abandoned_keep)
    );
    if asks && args.form == Form::Text {
        for Cleaned { name, removable, .. } in &tables {
            match removable {
                Some(Left { published, abandoned }) => writeln!(
                    terminal.out,
                    "{name}: {published} published rows to delete, {abandoned} abandoned"
                )?,
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
            let swept = sweeper.sweep(table.index, |left| table.removed.add(left)).await;
            table.failure = swept.err().map(connect::denied);
        }
    }
    match (args.form, args.effect) {
        (Form::Json, _) => writeln!(terminal.out, "{:#}", document(&tables, args.effect))?,
        (Form::Text, Effect::Dry) => writeln!(terminal.out, "nothing was removed")?,
        (Form::Text, Effect::Real) => {
            for Cleaned { name, removed: Left { published, abandoned }, .. } in &tables {
                writeln!(
                    terminal.out,
                    "{name}: {published} published rows deleted, {abandoned} abandoned"
                )?;
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
            "removed": table.removed.published,
            "abandoned_removed": table.removed.abandoned,
            "removable": table.removable.map(|left| left.published),
            "abandoned_removable": table.removable.map(|left| left.abandoned),
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
