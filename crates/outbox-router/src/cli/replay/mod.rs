//! `replay`: rows of the table become records again. The rows are read as the stream reads them, go
//! through the same routing, and are produced by a producer of its own, whether or not a router
//! runs. PostgreSQL keeps the rows and the slot as they are.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed.
//! ```json
//! {"action": "replay", "dry_run": false, "table": "public.outbox", "selected": 3, "held": 0,
//!  "unknown_ids": [], "order": ["created_at", "id"], "outcome": "complete", "failure": null,
//!  "rows": 3, "sent": 3, "unacknowledged": 0, "filtered": 0, "left_out": 0,
//!  "topics": {"outbox.event.order": 3}, "seconds": 0.2, "run": 7, "resumed": null}
//! ```
//! where `outcome` is `complete`, `interrupted`, `stopped_at_row` or `failed`, and `failure` then
//! is `{"code": "R006", "message": "…", "hint": "…"}`. `selected` are the rows to send; `held` are
//! those that are left out because they are held. `run` is null with `--no-audit` and in a dry run.

mod args;
mod bookkeeping;
mod chosen;
mod ids;
mod report;
mod select;
mod work;

pub use args::{Audit, BadRow, Marker, ReplayArgs, Selected, Start};
pub(super) use args::{MARKER, rate};
use std::time::Duration;

use relay::{Failure, RepublishSettings, TopicFacts, TopicName, witness::ProducedTo};

use super::{
    Exit, Form, TaskError, Terminal,
    connect::{Access, with_connection},
    decision_args::{Decider, Effect},
    one_table::one_table,
    print_failure::print_failure,
    republication::{BEGIN, Republication, Sent, place, session},
    topic_lookups::{Topic, TopicLookups},
    witness::Records,
};
use crate::{
    config::Config,
    kafka::StoredOffsets,
    prepare,
    republish::{
        destination::{Cluster, Destination, Nowhere},
        journal::{self, PastRun, Run},
        sender::{BadRows, Counts, Ended},
    },
};
use report::{Outcome, Plan};
use work::{COMMAND, Early, Replay, Selection};

/// Selects, counts, asks, sends and reports.
pub(super) async fn replay(
    args: &ReplayArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let table = match one_table(args.table.as_ref(), config) {
        Ok(table) => table,
        Err(message) => return usage(&message, terminal),
    };
    if args.to_topic.is_some() && args.to_topic == config.kafka.state_topic {
        return usage("--to-topic: this is the state topic of the router", terminal);
    }
    let done = with_connection(access, COMMAND, async |reader| {
        with_connection(access, COMMAND, async |books| {
            let (role, decider) = (access.role(), args.decision.decider(access.environment));
            let (table, records) = (&table, Records::of(config, access)?);
            let replay = Replay { args, config, reader, books, table, role, decider, records };
            replay.carry_out(terminal).await
        })
        .await
    });
    Box::pin(done).await
}

fn usage(message: &str, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
    writeln!(terminal.err, "error: {message}")?;
    Ok(Exit::Usage)
}

