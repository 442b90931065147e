//! `cleanup`: one sweep over the outbox tables, for a scheduler or a person, whether or not a
//! router runs. It removes nothing unless slot and witness show what is delivered; without a
//! router, the slot is asked whether it has anything to send.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed.
//! ```json
//! {"mode": "delete", "dry_run": false, "horizon": {"xmin": 812, "lsn": "0/16B3748"},
//!  "tables": [{"table": "public.outbox", "removed": 1200,
//!    "partitions_made": 0, "archive": null, "kept":
//!    {"young": 250, "undelivered": 40, "held": 10, "older": 0, "removable": 0}, "error": null}],
//!  "abandoned_removed": 3, "abandoned_error": null}
//! ```
//! where `removable` are rows that could be removed: with `--dry-run` all of them, else what other
//! sessions have locked, and `older` those from before the table was an outbox of the pipeline.
//! With mode = "drop_partitions" the rows of a partition count as one, by
//! what keeps it. `kept` is null where the table could not be read, and `error` says why. Polled
//! tables have a form of their own ([`polled`]).

mod args;
mod giving_up;
mod polled;
mod print;
mod proof;

use args::Older;
pub use args::{CleanupArgs, Pace};
use relay::{Failure, TableName, delivered::DeliveredRows};

use self::{
    print::{Cleaned, Report},
    proof::Proof,
};
use super::{
    Exit, Form, TaskError, Terminal,
    connect::{Access, with_connection},
    decision_args::Effect,
    print_failure,
};
use crate::{
    config::{Config, SourceKind},
    polling::{retention::Sweeper, sql::Scan},
    postgres::{Runs, Touched, refuse_foreign_code},
    prepare,
    retention::{
        RetentionSettings, abandoned,
        counts::Counts,
        events::event_parts,
        partitions,
        session::{Backend, Session},
        step::Rest,
        sweep::Sweep,
        target::Target,
    },
};

/// Proves, counts, asks, removes, and reports.
pub(super) async fn cleanup(
    args: &CleanupArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let settings = RetentionSettings::of(config);
    if !settings.is_on() {
        writeln!(terminal.err, "error: nothing was removed: retention.mode is \"off\"")?;
        writeln!(
            terminal.err,
            "  hint: configure [retention], or add --set retention.mode=delete"
        )?;
        return Ok(Exit::Configuration);
    }
    let scan = match args.pace {
        Pace::Indexed => Scan::ByIndex,
        Pace::Whole => Scan::Whole,
    };
    if config.postgres.source == SourceKind::Polling
        && let Some(sweep) = prepare::polled_sweep(config, scan)
    {
        let sweeper = Sweeper::new(sweep, access.endpoint("cleanup")?);
        return Box::pin(polled::cleanup(args, config, sweeper, terminal)).await;
    }
    let work = async |client: &tokio_postgres::Client| {
        let names: Vec<TableName> =
            settings.tables.iter().map(|table| table.name.clone()).collect();
        refuse_foreign_code(client, Touched::Tables(&names), Runs::Changes).await?;
        giving_up::check(args, client).await?;
        let backend = Backend::prepare(client, &settings).await?;
        let session = Session { client, backend: &backend };
        let cleanup = Cleanup { args, config, settings: &settings, session };
        Box::pin(cleanup.carry_out(access, terminal)).await
    };
    with_connection(access, "cleanup", work).await
}

struct Cleanup<'a> {
    args: &'a CleanupArgs,
    config: &'a Config,
    settings: &'a RetentionSettings,
    session: Session<'a>,
}

