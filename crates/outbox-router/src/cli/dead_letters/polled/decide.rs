//! `dead-letters requeue` and `dead-letters drop`: show the rows, ask, and change them.
//!
//! What is shown is what is decided about: a row that is abandoned while a person answers stays as
//! it is, and so does one about which somebody else has decided meanwhile. The connection is the
//! same before and after the answer: if the server has crashed meanwhile, the version of a row may
//! be that of another content.

use std::io;

use relay::{
    TableName,
    delivered::{GivenUp, RowAt},
};
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::{
    super::{
        ambiguous::ambiguous,
        args::{DecideArgs, NamedArgs, SelectArgs},
        decision::Decision,
        wording::columns,
    },
    row::{Found, typed},
    selection::{Rows, read, select},
    streamed::refuse_streamed,
    tables::{tables, with_tables},
};
use crate::{
    cli::{
        Effect, EventRef, Exit, Form, TaskError, Terminal,
        connect::{self, Access},
        decision_args::Decider,
        polled_tables::Tables,
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
    left_out: Vec<(String, String)>,
    /// What becomes of dropped rows, of each table that has one.
    dropped: Vec<(TableName, Dropped)>,
}

/// Why nothing is decided about.
enum Refused {
    /// What is wrong with the flags.
    Flags(String),
    /// Some tables cannot be read.
    Tables,
}

/// Shows, asks, changes, and reports.
pub(super) async fn decide(
    decision: Decision,
    args: &DecideArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let table = args.select.named.table.as_ref();
    let decided = with_tables(table, config, access, async |client, mut found| {
        refuse(decision, client, &found.readable, config).await?;
        let plan = match Plan::read(decision, &args.select, client, &mut found).await? {
            Ok(plan) => plan,
            Err(Refused::Flags(message)) => {
                writeln!(terminal.err, "error: {message}")?;
                return Ok(Exit::Usage);
            }
            Err(Refused::Tables) => {
                unreadable(decision, &found, terminal.err)?;
                return Ok(Exit::Failure);
            }
        };
        if args.decision.form == Form::Text {
            plan.text(terminal)?;
        }
        let decider = args.decision.decider(access.environment);
        if plan.rows.found.is_empty() || args.decision.how.effect == Effect::Dry {
            return plan.report(None, args, &decider, terminal);
        }
        let to = format!("{} them", decision.verb());
        if let Some(refused) =
            args.decision.confirm(config, (to.as_str(), decision.done()), terminal)?
        {
            return Ok(refused);
        }
        let tables = tables(client, table, config).await?.all()?;
        refuse(decision, client, &tables, config).await?;
        let changed = plan.change(client, &tables, &decider).await?;
        plan.report(Some(changed), args, &decider, terminal)
    });
    Box::pin(decided).await
}

/// # Errors
/// Rows are to be requeued that a stream would not send.
async fn refuse(
    decision: Decision,
    client: &Client,
    tables: &[PolledTable],
    config: &Config,
) -> Result<(), TaskError> {
    match decision {
        Decision::Requeue => refuse_streamed(client, tables, config.dead_letters.hold_key).await,
        Decision::Drop(_) => Ok(()),
    }
}

/// Nothing is decided about rows of some tables only, unless a person says so.
fn unreadable(
    decision: Decision,
    tables: &Tables,
    err: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    tables.print_failures(err)?;
    let (verb, done) = (decision.verb(), decision.done());
    if tables.readable.is_empty() {
        return writeln!(err, "nothing was {done}");
    }
    let others: Vec<String> = tables.readable.iter().map(|table| typed(table.name())).collect();
    let others = others.join(", ");
    writeln!(
        err,
        "nothing was {done}; to {verb} rows of another table alone, add --table, one of {others}"
    )
}

/// What a dropped row's last error says.
fn note(decider: &Decider<'_>) -> String {
    let reason = decider.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("dropped by {}{reason}", decider.by)
}

/// Which of the ids name none of the rows, and why there is nothing to decide about these.
async fn left_out(
    client: &Client,
    tables: &mut Tables,
    named: &NamedArgs,
    rows: &Rows,
) -> Result<Vec<(String, String)>, TaskError> {
    let is_in = |rows: &Rows, id: &EventRef| rows.found.iter().any(|found| found.is_named(id));
    let missing: Vec<&EventRef> = named.ids.iter().filter(|id| !is_in(rows, id)).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let ids = missing.iter().map(|id| id.text.clone()).collect();
    let filter = StuckFilter { ids, ..StuckFilter::default() };
    let waiting = read(client, tables, Stuck::Waiting, &filter).await?;
    let tables = named.table.as_ref().map(ToString::to_string);
    let tables = tables.unwrap_or_else(|| "the polled tables".to_owned());
    let why = |id: &EventRef| {
        let why = if is_in(&waiting, id) {
            "waits for another attempt, which comes by itself".to_owned()
        } else {
            format!("is no row of {tables} that is abandoned")
        };
        (id.text.clone(), why)
    };
    Ok(missing.into_iter().map(why).collect())
}

/// What dropped rows are then.
const fn becomes(dropped: Dropped) -> &'static str {
    match dropped {
        Dropped::Deleted => "deleted",
        Dropped::Marked => {
            "marked as published; no column of the table says that they were dropped"
        }
        Dropped::MarkedWithError => {
            "marked as published, and their last error says who has dropped them"
        }
    }
}