impl Replay<'_> {
    async fn carry_out(&self, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
        match self.to_its_end(terminal).await? {
            Ok(exit) | Err(Early::Exit(exit)) => Ok(exit),
            Err(Early::Unfit(message)) => usage(&message, terminal),
        }
    }

    async fn to_its_end(
        &self,
        terminal: &mut Terminal<'_>,
    ) -> Result<Result<Exit, Early>, TaskError> {
        self.reader.batch_execute(&session()).await?;
        self.books.batch_execute(&session()).await?;
        let mut selection = match self.select().await.map_err(|error| self.denied(error))? {
            Ok(selection) => selection,
            Err(early) => return Ok(Err(early)),
        };
        if self.args.decision.how.effect == Effect::Dry {
            return self.dry(&selection, terminal).await.map(Ok);
        }
        if let Err(holder) = journal::lock(self.books, &self.config.name).await? {
            return self.refuse_second(&holder, terminal).await.map(Ok);
        }
        let resumed = match self.resumed(&mut selection, terminal).await? {
            Ok(resumed) => resumed,
            Err(early) => return Ok(Err(early)),
        };
        if self.args.decision.form == Form::Text {
            selection.plan.show(self.args, terminal.out)?;
        }
        if selection.plan.rows == 0 && resumed.is_none() {
            return self.report_none(&selection.plan, terminal).map(Ok);
        }
        if self.args.decision.form == Form::Text {
            report::show_consequence(terminal.out)?;
        }
        let words = ("send them", "sent");
        if let Some(refused) = self.args.decision.confirm(self.config, words, terminal)? {
            return Ok(Ok(refused));
        }
        self.send(&selection, resumed.as_ref(), terminal).await.map(Ok)
    }

    fn report_none(&self, plan: &Plan, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
        match self.args.decision.form {
            Form::Text => writeln!(terminal.err, "nothing was sent: no row is selected")?,
            Form::Json => {
                let (counts, topics, ended) = (Counts::default(), Vec::new(), Ended::Complete);
                let (took, left_out) = (Duration::ZERO, Vec::new());
                let (kept, produced_to) = (Vec::new(), ProducedTo::new());
                let stored = StoredOffsets::default();
                let sent =
                    Sent { counts, topics, produced_to, stored, ended, took, left_out, kept };
                let outcome = Outcome { sent, run: None };
                writeln!(terminal.out, "{:#}", report::document(plan, &outcome, self.args))?;
            }
        }
        Ok(Exit::Failure)
    }

    /// Counts what would be sent where.
    async fn dry(
        &self,
        selection: &Selection,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        if self.args.decision.form == Form::Text {
            selection.plan.show(self.args, terminal.out)?;
        }
        let topics = TopicLookups::open(self.config)?;
        let mut unusable = Vec::new();
        let look_up = |name: &TopicName| -> Result<TopicFacts, Failure> {
            let topic = topics.look_up(name)?;
            let facts = topic.facts();
            if let Topic::Unusable(failure) = topic {
                unusable.push(failure);
            }
            Ok(facts)
        };
        let outcome = self.run(selection, Nowhere::new(look_up), None, terminal).await?;
        let exit = self.report(&selection.plan, &outcome, terminal)?;
        for failure in &unusable {
            print_failure(terminal.err, failure)?;
        }
        Ok(if unusable.is_empty() { exit } else { Exit::Failure })
    }

    /// Sends, and writes down how it ended.
    async fn send(
        &self,
        selection: &Selection,
        resumed: Option<&PastRun>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        let subject = self.subject(&selection.chosen.canonical);
        let run = match (self.args.audit, resumed) {
            (Audit::Omit, _) => None,
            (Audit::Write, Some(run)) => Some(Run::resume(self.books, run)),
            (Audit::Write, None) => {
                let Decider { by, reason } = &self.decider;
                match Run::begin(self.books, subject, by, *reason).await {
                    Ok(run) => Some(run),
                    Err(failure) => return self.cannot_audit(failure, terminal),
                }
            }
        };
        let cluster = Cluster::open(&prepare::kafka_settings(self.config))?;
        let outcome = self.run(selection, cluster, run, terminal).await?;
        self.report(&selection.plan, &outcome, terminal)
    }

    async fn run<D: Destination>(
        &self,
        selection: &Selection,
        destination: D,
        run: Option<Run<'_>>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Outcome, TaskError> {
        let Self { args, config, reader, .. } = *self;
        let Selection { rows, chosen, plan } = selection;
        let effect = args.decision.how.effect;
        let marker = (args.marker == Marker::Write).then(|| MARKER.to_owned());
        reader.batch_execute(BEGIN).await?;
        let republication = Republication {
            config,
            reader,
            rows,
            query: &chosen.query,
            total: plan.rows,
            bad_rows: match (args.bad, effect) {
                (BadRow::Stop, Effect::Real) => BadRows::Stop,
                (BadRow::Skip, _) | (_, Effect::Dry) => BadRows::LeaveOut,
            },
            rate: args.rate.filter(|_| effect == Effect::Real),
            different: RepublishSettings {
                to_topic: args.to_topic.clone(),
                marker,
                ..RepublishSettings::default()
            },
            records: self.records.as_ref(),
        };
        let place = place(terminal.audience, args.decision.form);
        let sent = republication.send(destination, run.clone(), (terminal.err, place)).await;
        let sent = sent.map_err(|failure| self.denied(failure.into()))?;
        if let Some(run) = &run {
            sent.note_end(run).await?;
        }
        Ok(Outcome { sent, run: run.map(|run| run.id()) })
    }

    fn report(
        &self,
        plan: &Plan,
        outcome: &Outcome,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        match self.args.decision.form {
            Form::Text => report::text(plan, outcome, self.args, (terminal.out, terminal.err))?,
            Form::Json => {
                let document = report::document(plan, outcome, self.args);
                writeln!(terminal.out, "{document:#}")?;
            }
        }
        let is_all = matches!(outcome.sent.ended, Ended::Complete)
            && outcome.sent.counts.left_out == 0
            && plan.unknown_ids.is_empty();
        Ok(if is_all { Exit::Done } else { Exit::Failure })
    }
}
