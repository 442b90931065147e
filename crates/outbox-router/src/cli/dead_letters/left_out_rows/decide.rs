//! `dead-letters requeue --left-out` and `dead-letters drop --left-out`: show what is decided
//! about, ask, decide and report. The lock of those commands that send rows is held meanwhile, so
//! no other leaves rows out, or sends them.

use relay::Failure;
use serde_json::{Value, json};

use super::{
    super::{ambiguous::ambiguous, args::DecideArgs, decision::Decision},
    requeue,
    rows::{json_of, listed, read, table},
    work::{Outcome, Work, count_of},
};
use crate::{
    cli::{
        Effect, Exit, Form, TaskError, Terminal,
        connect::{Access, denied, with_connection},
        noted_left_out::{MissingNotes, make_left_out},
        print_failure::{failure_json, print_failure},
        republication::session,
        shown_bytes,
    },
    config::Config,
    republish::{
        journal::{self, Completeness},
        left_out::Entry,
    },
};

/// How many rows are shown to people one by one.
const SHOWN_MAX: usize = 20;

/// Shows, asks, decides, and reports.
pub(super) async fn decide(
    decision: Decision,
    args: &DecideArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let decided = with_connection(access, "dead-letters", async |books| {
        books.batch_execute(&session()).await?;
        let is_real = args.decision.how.effect == Effect::Real;
        if is_real && let Err(holder) = journal::lock(books, &config.name).await? {
            writeln!(terminal.err, "error: nothing was {}: {holder}", decision.done())?;
            return Ok(Exit::Failure);
        }
        let entries = match read(books, &config.name, &args.select).await? {
            Ok(entries) => entries,
            Err(message) => return usage(&message, terminal),
        };
        let of_several = ambiguous(&args.select.named.ids, |id| {
            let named = entries.iter().filter(|entry| entry.row.id == id.text);
            named.map(table).collect()
        });
        if let Some(message) = of_several {
            return usage(&message, terminal);
        }
        let rows = entries.into_iter().map(|entry| (entry, None)).collect();
        let (runs, failure) = (Vec::new(), None);
        let filtered = 0;
        let mut work =
            Work { decision, args, config, access, books, rows, filtered, runs, failure };
        if args.decision.form == Form::Text {
            work.show(terminal)?;
        }
        if is_real && !work.rows.is_empty() {
            let to = format!("{} them", decision.verb());
            let question = (to.as_str(), decision.done());
            if let Some(refused) = args.decision.confirm(config, question, terminal)? {
                return Ok(refused);
            }
            work.carry_out(terminal).await?;
        }
        work.report(terminal)
    });
    Box::pin(decided).await
}

fn usage(message: &str, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
    writeln!(terminal.err, "error: {message}")?;
    Ok(Exit::Usage)
}

