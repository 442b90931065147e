//! `dead-letters requeue` and `dead-letters drop`: show the rows, ask, and change them.
//!
//! What is shown is what is decided about: a row that is given up while a person answers stays as
//! it is, and so does one about which somebody else has decided meanwhile.

use std::io;

use relay::polling::RowId;
use serde_json::{Value, json};

use super::{
    super::{args::DecideArgs, decision::Decision, wording::columns},
    row::Found,
    selection::{Rows, read, select, with_tables},
};
use crate::{
    cli::{
        Effect, Exit, Form, TaskError, Terminal,
        connect::{self, Access},
        decision_args::Decider,
    },
    config::Config,
    polling::sql::{Dropped, PolledTable, Stuck, StuckFilter, drop_rows, requeue},
    wording::count,
};

/// How many rows are shown to people one by one.
const SHOWN_MAX: usize = 20;

/// So many rows are changed by one statement.
const CHANGED_MAX: usize = 1_000;

/// What was found.
struct Plan {
    decision: Decision,
    rows: Rows,
    /// What was named and is no such row, with the reason.
    left_out: Vec<(String, &'static str)>,
    /// What becomes of dropped rows, by table.
    dropped: Vec<Dropped>,
}

/// Shows, asks, changes, and reports.
pub(super) async fn decide(
    decision: Decision,
    args: &DecideArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let found = with_tables(config, access, async |client, tables| {
        let filter = match select(&args.select, client).await? {
            Ok(filter) => filter,
            Err(message) => return Ok(Err(message)),
        };
        let rows = read(client, tables, Stuck::Abandoned, &filter).await?;
        let ids = &args.select.named.ids;
        let missing = ids.iter().filter(|id| !rows.found.iter().any(|found| found.is_named(id)));
        let missing: Vec<String> = missing.map(|id| id.text.clone()).collect();
        let left_out = left_out(client, tables, missing).await?;
        let dropped = tables.iter().map(Dropped::of).collect();
        Ok(Ok(Plan { decision, rows, left_out, dropped }))
    })
    .await?;
    let plan = match found {
        Ok(plan) => plan,
        Err(message) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(Exit::Usage);
        }
    };
    if args.decision.form == Form::Text {
        plan.text(terminal)?;
    }
    let decider = args.decision.decider(access.environment);
    if plan.rows.found.is_empty() || args.decision.effect == Effect::Dry {
        return plan.report(None, args, &decider, terminal);
    }
    let to = format!("{} them", decision.verb());
    if let Some(refused) =
        args.decision.confirm(config, (to.as_str(), decision.done()), terminal)?
    {
        return Ok(refused);
    }
    let changed = with_tables(config, access, async |client, tables| {
        let mut changed = 0;
        for table in tables {
            let of_table = plan.rows.found.iter().filter(|found| found.table == *table.name());
            let rows: Vec<RowId> = of_table.map(|found| found.row.identity.clone()).collect();
            for rows in rows.chunks(CHANGED_MAX) {
                let done = match decision {
                    Decision::Requeue => requeue(client, table, rows).await,
                    Decision::Drop(_) => drop_rows(client, table, rows, &note(&decider)).await,
                };
                changed += done.map_err(connect::denied)?;
            }
        }
        Ok(changed)
    })
    .await?;
    plan.report(Some(changed), args, &decider, terminal)
}

/// What a dropped row's last error says.
fn note(decider: &Decider<'_>) -> String {
    let reason = decider.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("dropped by {}{reason}", decider.by)
}

/// Why there is nothing to decide about these rows.
async fn left_out(
    client: &tokio_postgres::Client,
    tables: &[PolledTable],
    ids: Vec<String>,
) -> Result<Vec<(String, &'static str)>, TaskError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let filter = StuckFilter { ids: ids.clone(), ..StuckFilter::default() };
    let waiting = read(client, tables, Stuck::Waiting, &filter).await?;
    let why = |id: String| {
        let waits = waiting.found.iter().any(|found| found.row.id == id);
        let why = if waits {
            "waits for another attempt, which comes by itself"
        } else {
            "is no row of the polled tables that is given up"
        };
        (id, why)
    };
    Ok(ids.into_iter().map(why).collect())
}

