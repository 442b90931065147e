//! Retention beside the stream: a task of its own with its own connection, so that neither a lock
//! nor a slow statement can delay the stream.
//!
//! Rows are removed only while this router streams and nothing is suspected, on the server that it
//! streams from ([`relay::delivered::Confirmed`]). What is confirmed is the least of three
//! positions: the slot's `confirmed_flush_lsn`; what this process has confirmed (with a state
//! topic, the witness names that, too), because a slot that a person has advanced is confirmed and
//! not delivered; and the end of WAL when the monitor last found publication and tables as they
//! must be, because rows that the publication left out are confirmed as well.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use relay::{
    Case, Code, Failure, Lsn, OutboxTable,
    delivered::{Acknowledged, Confirmed, Covered, Evidence, Horizons, Witnessed},
    source::Baseline,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{
    abandoned,
    events::event_parts,
    figures,
    held::ReliedOn,
    horizon,
    obstacle::obstacle,
    partitions::{self, course::Looks},
    report::RetentionReport,
    session::{Backend, Session},
    settings::RetentionSettings,
    step::Rest,
    sweep::Sweep,
    target::Target,
};
use crate::{
    codes::hint,
    config::RetentionMode,
    monitor::{
        Connect, MonitorReport, RelayReport, SqlSession,
        connection::{Driver, drive_without_limit},
        server, slot,
    },
};

/// Between two looks at the slot; shorter where sweeps follow each other faster.
const TICK: Duration = Duration::from_secs(5);

/// A server that does not answer a connection attempt for so long is tried again later.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// Between two clean-ups of the table of held events, which reads the whole table.
const ABANDONED_INTERVAL: Duration = Duration::from_secs(3_600);

/// How many looks at the slot may find a horizon unconfirmed before the server is asked to write
/// its WAL out.
const PATIENCE: u32 = 2;

/// What the task is given.
#[derive(Debug)]
pub struct Channels {
    /// What the streaming task publishes.
    pub relay: watch::Receiver<RelayReport>,
    /// What the monitor publishes.
    pub monitor: watch::Receiver<MonitorReport>,
    /// To the admin endpoint.
    pub report: watch::Sender<RetentionReport>,
}

/// Runs for ever, or returns at once where retention is off.
pub async fn run(
    settings: RetentionSettings,
    connect: impl Connect + Send + Sync,
    channels: Channels,
) {
    if !settings.is_on() {
        return;
    }
    let report = channels.report.borrow().clone();
    let mut task =
        Task { settings, connect, channels, connection: None, report, abandoned_at: None };
    let tick = TICK.min(task.settings.section.interval);
    loop {
        let round = task.round().await;
        task.report(round);
        sleep(tick).await;
    }
}

struct Task<C> {
    settings: RetentionSettings,
    connect: C,
    channels: Channels,
    connection: Option<Connection>,
    report: RetentionReport,
    /// When the table of held events was last cleaned up.
    abandoned_at: Option<Instant>,
}

/// A connection, and what is known on it.
struct Connection {
    sql: SqlSession,
    backend: Backend,
    known: Known,
}

/// What a connection's rounds know: horizons are valid on it only.
#[derive(Default)]
struct Known {
    horizons: Horizons,
    unconfirmed: u32,
    swept_at: Option<Instant>,
    measured_at: Option<Instant>,
    made_at: Option<Instant>,
    /// One for each table, in the order of the configuration.
    looks: Vec<Looks>,
    /// Why partitions could not be made.
    unmade: Option<Failure>,
}

/// What a round may use of the task while the connection is driven.
struct Round<'t> {
    settings: &'t RetentionSettings,
    channels: &'t Channels,
    report: &'t mut RetentionReport,
    abandoned_at: &'t mut Option<Instant>,
}

/// What a round found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing was due.
    Nothing,
    /// Every table was swept.
    Swept,
}

impl<C: Connect> Task<C> {
    async fn round(&mut self) -> Result<Found, Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open().await?,
        };
        let Connection { sql: SqlSession { client, driver }, backend, known } = &mut connection;
        let mut round = Round {
            settings: &self.settings,
            channels: &self.channels,
            report: &mut self.report,
            abandoned_at: &mut self.abandoned_at,
        };
        let session = Session { client, backend };
        let found = drive(driver, Box::pin(round.carry_out(session, known))).await;
        // An error of a statement leaves the connection as it was, and the horizons with it.
        let is_lost = matches!(&found, Err(failure) if failure.code == Code::ServerUnreachable);
        if !is_lost && !connection.sql.client.is_closed() {
            self.connection = Some(connection);
        }
        found
    }

    async fn open(&self) -> Result<Connection, Failure> {
        let connected = timeout(CONNECT_LIMIT, self.connect.connect()).await;
        let silent = || Failure::new(Code::ServerUnreachable, "PostgreSQL does not answer");
        let mut sql = connected.map_err(|_| silent())??;
        let SqlSession { client, driver } = &mut sql;
        let backend = drive(driver, Backend::prepare(client, &self.settings)).await?;
        Ok(Connection { sql, backend, known: Known::default() })
    }
}

