//! The end of polling: this command is the only worker, and sends the rows that are older than the
//! slot. It marks them like any worker, so a kill repeats at most a batch.

use std::sync::Arc;

use relay::{
    Case, Class, Code, ExitReason, Failure, HoldKeys, OnFailed,
    polling::{Poller, PollerReport},
    witness::ProducedTo,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use uuid::Uuid;

use super::{ASK_EVERY, Described, Switching, TELL_EVERY};
use crate::{
    cli::{TaskError, Terminal, print_failure::print_failure},
    polling::{
        clock::LeaseClock,
        report::WorkerReport,
        sql::{Database, LeaseTable, PolledTable, RowScope, setup::worker_of_switch},
        worker::{Worker, WorkerParts},
    },
    prepare,
    shell::{Endpoint, Running, SlotHolder},
    tap::{TapShows, taps},
};

/// What to do where a row, or its topic, keeps the command from its end.
const UNSENDABLE: &str = "; mend that (a row by UPDATE), or end this command and type outbox-router \
    switch polling";

/// How the work ended.
enum End {
    /// All rows are sent and marked.
    Sent,
    /// The worker is to be stopped, and why.
    Stop(Failure),
    /// The worker ended by itself.
    Worker(ExitReason),
}

impl Switching<'_> {
    /// Sends the rows. Returns the topics that they went to; `None` where it had to stop before
    /// all of them were sent.
    ///
    /// # Errors
    /// PostgreSQL does not answer, or the slot was lost.
    pub(super) async fn drain(
        &self,
        Described { worker: holder, tables, .. }: &Described,
        held: &mut SlotHolder,
        terminal: &mut Terminal<'_>,
    ) -> Result<Option<Arc<ProducedTo>>, TaskError> {
        let clock = LeaseClock::start();
        // It is this command that says what a person has to do.
        let settings = prepare::poller_settings(self.config, OnFailed::Stay);
        let poller = Poller::new(settings, clock.now().at);
        let first = WorkerReport::first(poller.report(clock.now().at));
        let (reports, reported) = watch::channel(first);
        let (stop, stopping) = watch::channel(Running::On);
        let parts = self.worker_parts(*holder, poller, clock, reports, stopping)?;
        let mut worker = Box::pin(Worker::new(parts).run());
        // Beside the worker, whose leases end while it waits for a slow answer to somebody else.
        let watch = Box::pin(self.watch_worker(tables, &reported, held, terminal));
        let end = tokio::select! {
            biased;
            outcome = &mut worker => End::Worker(outcome),
            end = watch => end?,
        };
        stop.send_replace(Running::Stopping);
        let failure = match end {
            // Every row is marked, so nothing is in flight; its leases are given back.
            End::Sent => {
                worker.await;
                return Ok(Some(Arc::clone(&reported.borrow().topics)));
            }
            End::Stop(failure) => {
                worker.await;
                failure
            }
            End::Worker(outcome) => {
                let what = format!("the worker ended before all rows were sent: {outcome:?}");
                Failure::new(Code::Switched, what)
            }
        };
        print_failure(terminal.err, &failure)?;
        Ok(None)
    }

    /// Says how far the worker is, and returns when it is to be stopped.
    async fn watch_worker(
        &self,
        tables: &[PolledTable],
        reported: &watch::Receiver<WorkerReport>,
        held: &mut SlotHolder,
        terminal: &mut Terminal<'_>,
    ) -> Result<End, TaskError> {
        let mut told = Instant::now();
        loop {
            tokio::select! {
                biased;
                failure = held.lost() => return Ok(End::Stop(failure)),
                () = sleep(ASK_EVERY) => {}
            }
            if self.is_all_sent(tables).await? {
                return Ok(End::Sent);
            }
            reached!(StreamSending);
            let report = reported.borrow().poller.clone();
            if let Some(failure) = self.blocked_for_good(&report) {
                return Ok(End::Stop(failure));
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                let published: u64 = report.tables.iter().map(|table| table.published).sum();
                let why = report.reason.map(|failure| {
                    let of_row = failure.class() == Class::Mendable;
                    let hint = if of_row { UNSENDABLE } else { "" };
                    format!("; {failure:#}{hint}")
                });
                let (why, later) = (why.unwrap_or_default(), self.says_later(tables).await?);
                writeln!(terminal.err, "pending rows: {published} are sent{why}{later}")?;
            }
        }
    }

    /// Rows that wait for one that is abandoned are not sent before a person decides.
    fn blocked_for_good(&self, report: &PollerReport) -> Option<Failure> {
        let abandoned: u64 = report.tables.iter().map(|table| table.abandoned).sum();
        if abandoned == 0 || self.config.dead_letters.hold_key == HoldKeys::No {
            return None;
        }
        let what = format!(
            "{abandoned} of these rows could not be delivered, and later rows of their keys wait \
             for them"
        );
        Some(Failure::of(Case::SwitchHeld, what))
    }

    /// # Errors
    /// A row is pending that is older than the slot.
    pub(super) async fn refuse_unsent(&self, tables: &[PolledTable]) -> Result<(), TaskError> {
        if self.is_all_sent(tables).await? {
            return Ok(());
        }
        let what = "rows that are older than the slot were made pending again meanwhile";
        Err(Failure::of(Case::Switching, what).into())
    }

    /// Whether no row is pending that is older than the slot.
    async fn is_all_sent(&self, tables: &[PolledTable]) -> Result<bool, TaskError> {
        for table in tables {
            let query = table.is_any_switched_pending();
            if self.books.query_one(&query, &[]).await?.try_get(0)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn worker_parts(
        &self,
        holder: Uuid,
        poller: Poller,
        clock: LeaseClock,
        reports: watch::Sender<WorkerReport>,
        shutdown: watch::Receiver<Running>,
    ) -> Result<WorkerParts<Endpoint>, Failure> {
        let (config, lease) = (self.config, prepare::lease_length(self.config));
        let settings = self.sql_settings(holder, RowScope::Switched);
        let name = worker_of_switch(&config.name);
        let names = self.names.clone();
        Ok(WorkerParts {
            poller,
            clock,
            database: Database::new(self.endpoint()?, self.tables.clone(), settings),
            leases: LeaseTable::new(self.endpoint()?, names, holder, name, lease.whole()),
            lease,
            listener: None,
            kafka: prepare::producer_settings(config),
            reports,
            shutdown,
            // Nobody can ask for it: this command has no admin endpoint.
            tap: taps(TapShows::Metadata).1,
        })
    }
}