impl Plan {
    fn text(&self, terminal: &mut Terminal<'_>) -> io::Result<()> {
        let found = &self.rows.found;
        let verb = self.decision.verb();
        if !found.is_empty() {
            let number = i64::try_from(found.len()).unwrap_or(i64::MAX);
            let behind = i64::try_from(self.rows.behind()).unwrap_or(i64::MAX);
            let (rows, behind) = (count(number, "row"), count(behind, "row"));
            writeln!(terminal.out, "{verb} {rows}; behind: {behind}")?;
            let line = |found: &Found| {
                [found.table.to_string(), found.id(), found.key(), found.attempts(), found.error()]
            };
            let lines: Vec<_> = found.iter().take(SHOWN_MAX).map(line).collect();
            for line in columns(&lines) {
                writeln!(terminal.out, "  {line}")?;
            }
            let more = found.len().saturating_sub(SHOWN_MAX);
            if more > 0 {
                writeln!(terminal.out, "  and {more} more")?;
            }
            writeln!(terminal.out, "\n{}", self.consequence())?;
        }
        if !found.is_empty() {
            self.left_out_text(terminal)?;
        }
        Ok(())
    }

    fn left_out_text(&self, terminal: &mut Terminal<'_>) -> io::Result<()> {
        for (id, why) in &self.left_out {
            writeln!(terminal.err, "error: left out: {id} {why}")?;
        }
        Ok(())
    }

    fn consequence(&self) -> String {
        match self.decision {
            Decision::Requeue => {
                "They are pending again, as if they had never been tried; rows of \
                                  their keys behind them wait on."
                    .to_owned()
            }
            Decision::Drop(_) => {
                let is = |what: Dropped| self.dropped.contains(&what);
                let becomes = if is(Dropped::Deleted) {
                    "deleted"
                } else if is(Dropped::Marked) {
                    "marked as published; no column of the table says that they were dropped"
                } else {
                    "marked as published, and their last error says who has dropped them"
                };
                format!(
                    "They are {becomes}. They are never delivered; rows of their keys behind them \
                     are."
                )
            }
        }
    }

    /// `changed`: how many rows; `None`: none, as was asked for.
    fn report(
        &self,
        changed: Option<u64>,
        args: &DecideArgs,
        decider: &Decider<'_>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        let selected = u64::try_from(self.rows.found.len()).unwrap_or(u64::MAX);
        let meanwhile = changed.map_or(0, |changed| selected.saturating_sub(changed));
        match args.decision.form {
            Form::Json => {
                let rows = self.rows.found.iter().map(|found| Value::from(found.json()));
                let left_out = self.left_out.iter();
                let left_out = left_out.map(|(id, why)| json!({ "id": id, "why": why }));
                let document = json!({
                    "action": self.decision.verb(),
                    "dry_run": args.decision.effect == Effect::Dry,
                    "selected": selected,
                    "changed": changed.unwrap_or(0),
                    "decided_meanwhile": meanwhile,
                    "events": rows.collect::<Vec<_>>(),
                    "left_out": left_out.collect::<Vec<_>>(),
                    "by": decider.by,
                    "reason": decider.reason,
                });
                writeln!(terminal.out, "{document:#}")?;
            }
            Form::Text => self.report_text(changed, meanwhile, decider, terminal)?,
        }
        let is_done = changed.map_or(selected > 0, |changed| changed > 0);
        let is_all = self.left_out.is_empty();
        Ok(if is_done && is_all { Exit::Done } else { Exit::Failure })
    }

    fn report_text(
        &self,
        changed: Option<u64>,
        meanwhile: u64,
        decider: &Decider<'_>,
        terminal: &mut Terminal<'_>,
    ) -> io::Result<()> {
        let done = self.decision.done();
        match changed {
            None if self.rows.found.is_empty() => {
                writeln!(terminal.err, "error: no row that is given up is selected")?;
                self.left_out_text(terminal)?;
                writeln!(terminal.err, "  hint: outbox-router dead-letters list")
            }
            None => writeln!(terminal.out, "nothing was {done}"),
            Some(0) => writeln!(
                terminal.err,
                "nothing was {done}: somebody else has decided about all of them meanwhile"
            ),
            Some(changed) => {
                let rows = count(i64::try_from(changed).unwrap_or(i64::MAX), "row");
                let reason = decider.reason.map(|reason| format!(": {reason}"));
                let reason = reason.unwrap_or_default();
                writeln!(terminal.out, "{done} {rows}, by {}{reason}", decider.by)?;
                if meanwhile > 0 {
                    writeln!(
                        terminal.out,
                        "somebody else has decided about {meanwhile} meanwhile"
                    )?;
                }
                Ok(())
            }
        }
    }
}