impl<C> Task<C> {
    fn report(&mut self, round: Result<Found, Failure>) {
        match round {
            Ok(Found::Nothing) => {}
            Ok(Found::Swept) => {
                self.report.last_success = SystemTime::now();
                if self.report.failure.take().is_some() {
                    tracing::info!("delivered rows are removed again");
                }
            }
            Err(failure) => {
                self.report.errors += 1;
                let is_known = self.report.failure.as_ref().is_some_and(|known| {
                    (known.code, &known.message) == (failure.code, &failure.message)
                });
                if !is_known {
                    tracing::warn!(
                        code = %failure.code, hint = hint(&failure),
                        "delivered rows are not removed: {}", failure.message_with_causes()
                    );
                }
                self.report.failure = Some(failure);
            }
        }
        self.channels.report.send_replace(self.report.clone());
    }
}

impl Round<'_> {
    async fn carry_out(
        &mut self,
        session: Session<'_>,
        known: &mut Known,
    ) -> Result<Found, Failure> {
        self.measure(session, known).await;
        let made = self.make_partitions(session, known).await;
        if let Err(failure) = &made {
            is_alive(session, failure)?;
        }
        self.report.waits =
            obstacle(&self.channels.relay.borrow(), &self.channels.monitor.borrow());
        if self.report.waits.is_some() {
            return made.map(|()| Found::Nothing);
        }
        let confirmed = self.confirmed(session).await?;
        let covered = known.horizons.confirmed(&confirmed);
        match known.horizons.waits_for() {
            Some(_) => known.unconfirmed += 1,
            None => known.unconfirmed = 0,
        }
        if known.unconfirmed >= PATIENCE {
            horizon::flush(session).await?;
        }
        known.horizons.offer(horizon::take(session).await?);
        let is_due = |at: Option<Instant>, interval| at.is_none_or(|at| at.elapsed() >= interval);
        let Some(covered) =
            covered.filter(|_| is_due(known.swept_at, self.settings.section.interval))
        else {
            return made.map(|()| Found::Nothing);
        };
        known.swept_at = Some(Instant::now());
        session.lock(self.settings).await?;
        let mut first_failure = known.unmade.clone();
        known.looks.resize_with(self.settings.tables.len(), Looks::default);
        let tables = self.settings.tables.iter().zip(&mut known.looks);
        for (position, (outbox, looks)) in tables.enumerate() {
            let swept = self.sweep_table(session, (position, outbox), covered, looks).await;
            if let Err(failure) = swept {
                is_alive(session, &failure)?;
                first_failure = first_failure.or(Some(failure));
            }
        }
        if is_due(*self.abandoned_at, ABANDONED_INTERVAL) {
            *self.abandoned_at = Some(Instant::now());
            match abandoned::remove(session, self.settings, &confirmed).await {
                Ok(removed) => self.report.abandoned += removed,
                Err(failure) => first_failure = first_failure.or(Some(failure)),
            }
        }
        session.unlock(self.settings).await?;
        first_failure.map_or(Ok(Found::Swept), Err)
    }

    /// Reads the size of each table, also while nothing may be removed: then it grows.
    async fn measure(&mut self, session: Session<'_>, known: &mut Known) {
        let interval = self.settings.section.interval;
        if known.measured_at.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        known.measured_at = Some(Instant::now());
        for (outbox, report) in self.settings.tables.iter().zip(&mut self.report.tables) {
            let read = async {
                let target = Target::find(session, self.settings, outbox).await?;
                figures::read(session, &target).await
            };
            match read.await {
                Ok(figures) => report.figures = figures,
                // The sweep meets and reports it, too.
                Err(failure) => tracing::debug!(table = %outbox.name, "not measured: {failure:#}"),
            }
        }
        self.channels.report.send_replace(self.report.clone());
    }

    /// Makes partitions ahead, also while nothing may be removed: events go on to be written.
    async fn make_partitions(
        &self,
        session: Session<'_>,
        known: &mut Known,
    ) -> Result<(), Failure> {
        let interval = self.settings.section.interval;
        let is_due = known.made_at.is_none_or(|at| at.elapsed() >= interval);
        if self.settings.section.mode != RetentionMode::DropPartitions || !is_due {
            return Ok(());
        }
        self.check_server(session).await?;
        match session.lock(self.settings).await {
            Ok(()) => {}
            // That session makes them.
            Err(failure) if failure.case == Some(Case::RetentionBusy) => return Ok(()),
            Err(failure) => return Err(failure),
        }
        known.made_at = Some(Instant::now());
        known.unmade = None;
        for outbox in &self.settings.tables {
            let made = async {
                let target = Target::find(session, self.settings, outbox).await?;
                partitions::make_ahead(session, self.settings, &target).await
            };
            if let Err(failure) = made.await {
                is_alive(session, &failure)?;
                known.unmade.get_or_insert(failure);
            }
        }
        session.unlock(self.settings).await?;
        known.unmade.clone().map_or(Ok(()), Err)
    }

    /// Every row that is delivered, and old enough.
    async fn sweep_table(
        &mut self,
        session: Session<'_>,
        (position, outbox): (usize, &OutboxTable),
        covered: Covered,
        looks: &mut Looks,
    ) -> Result<(), Failure> {
        // Before the tables are read: the router goes on to write to them.
        let relied_on = {
            let relay = &self.channels.relay.borrow().snapshot;
            ReliedOn { held: relay.held.table, notes: relay.witness.notes }
        };
        let target = Target::find(session, self.settings, outbox).await?;
        target.check_removable(session, self.settings, relied_on).await?;
        let known = Arc::clone(&self.channels.relay.borrow().snapshot.witness.since);
        let events = event_parts(session, (&target.name, target.oid), &known).await?;
        let sweep = Sweep::of(&target, self.settings, covered.rows_of(events));
        let mut sweep = sweep.with_looks(std::mem::take(looks));
        let swept = self.sweep(session, position, &mut sweep).await;
        self.tell_older(position, sweep.older());
        *looks = sweep.into_looks();
        swept
    }

    /// Rows that are older than the table's place in the pipeline stay until a person decides.
    fn tell_older(&mut self, position: usize, older: u64) {
        let Some(table) = self.report.tables.get_mut(position) else { return };
        if table.older == 0 && older > 0 {
            tracing::warn!(
                table = %table.name, rows = older,
                hint = "once they are not needed: outbox-router cleanup --older",
                "rows stay that were written before the table was an outbox of this pipeline, or \
                 was altered: nothing shows that they were ever sent"
            );
        }
        table.older = older;
    }

    /// The same address may lead to another server than the stream comes from.
    async fn check_server(&self, session: Session<'_>) -> Result<(), Failure> {
        let Some(baseline) = self.baseline() else { return Ok(()) };
        // The role may lack the right to ask; a standby was refused already.
        match server::identity(&mut { session.client }).await {
            Ok(here) if here != baseline.server.history => {
                let what = "the connection that removes rows reaches another server than the stream \
                            comes from";
                Err(Failure::of(Case::RetentionOpen, what))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The server that the stream comes from, as it was when the stream began.
    fn baseline(&self) -> Option<Arc<Baseline>> {
        self.channels.relay.borrow().snapshot.baseline.as_ref().map(Arc::clone)
    }

    /// Up to where everything is delivered.
    async fn confirmed(&self, session: Session<'_>) -> Result<Confirmed, Failure> {
        let baseline = self.baseline();
        let (position, verified) = {
            let relay = &self.channels.relay.borrow().snapshot;
            // What it shows then of the tables is of the same reading, or of a later one.
            (relay.confirmed, relay.witness.verified.unwrap_or(Lsn::ZERO))
        };
        let here = session.identity().await?;
        let slot_name = &self.settings.slot;
        let reading =
            slot::read(&mut { session.client }, session.backend.version, slot_name).await?;
        Confirmed::by(Evidence {
            here: &here,
            slot_name,
            slot: relay::source::slot_checks::suitable(slot_name, &reading)?,
            acknowledged: Acknowledged {
                history: baseline.as_ref().map(|baseline| &baseline.server.history),
                position,
                last_commit: None,
                by: Witnessed::ByRouter,
            },
            verified,
            nothing_before: None,
        })
    }

    async fn sweep(
        &mut self,
        session: Session<'_>,
        position: usize,
        sweep: &mut Sweep<'_>,
    ) -> Result<(), Failure> {
        let target = sweep.target;
        target.check_way()?;
        let mut removed = 0;
        let outcome = loop {
            // Whatever was found meanwhile stops it before the next rows.
            let obstacle = obstacle(&self.channels.relay.borrow(), &self.channels.monitor.borrow());
            if obstacle.is_some() {
                self.report.waits = obstacle;
                break Ok(());
            }
            match sweep.step(session).await {
                Ok(step) => {
                    removed += step.removed;
                    self.count(position, step.removed);
                    if step.rest == Rest::None {
                        break Ok(());
                    }
                }
                Err(failure) => break Err(failure),
            }
            sleep(self.settings.section.pause).await;
        };
        if removed > 0 {
            tracing::info!(table = %target.name, rows = removed, "removed delivered rows");
        }
        outcome
    }

    fn count(&mut self, position: usize, removed: u64) {
        if let Some(table) = self.report.tables.get_mut(position) {
            table.removed += removed;
        }
        self.channels.report.send_replace(self.report.clone());
    }
}

/// A failure of the connection ends the round; one of a table leaves the others.
fn is_alive(session: Session<'_>, failure: &Failure) -> Result<(), Failure> {
    if session.client.is_closed() || failure.code == Code::ServerUnreachable {
        return Err(failure.clone());
    }
    Ok(())
}

/// Polls the connection while `work` runs.
async fn drive<T>(
    driver: &mut Driver,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    drive_without_limit(driver, work, "the connection that removes rows").await
}
