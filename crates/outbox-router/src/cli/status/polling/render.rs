//! One reading and its verdict, as text for people and as JSON for programs.

use std::{io, time::Duration};

use relay::polling::SHARDS;
use serde_json::{Value, json};

use super::{
    judge::{Judged, counted},
    reading::PollingReading,
};
use crate::{
    cli::status::render::{list, to_do},
    config::Config,
    polling::{
        admin::SurveyedView,
        survey::{Holder, RowCount, SurveyedTable, of_which_not_due, sum},
    },
    wording,
};

/// The text output: the four answers in their order, then what they are based on.
pub(super) fn text(
    reading: &PollingReading,
    judged: &Judged,
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let Judged { overall, verdict } = judged;
    let tables = reading.tables.as_deref().unwrap_or_default();
    writeln!(out, "verdict   {}{}: {}", overall.title(), overall.held(), overall.sentence)?;
    writeln!(out, "behind    {}", behind(tables))?;
    writeln!(out, "to blame  {}", verdict.blame)?;
    if let Some(time) = empty_in(reading) {
        writeln!(out, "empty     in about {} at this pace", wording::roughly(time))?;
    }
    let abandoned = sum(tables).map_or(0, |rows| rows.abandoned.rows());
    if abandoned > 0 {
        writeln!(out, "to do     outbox-router dead-letters list")?;
    } else if verdict.all().next().is_none() {
        writeln!(out, "to do     nothing")?;
    }
    to_do(verdict, overall, out)?;
    writeln!(out)?;
    for table in tables {
        table_text(reading, table, out)?;
    }
    let state = reading.router.as_ref().and_then(|router| router.get("state")?.as_str());
    let listen = config.admin.listen;
    match (state, &reading.other) {
        (Some(state), _) => writeln!(out, "router    {state}, at http://{listen}"),
        (None, None) => writeln!(out, "router    does not answer at http://{listen}"),
        (None, Some(other)) => {
            writeln!(out, "router    does not answer; at http://{listen} is another: {}", other.is)
        }
    }
}

fn behind(tables: &[SurveyedTable]) -> String {
    let Some(rows) = sum(tables) else { return "unknown".to_owned() };
    let others = match uncounted(tables) {
        0 => "",
        1 => ", without a table that could not be counted",
        _ => ", without the tables that could not be counted",
    };
    if rows.pending.rows() == 0 {
        return format!("nothing is pending{others}");
    }
    let oldest = rows.oldest().map(|age| format!(", the oldest for {}", wording::roughly(age)));
    let oldest = oldest.unwrap_or_default();
    let not_due = of_which_not_due(rows.not_due, rows.due_in());
    format!("{} pending{not_due}{oldest}{others}", counted(rows.pending))
}

fn uncounted(tables: &[SurveyedTable]) -> usize {
    tables.iter().filter(|table| table.figures.is_err()).count()
}

fn empty_in(reading: &PollingReading) -> Option<Duration> {
    if reading.handed().is_some() {
        return None;
    }
    let seconds = reading.router.as_ref()?.pointer("/pending/empty_in_seconds")?.as_f64()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn table_text(
    reading: &PollingReading,
    table: &SurveyedTable,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let name = &table.name;
    match &table.figures {
        Err(failure) => writeln!(out, "table     {name}: not counted ({})", failure.code)?,
        Ok(rows) => {
            let number = |rows: RowCount| match rows {
                RowCount::Exactly(rows) => rows.to_string(),
                RowCount::AtLeast(rows) => format!("more than {rows}"),
            };
            let [pending, failed, abandoned, processing] =
                [rows.pending, reading.waiting(table), rows.abandoned, rows.processing].map(number);
            let stranded = match rows.stranded {
                RowCount::Exactly(0) => String::new(),
                some @ (RowCount::Exactly(_) | RowCount::AtLeast(_)) => {
                    format!(", {} with an unknown status", number(some))
                }
            };
            writeln!(
                out,
                "table     {name}: {pending} pending, {processing} claimed, {failed} wait for \
                 another attempt, {abandoned} abandoned{stranded}"
            )?;
        }
    }
    match table.holders.as_deref() {
        Err(failure) => writeln!(out, "held by   unknown ({})", failure.code),
        Ok([]) => writeln!(out, "held by   nobody"),
        Ok(holders) => {
            for holder in holders {
                writeln!(out, "held by   {}", holder_text(holder))?;
            }
            Ok(())
        }
    }
}

fn holder_text(holder: &Holder) -> String {
    let Holder { worker, name, shards, lasts_seconds } = holder;
    let name = if name.is_empty() { "a worker" } else { name.as_str() };
    let seconds = Duration::try_from_secs_f64(lasts_seconds.abs()).unwrap_or_default();
    let time = wording::roughly(seconds);
    let lease = match holder.is_live() {
        true => format!("its lease lasts {time} more"),
        false => format!("its lease ended {time} ago"),
    };
    format!("{name} ({worker}): {shards} of {SHARDS} shards; {lease}")
}

/// The JSON output: one object.
pub(super) fn json(reading: &PollingReading, judged: &Judged, config: &Config) -> Value {
    let Judged { overall, verdict } = judged;
    let tables = reading.tables.as_deref().unwrap_or_default();
    let rows = sum(tables);
    let findings: Vec<_> = verdict.all().collect();
    json!({
        "source": "polling",
        "verdict": overall.as_str(),
        "sentence": overall.sentence,
        "verdict_seconds": overall.held_for.map(|time| time.as_secs()),
        "name": config.name,
        "pending_rows": rows.map(|rows| rows.pending.rows()),
        "pending_is_at_least": rows.is_some_and(|rows| matches!(rows.pending, RowCount::AtLeast(_))),
        "uncounted_tables": uncounted(tables),
        "oldest_pending_seconds": rows.and_then(|rows| Some(rows.oldest()?.as_secs_f64())),
        "empty_in_seconds": empty_in(reading).map(|time| time.as_secs()),
        "blame": verdict.blame.who.as_str(),
        "needs_person": verdict.blame.needs_person,
        "why": verdict.blame.why,
        "findings": list(&findings),
        "tables": tables.iter().map(SurveyedView::of).collect::<Vec<_>>(),
        "router": reading.router,
        "other_router": reading.other.as_ref().map(|other| &other.is),
    })
}