impl Work<'_> {
    fn show(&self, terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let verb = self.decision.verb();
        let entries: Vec<Entry> = self.rows.iter().map(|(entry, _)| entry.clone()).collect();
        writeln!(terminal.out, "{verb} {} that were left out", count_of(&entries))?;
        listed(&entries, SHOWN_MAX, terminal.out)?;
        let consequence = match self.decision {
            Decision::Requeue => {
                "They are read from their table and sent, behind everything that consumers have got \
                 since. Those\nthat still cannot become a record, or that outbox.where filters, stay \
                 left out."
            }
            Decision::Drop(_) => {
                "They are never sent, and [retention] may remove the rows. If an event is needed, \
                 insert a\ncorrected row."
            }
        };
        writeln!(terminal.out, "\n{consequence}")?;
        Ok(())
    }

    /// Table by table, each with a line of its own in `outbox_router.republication`.
    async fn carry_out(&mut self, terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        journal::make(self.books).await.map_err(denied)?;
        if self.decision == Decision::Requeue {
            make_left_out(self.books, self.config, self.access, MissingNotes::Refused)
                .await
                .map_err(denied)?;
        }
        let mut rows = std::mem::take(&mut self.rows);
        for of_table in rows.chunk_by_mut(|(one, _), (other, _)| one.oid == other.oid) {
            if self.failure.is_some() {
                break;
            }
            match self.decision {
                Decision::Requeue => requeue::requeue(self, of_table, terminal).await?,
                Decision::Drop(_) => self.drop_rows(of_table).await.map_err(denied)?,
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// Gives rows of a table up.
    async fn drop_rows(&mut self, rows: &mut [(Entry, Option<Outcome>)]) -> Result<(), Failure> {
        let run = self.begin(rows).await?;
        let outcome =
            format!("complete: gave up {}", count_of(rows.iter().map(|(entry, _)| entry)));
        rows.iter_mut().for_each(|(_, became)| *became = Some(Outcome::Dropped));
        self.end(&run, rows, (&outcome, Completeness::Complete)).await
    }

    /// The ids that a person has typed, and that no entry has.
    fn unknown(&self) -> Vec<&str> {
        let is_known = |id: &str| self.rows.iter().any(|(entry, _)| entry.row.id == id);
        let typed = self.args.select.named.ids.iter().map(|id| id.text.as_str());
        typed.filter(|id| !is_known(id)).collect()
    }

    fn report(&self, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
        let is_settled = |became: Outcome| became.why().is_none();
        let settled = self.rows.iter().filter(|(_, became)| became.is_some_and(is_settled));
        let entries: Vec<&Entry> = settled.map(|(entry, _)| entry).collect();
        let settled = entries.len();
        match self.args.decision.form {
            Form::Json => writeln!(terminal.out, "{:#}", self.document(settled))?,
            Form::Text => self.text(&entries, terminal)?,
        }
        let is_dry = self.args.decision.how.effect == Effect::Dry;
        let is_all = !self.rows.is_empty()
            && self.unknown().is_empty()
            && (is_dry || settled == self.rows.len());
        Ok(if is_all { Exit::Done } else { Exit::Failure })
    }

    fn text(&self, settled: &[&Entry], terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        let done = self.decision.done();
        if self.rows.is_empty() {
            writeln!(terminal.err, "error: no row that was left out is selected")?;
        } else if self.args.decision.how.effect == Effect::Dry {
            writeln!(terminal.out, "nothing was {done}")?;
        } else {
            let runs: Vec<String> = self.runs.iter().map(ToString::to_string).collect();
            let run = match runs.as_slice() {
                [] => String::new(),
                [run] => format!("; this is run {run} of outbox_router.republication"),
                runs => {
                    format!("; these are runs {} of outbox_router.republication", runs.join(", "))
                }
            };
            let rows = count_of(settled.iter().copied());
            writeln!(terminal.out, "{done} {rows}{run}")?;
        }
        for id in self.unknown() {
            let id = shown_bytes::id(id.as_bytes());
            writeln!(terminal.err, "error: no row of the id {id} was left out")?;
        }
        let unsettled = self
            .rows
            .iter()
            .filter_map(|(entry, became)| Some((entry, became, became.as_ref()?.why()?)));
        for (entry, became, why) in unsettled {
            let (id, of) = (shown_bytes::id(entry.row.id.as_bytes()), table(entry));
            let is_again = *became == Some(Outcome::LeftOut);
            let again = is_again.then(|| format!(": {}: {}", entry.row.code, entry.row.error));
            let again = again.unwrap_or_default();
            writeln!(terminal.err, "error: {id} of {of} {why}{again}")?;
        }
        if let Some(failure) = &self.failure {
            print_failure(terminal.err, failure)?;
        } else if self.rows.is_empty() {
            writeln!(terminal.err, "  hint: outbox-router dead-letters list --left-out")?;
        }
        Ok(())
    }

    fn document(&self, settled: usize) -> Value {
        let row = |(entry, became): &(Entry, Option<Outcome>)| {
            let mut members = json_of(entry);
            members.insert("outcome".to_owned(), json!(became.map(Outcome::as_str)));
            Value::from(members)
        };
        json!({
            "action": self.decision.verb(),
            "dry_run": self.args.decision.how.effect == Effect::Dry,
            "selected": self.rows.len(),
            "changed": settled,
            "filtered": self.filtered,
            "unknown_ids": self.unknown(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "runs": self.runs,
            "failure": self.failure.as_ref().map(failure_json),
        })
    }
}