impl Cleanup<'_> {
    async fn carry_out(
        &self,
        access: Access<'_>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        let (proof, proved) = self.prove(access, terminal).await?;
        let asks =
            self.args.effect == Effect::Dry || self.args.confirmation != super::Confirmation::Yes;
        let mut tables = Vec::new();
        for (name, target) in &proved {
            let counted = match target {
                Ok((target, delivered)) if asks => self.count(target, delivered).await.map(Some),
                Ok(_) => Ok(None),
                Err(failure) => Err(failure.clone()),
            };
            let target = target.as_ref().ok().map(|(target, _)| target);
            tables.push(Cleaned::before(name, target, counted));
        }
        let mut report = Report { settings: self.settings, proof, tables, abandoned: None };
        if asks && self.args.form == Form::Text {
            report.plan(terminal.out)?;
        }
        if self.args.effect == Effect::Dry {
            return self.end(&report, terminal);
        }
        let wanted = ("remove these rows", "removed");
        let asked = self.args.confirmation.ask(self.args.form, self.config, wanted, terminal)?;
        if let Some(refused) = asked {
            return Ok(refused);
        }
        self.session.lock(self.settings).await?;
        // A person may take long to answer, and what was delivered may be gone by then.
        let proved = if asks {
            let (proof, proved) = self.prove(access, terminal).await?;
            report.proof = proof;
            proved
        } else {
            proved
        };
        let cleaned = proved.iter().filter(|(_, target)| target.is_ok()).map(|(name, _)| name);
        let books = (self.session.client, self.config, access);
        let given_up = giving_up::begin(self.args, books, cleaned).await?;
        for ((_, target), cleaned) in proved.iter().zip(&mut report.tables) {
            match target {
                Ok((target, delivered)) => self.clean(target, delivered, cleaned).await,
                Err(failure) => cleaned.failure = Some(failure.clone()),
            }
        }
        let removed = abandoned::remove(self.session, self.settings, &report.proof.confirmed).await;
        report.abandoned = Some(removed);
        if let Some(run) = given_up {
            let removed = report.tables.iter().map(|table| table.removed).sum();
            giving_up::end(&run, removed, report.failures().next()).await?;
        }
        self.session.unlock(self.settings).await?;
        self.end(&report, terminal)
    }

    /// What is delivered now, and of each table which of its rows may go.
    async fn prove(
        &self,
        access: Access<'_>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(Proof, Vec<(TableName, Result<(Target, DeliveredRows), Failure>)>), TaskError>
    {
        let wait = self.args.wait;
        let proof = proof::prove(self.session, self.config, access, wait, terminal).await?;
        let mut proved = Vec::new();
        // Only now: whether there is a table of held events, which are delivered by the proof.
        for (name, target) in self.targets().await {
            proved.push((name, self.with_proof(target, &proof).await));
        }
        Ok((proof, proved))
    }

    /// Each table, or why it cannot be cleaned up.
    async fn targets(&self) -> Vec<(TableName, Result<Target, Failure>)> {
        let mut targets = Vec::new();
        for outbox in &self.settings.tables {
            let target = Target::find(self.session, self.settings, outbox).await;
            let target = target.and_then(|target| match self.args.pace {
                Pace::Indexed => target.check_way().map(|()| target),
                Pace::Whole => Ok(target),
            });
            targets.push((outbox.name.clone(), target));
        }
        targets
    }

    /// The table, and which of its rows may go.
    async fn with_proof(
        &self,
        target: Result<Target, Failure>,
        proof: &Proof,
    ) -> Result<(Target, DeliveredRows), Failure> {
        let target = target?;
        target.check_removable(self.session, self.settings, proof.relied_on).await?;
        let events = event_parts(self.session, (&target.name, target.oid), &proof.since).await?;
        let delivered = proof.covered.rows_of(events);
        Ok(match self.args.older {
            Older::Kept => (target, delivered),
            Older::GivenUp => (target, delivered.with_older_given_up()),
        })
    }

    async fn count(&self, target: &Target, rows: &DeliveredRows) -> Result<Counts, Failure> {
        Counts::of(self.session, target, self.settings, rows).await
    }

    /// Removes what can be removed, and counts what is left.
    async fn clean(&self, target: &Target, delivered: &DeliveredRows, cleaned: &mut Cleaned) {
        let made = partitions::make_ahead(self.session, self.settings, target).await;
        cleaned.made = made.as_ref().copied().unwrap_or_default();
        let swept = self.sweep(target, delivered, &mut cleaned.removed).await;
        let counted = self.count(target, delivered).await;
        cleaned.kept = counted.as_ref().ok().copied();
        cleaned.failure = made.err().or(swept.err()).or(counted.err());
    }

    async fn sweep(
        &self,
        target: &Target,
        delivered: &DeliveredRows,
        removed: &mut u64,
    ) -> Result<(), Failure> {
        let (session, settings) = (self.session, self.settings);
        let mut sweep = match target.check_way() {
            Ok(()) => Sweep::of(target, settings, delivered.clone()),
            Err(_) => Sweep::by_place(session, target, settings, delivered.clone()).await?,
        };
        loop {
            let step = sweep.step(session).await?;
            *removed += step.removed;
            if step.rest == Rest::None {
                return Ok(());
            }
            tokio::time::sleep(settings.section.pause).await;
        }
    }

    fn end(&self, report: &Report<'_>, terminal: &mut Terminal<'_>) -> Result<Exit, TaskError> {
        match self.args.form {
            Form::Text if self.args.effect == Effect::Dry => {
                writeln!(terminal.out, "nothing was removed")?;
            }
            Form::Text => report.text(terminal.out)?,
            Form::Json => writeln!(terminal.out, "{:#}", report.json(self.args.effect))?,
        }
        let mut exit = Exit::Done;
        for failure in report.failures() {
            print_failure::print_failure(terminal.err, failure)?;
            exit = Exit::Failure;
        }
        Ok(exit)
    }
}
