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
//!    {"young": 250, "undelivered": 40, "held": 10, "removable": 0}, "error": null}],
//!  "abandoned_removed": 3, "abandoned_error": null}
//! ```
//! where `removable` are rows that could be removed: with `--dry-run` all of them, else what other
//! sessions have locked. With mode = "drop_partitions" the rows of a partition count as one, by
//! what keeps it. `kept` is null where the table could not be read, and `error` says why. Polled
//! tables have a form of their own ([`polled`]).

mod args;
mod backlog;
mod polled;
mod print;
mod proof;

pub use args::{CleanupArgs, Pace};
use relay::{Failure, TableName, retention::FullXid};

use self::print::{Cleaned, Report};
use super::{
    Exit, Form, TaskError, Terminal,
    connect::{Access, with_connection},
    decision_args::Effect,
    print_failure,
};
use crate::{
    config::{Config, SourceKind},
    polling::{retention::Sweeper, sql::Scan},
    prepare,
    retention::{
        RetentionSettings, abandoned,
        counts::Counts,
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
        let targets = self.targets().await;
        let wait = self.args.wait;
        let proof = proof::prove(self.session, self.config, access, wait, terminal).await?;
        let covered = proof.horizon.xmin;
        let asks =
            self.args.effect == Effect::Dry || self.args.confirmation != super::Confirmation::Yes;
        let mut tables = Vec::new();
        for (name, target) in &targets {
            let counted = match target {
                Ok(target) if asks => self.count(target, covered).await.map(Some),
                Ok(_) => Ok(None),
                Err(failure) => Err(failure.clone()),
            };
            tables.push(Cleaned::before(name, target.as_ref().ok(), counted));
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
        for ((_, target), cleaned) in targets.iter().zip(&mut report.tables) {
            if let Ok(target) = target {
                self.clean(target, covered, cleaned).await;
            }
        }
        let confirmed = report.proof.confirmed;
        report.abandoned = Some(abandoned::remove(self.session, self.settings, confirmed).await);
        self.session.unlock(self.settings).await?;
        self.end(&report, terminal)
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

    async fn count(&self, target: &Target, covered: FullXid) -> Result<Counts, Failure> {
        Counts::of(self.session, target, self.settings, covered).await
    }

    /// Removes what can be removed, and counts what is left.
    async fn clean(&self, target: &Target, covered: FullXid, cleaned: &mut Cleaned) {
        let made = partitions::make_ahead(self.session, self.settings, target).await;
        cleaned.made = made.as_ref().copied().unwrap_or_default();
        let swept = self.sweep(target, covered, &mut cleaned.removed).await;
        let counted = self.count(target, covered).await;
        cleaned.kept = counted.as_ref().ok().copied();
        cleaned.failure = made.err().or(swept.err()).or(counted.err());
    }

    async fn sweep(
        &self,
        target: &Target,
        covered: FullXid,
        removed: &mut u64,
    ) -> Result<(), Failure> {
        let (session, settings) = (self.session, self.settings);
        let mut sweep = match target.check_way() {
            Ok(()) => Sweep::of(target, settings, covered),
            Err(_) => Sweep::by_place(session, target, settings, covered).await?,
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