impl Plan {
    async fn read(
        decision: Decision,
        args: &SelectArgs,
        client: &Client,
        tables: &mut Tables,
    ) -> Result<Result<Self, Refused>, TaskError> {
        let filter = match select(args, client).await? {
            Ok(filter) => filter,
            Err(message) => return Ok(Err(Refused::Flags(message))),
        };
        let rows = read(client, tables, Stuck::Abandoned, &filter).await?;
        let left_out = left_out(client, tables, &args.named, &rows).await?;
        if !tables.failed.is_empty() {
            return Ok(Err(Refused::Tables));
        }
        if let Some(message) = ambiguous(&args.named.ids, |id| rows.tables_of(id)) {
            return Ok(Err(Refused::Flags(message)));
        }
        let has_row =
            |table: &&PolledTable| rows.found.iter().any(|found| found.table == *table.name());
        let with_rows = tables.readable.iter().filter(has_row);
        let dropped = with_rows.map(|table| (table.name().clone(), Dropped::of(table))).collect();
        Ok(Ok(Self { decision, rows, left_out, dropped }))
    }

    /// Changes the rows, and returns how many there were: those that nobody has changed meanwhile.
    async fn change(
        &self,
        client: &Client,
        tables: &[PolledTable],
        decider: &Decider<'_>,
    ) -> Result<u64, TaskError> {
        let mut changed = 0;
        for table in tables {
            let of_table = self.rows.found.iter().filter(|found| found.table == *table.name());
            let rows: Vec<RowAt> = of_table.map(|found| found.row.row.clone()).collect();
            for rows in rows.chunks(CHANGED_MAX) {
                let done = match self.decision {
                    Decision::Requeue => requeue(client, table, rows).await,
                    Decision::Drop(_) => {
                        let given_up = |row: &RowAt| GivenUp::by(&decider.by, row.clone());
                        let rows: Vec<GivenUp> = rows.iter().filter_map(given_up).collect();
                        drop_rows(client, table, &rows, &note(decider)).await
                    }
                };
                changed += done.map_err(connect::denied)?;
            }
        }
        Ok(changed)
    }

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
                let become_so = self.become_so();
                format!("{become_so}They are never delivered; rows of their keys behind them are.")
            }
        }
    }

    /// What becomes of the rows: in one sentence where it is the same in every table.
    fn become_so(&self) -> String {
        match self.dropped.as_slice() {
            [(_, first), rest @ ..] if rest.iter().all(|(_, other)| other == first) => {
                format!("They are {}. ", becomes(*first))
            }
            several => {
                let line = |(table, of): &(TableName, Dropped)| {
                    format!("Rows of {table} are {}.\n", becomes(*of))
                };
                several.iter().map(line).collect()
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
                    "dry_run": args.decision.how.effect == Effect::Dry,
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
                writeln!(terminal.err, "error: no abandoned row is selected")?;
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
