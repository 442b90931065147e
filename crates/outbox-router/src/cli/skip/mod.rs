//! `skip`: a person gives up the one row at which the router stands. It is a row of
//! `outbox_router.decision`; a router that stands at a row asks every few seconds whether there is
//! one for it, and leaves out this row alone. So the command needs no router, and may be repeated.
//!
//! A decision names the transaction and the id, since nothing outside of the stream knows the
//! number of a row within its transaction. Of several rows of a transaction with the same id, or
//! without any, it concerns each at which the router stands.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed; times are UTC.
//! ```json
//! {"action": "skip", "dry_run": false, "lsn": "0/16B3748", "id": "e-101", "written": true,
//!  "router": {"stands_there": true, "says": "R009: …"}, "decided_before": null}
//! ```
//! With `--transaction` (the module `transaction`):
//! ```json
//! {"action": "skip", "dry_run": false, "lsn": "0/16B3748", "transaction": 745, "before": 0,
//!  "error": "…", "left_out": {"public.outbox": ["e-101"]}, "without_id": 0, "passed": true,
//!  "run": 7}
//! ```
//! Else `router.says` is null where no router of this slot answers, and `decided_before` is
//! `{"at": "…", "by": "…", "reason": null}` where the same was decided before.

mod args;
mod decisions;
mod standing;
mod transaction;

use std::io;

pub use args::{GivenUp, SkipArgs};
use relay::TableName;
use serde_json::{Value, json};

use super::{
    Exit, Form, TaskError, Terminal,
    connect::{Access, with_connection},
    decision_args::Effect,
    router_status, shown_bytes, sql,
};
use crate::config::Config;
use decisions::{Decided, Place, Written};
pub(super) use decisions::{names_rows, of_event};
use standing::Standing;

const CONSEQUENCE: &str = "\
The row is never delivered. The later rows of its key go on, and nothing else is left out. If the
event is needed, insert a corrected row under a new id.";

/// How it ended.
enum Ending {
    /// Nothing was changed, as was asked for.
    Dry,
    /// The decision is in the table.
    Written,
    /// The same was decided before.
    Before(Decided),
}

/// The only table that is configured.
fn of_one_table(config: &Config) -> Option<&TableName> {
    let mut tables = config.tables();
    let only = tables.next()?;
    tables.next().is_none().then_some(&only.name)
}

/// Shows, asks, decides, and reports.
pub(super) async fn skip(
    args: &SkipArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if args.given_up == GivenUp::Transaction {
        return Box::pin(transaction::skip(args, config, access, terminal)).await;
    }
    let Some(table) = args.table.as_ref().or(of_one_table(config)) else {
        writeln!(
            terminal.err,
            "error: --table SCHEMA.TABLE is missing: rows of two tables may have one id in one \
             transaction, and not one table alone is configured"
        )?;
        return Ok(Exit::Usage);
    };
    let place = Place {
        pipeline: config.name.as_str(),
        slot: config.postgres.slot.as_str(),
        commit_lsn: args.lsn,
        event_id: args.id.as_deref(),
        table,
    };
    let before = with_connection(access, "skip", async |client| {
        client.batch_execute(sql::TIMEOUTS).await?;
        decisions::read(client, place).await
    });
    let (router, before) = tokio::join!(router_status::read(config), Box::pin(before));
    let standing = Standing::of(router.as_ref(), args.lsn, args.id.as_deref());
    if let Some(decided) = before? {
        return report(args, &standing, &Ending::Before(decided), terminal);
    }
    if let Standing::Useless(useless) = &standing {
        let (why, hint) = (useless.why(&row(args), args.lsn), useless.hint());
        writeln!(terminal.err, "error: nothing was decided: {why}\n  hint: {hint}")?;
        return Ok(Exit::Failure);
    }
    if args.decision.form == Form::Text {
        show(args, &standing, terminal.out)?;
    }
    if args.decision.how.effect == Effect::Dry {
        return report(args, &standing, &Ending::Dry, terminal);
    }
    if let Some(refused) = args.decision.confirm(config, ("skip it", "decided"), terminal)? {
        return Ok(refused);
    }
    let decider = args.decision.decider(access.environment);
    let written = with_connection(access, "skip", async |client| {
        client.batch_execute(sql::TIMEOUTS).await?;
        decisions::write(client, place, &decider).await
    });
    let ending = match Box::pin(written).await? {
        Written::Now => Ending::Written,
        Written::Before(decided) => Ending::Before(decided),
    };
    report(args, &standing, &ending, terminal)
}

fn show(args: &SkipArgs, standing: &Standing, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    writeln!(out, "skip {} of the transaction that commits at {}", row(args), args.lsn)?;
    writeln!(out, "{}\n", standing.text(&row(args), args.lsn))?;
    writeln!(out, "{CONSEQUENCE}")
}

fn row(args: &SkipArgs) -> String {
    match &args.id {
        Some(id) => format!("the row with id {}", shown_bytes::id(id.as_bytes())),
        None => "the row without an id".to_owned(),
    }
}

fn report(
    args: &SkipArgs,
    standing: &Standing,
    ending: &Ending,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    match args.decision.form {
        Form::Text => report_text(args, standing, ending, terminal.out)?,
        Form::Json => writeln!(terminal.out, "{:#}", document(args, standing, ending))?,
    }
    Ok(Exit::Done)
}

fn report_text(
    args: &SkipArgs,
    standing: &Standing,
    ending: &Ending,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    match ending {
        Ending::Dry => writeln!(out, "nothing was decided"),
        Ending::Written => match standing {
            Standing::There(_) => {
                writeln!(out, "decided: the router skips {} within seconds", row(args))
            }
            Standing::Useless(_) | Standing::Elsewhere(_) | Standing::Unknown => {
                writeln!(out, "recorded: the router skips {} when it stands there", row(args))?;
                writeln!(
                    out,
                    "to withdraw it before that: delete from outbox_router.decision \
                     where action = 'skip' and commit_lsn = '{}';",
                    args.lsn
                )
            }
        },
        Ending::Before(Decided { at, by, reason }) => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            writeln!(
                out,
                "{} at {} is skipped already, by {by} at {at}{reason}\nnothing was changed",
                row(args),
                args.lsn
            )
        }
    }
}

fn document(args: &SkipArgs, standing: &Standing, ending: &Ending) -> Value {
    let before = match ending {
        Ending::Before(Decided { at, by, reason }) => {
            Some(json!({ "at": at, "by": by, "reason": reason }))
        }
        Ending::Dry | Ending::Written => None,
    };
    json!({
        "action": "skip",
        "dry_run": args.decision.how.effect == Effect::Dry,
        "lsn": args.lsn.to_string(),
        "id": args.id,
        "router": standing.json(),
        "written": matches!(ending, Ending::Written),
        "decided_before": before,
    })
}
