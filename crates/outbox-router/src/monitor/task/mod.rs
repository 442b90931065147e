//! The monitor's loop: read the source, check it, report, wait.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use relay::{
    Code, Failure, Snapshot,
    source::{
        Baseline, Catalog, History, LastGood, RowMovePrivileges, SlotHealth, SlotReading,
        publication::{Watched, compare},
        slot_checks,
    },
};
use tokio::time::Instant;

use super::{
    announce::{Announced, announce},
    catalog::{self, Sought},
    connection::{ANSWER_WITHIN, Connect, Driver, SqlSession, drive, unanswered},
    decided,
    lag::{Blame, Lag},
    moves,
    polled::Polled,
    rates::SlotRates,
    report::{MonitorReport, ObservedSlot},
    server, slot,
    threshold::Watch,
};

mod decision;
mod figures;
mod figures_memory;
mod found;
mod gaps;
mod memory;
mod origin;
mod ports;
mod stopping;
mod tables;

use decision::gap_decided;
use figures_memory::{ConnectionBroke, FiguresMemory};
use found::FoundAt;
use origin::Origin;
pub use ports::{Channels, MonitorEvent, MonitorSettings, SourceState};

/// Pause between two attempts to reach a server that is stopping.
const STOP_INTERVAL: Duration = Duration::from_millis(500);

/// Pause between the end of a connection and the next attempt, which learns why it ended; short,
/// but it limits how often a server that closes connections is asked.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// Room in the channel that is kept for what is wrong: [`MonitorEvent::SourceVerified`] does not
/// use it.
const RESERVED_EVENTS: usize = 2;

/// Runs until the streaming task no longer receives the events.
pub async fn run(
    settings: MonitorSettings,
    connect: impl Connect + Send + Sync,
    channels: Channels,
) {
    let mut monitor = Monitor::new(settings, connect, channels);
    loop {
        let reading = monitor.next_reading().await;
        monitor.report.ticked_at = Instant::now();
        match reading {
            Ok(reading) => {
                monitor.take(reading);
                monitor.publish();
                monitor.read_figures().await;
                monitor.read_tables().await;
            }
            Err(failure) => monitor.not_read(failure),
        }
        monitor.publish();
        if monitor.wait().await == Next::End {
            return;
        }
    }
}

/// What to do after waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Read,
    End,
}

struct Monitor<C> {
    settings: MonitorSettings,
    connect: C,
    channels: Channels,
    session: Option<MonitorSession>,
    report: MonitorReport,
    /// What the streaming task's latest session found; a newer baseline replaces `remembered`.
    baseline: Option<Arc<Baseline>>,
    /// Publication and tables as they were when nothing was wrong.
    remembered: Option<Catalog>,
    last_good: Option<LastGood>,
    /// Codes of the gaps that were reported to the streaming task.
    reported: BTreeSet<Code>,
    /// Codes of the alterations that this monitor has announced since that session began.
    announced: BTreeSet<Code>,
    /// Generation and holder of the slot when the last gap was found.
    found: Option<FoundAt>,
    thresholds: Watch,
    pace: SlotRates,
    figures: FiguresMemory,
    /// When the sizes of the tables are read again; `None`: now.
    tables_due: Option<Instant>,
    stop: Option<StopReported>,
}

struct MonitorSession {
    connection: SqlSession,
    version: i32,
    /// Which server this is; `None` where the role may not ask.
    history: Option<History>,
}

/// [`MonitorEvent::ServerStopping`] was sent for the present stop.
#[derive(Debug, Clone, Copy)]
struct StopReported;

/// What one reading shows.
struct MonitorReading {
    slot: SlotReading,
    catalog: Catalog,
    /// Notes that are neither of the slot nor of the publication.
    notes: Vec<Failure>,
    decided: Option<u64>,
    history: Option<History>,
}

/// Notes that are neither of the slot nor of the publication.
fn notes(moves: &[RowMovePrivileges], version: i32) -> Vec<Failure> {
    moves.iter().map(RowMovePrivileges::finding).chain(server::outdated(version)).collect()
}

impl<C: Connect> Monitor<C> {
    async fn next_reading(&mut self) -> Result<MonitorReading, Failure> {
        // A failure of an old connection says nothing about the server; a new connection learns the
        // reason.
        if let Some(session) = self.session.take()
            && let Ok(reading) = self.read(session).await
        {
            return Ok(reading);
        }
        let session = self.open().await?;
        self.read(session).await
    }

    async fn open(&mut self) -> Result<MonitorSession, Failure> {
        // Another server may answer, on which positions mean something else.
        let connected = tokio::time::timeout(ANSWER_WITHIN, self.connect.connect()).await;
        let mut connection = connected.map_err(|_| unanswered("a connection attempt"))??;
        let SqlSession { client, driver } = &mut connection;
        let (version, history) = drive(driver, async {
            let version = server::version(&mut &*client).await?;
            // The role may lack the right to ask; then the monitor cannot notice that it reaches
            // another server than the stream.
            let history = server::identity(&mut &*client).await.ok();
            Ok((version, history))
        })
        .await?;
        Ok(MonitorSession { connection, version, history })
    }

    /// Reads everything. The connection is kept only when every statement was answered.
    async fn read(&mut self, mut session: MonitorSession) -> Result<MonitorReading, Failure> {
        let before = self.before();
        let sought = Sought {
            publication: &self.settings.publication,
            outboxes: &self.settings.outboxes,
            remembered: before.as_ref(),
        };
        let MonitorSession { connection: SqlSession { client, driver }, version, history } =
            &mut session;
        let history = history.clone();
        let reading = drive(driver, async {
            let slot = slot::read(&mut &*client, *version, &self.settings.slot).await?;
            let catalog = catalog::read(&mut &*client, *version, sought).await?;
            let moves = moves::read(client, &catalog, &self.settings.outboxes).await?;
            let decided = decided::count(client, &self.settings.name, &self.settings.slot).await;
            let notes = notes(&moves, *version);
            Ok(MonitorReading { slot, catalog, notes, decided, history })
        })
        .await?;
        self.session = Some(session);
        Ok(reading)
    }

    async fn wait(&mut self) -> Next {
        let pause = if self.stop.is_some() { STOP_INTERVAL } else { self.settings.interval };
        let relay = self.channels.relay.clone();
        let broke = self.figures.broke.take();
        let broken = async {
            match (&mut self.session, broke) {
                (Some(session), _) => closed(&mut session.connection.driver).await,
                (None, Some(ConnectionBroke)) => {}
                (None, None) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.channels.events.closed() => return Next::End,
            () = tokio::time::sleep(pause) => return Next::Read,
            () = gap_decided(self.found, self.baseline.as_ref(), relay) => return Next::Read,
            () = broken => {}
        }
        self.session = None;
        tokio::time::sleep(SHORTEST_PAUSE).await;
        Next::Read
    }
}

async fn closed(driver: &mut Driver) {
    driver.await;
}

impl<C> Monitor<C> {
    /// A monitor that has read nothing yet.
    fn new(settings: MonitorSettings, connect: C, channels: Channels) -> Self {
        Self {
            thresholds: Watch::new(settings.thresholds),
            report: MonitorReport::initial(Instant::now()),
            settings,
            connect,
            channels,
            session: None,
            baseline: None,
            remembered: None,
            last_good: None,
            reported: BTreeSet::new(),
            announced: BTreeSet::new(),
            found: None,
            pace: SlotRates::default(),
            figures: FiguresMemory::default(),
            tables_due: None,
            stop: None,
        }
    }

    /// Evaluates a reading: ends a reported trouble, checks slot and catalog, measures the slot.
    fn take(&mut self, reading: MonitorReading) {
        if self.report.trouble.take().is_some() {
            tracing::info!(slot = %self.settings.slot, "the monitor sees PostgreSQL again");
        }
        self.stop = None;
        let at = self.report.ticked_at;
        let origin = Origin::of(reading.history.as_ref(), &self.channels.relay.borrow().snapshot);
        if let Origin::Elsewhere(finding) = origin {
            self.unknown();
            self.report.findings = vec![finding];
            return;
        }
        self.report.polled_at = Some(Polled { at, wall: SystemTime::now() });
        // What could not be counted stays as it was counted last.
        self.report.decided = reading.decided.or(self.report.decided);
        if origin == Origin::Comparable {
            self.check(&reading.slot, reading.catalog, reading.notes);
        } else {
            self.look(&reading.slot, &reading.catalog, reading.notes);
        }
        let clock = reading.slot.clock_micros;
        self.report.slot = match reading.slot.slot {
            Some(slot) => {
                self.measure(&slot, at);
                ObservedSlot::Seen(slot)
            }
            None => {
                (self.report.rates, self.report.seconds_to_limit) = (None, None);
                ObservedSlot::Missing
            }
        };
        self.remember(clock);
        self.announce_level();
    }

    fn check(&mut self, reading: &SlotReading, catalog: Catalog, notes: Vec<Failure>) {
        let before = self.before();
        let checked = reading.mark();
        let slot = slot_checks::suitable(&self.settings.slot, reading);
        let confirmed = slot.as_ref().ok().and_then(|slot| slot.confirmed_flush_lsn);
        self.find(slot.err(), before.as_ref(), &catalog, notes);
        for failure in self.report.findings.clone() {
            self.gap(failure, reading);
        }
        if self.report.findings.iter().all(Failure::is_note) {
            self.overtaken(reading);
            self.announce_alterations(before.as_ref(), &catalog, &checked);
            let catalog = catalog.remember(&self.settings.outboxes, before.as_ref());
            let state = SourceState { reading: reading.clone(), catalog: catalog.clone() };
            // There will be another reading; room is kept for reports of what is wrong.
            if self.channels.events.capacity() > RESERVED_EVENTS {
                let event = MonitorEvent::SourceVerified(Box::new(state));
                let _unsent = self.channels.events.try_send(event);
            }
            if catalog.is_settled() {
                self.last_good = Some(LastGood { checked, confirmed });
            }
            self.remembered = Some(catalog);
        }
    }

    /// Shows what is wrong here and now, and compares nothing with what the last stream came from:
    /// differences between two servers are no gap that a monitor could judge. The streaming task
    /// judges them before its next session, by the server's history first.
    fn look(&mut self, reading: &SlotReading, catalog: &Catalog, notes: Vec<Failure>) {
        self.catch_up();
        let slot = slot_checks::suitable(&self.settings.slot, reading);
        self.find(slot.err(), None, catalog, notes);
    }

    fn find(
        &mut self,
        slot: Option<Failure>,
        before: Option<&Catalog>,
        now: &Catalog,
        notes: Vec<Failure>,
    ) {
        let watched =
            Watched { publication: &self.settings.publication, outboxes: &self.settings.outboxes };
        let published = compare(watched, before, now);
        let findings: Vec<Failure> = slot.into_iter().chain(published).chain(notes).collect();
        self.announce_notes(&findings);
        self.report.findings = findings;
    }

    fn publish(&self) {
        self.channels.report.send_replace(self.report.clone());
    }

    fn snapshot(&self) -> Snapshot {
        self.channels.relay.borrow().snapshot.clone()
    }

    fn measure(&mut self, slot: &SlotHealth, at: Instant) {
        self.pace.observe(slot, at);
        self.report.rates = self.pace.rates();
        self.report.seconds_to_limit = self.pace.seconds_to_limit(slot);
    }

    /// Logs a crossing of a threshold.
    fn announce_level(&mut self) {
        let Some(slot) = self.report.slot.health() else { return };
        let Some(crossing) = self.thresholds.observe(slot.bytes_behind()) else { return };
        let snapshot = self.snapshot();
        let what = Announced {
            name: &self.settings.slot,
            slot,
            limits: self.settings.thresholds,
            blame: Blame::find(&snapshot, Lag::split(&snapshot, slot), self.settings.window),
            seconds_to_limit: self.report.seconds_to_limit,
            limit: self.nearest_limit(),
        };
        announce(crossing, &what);
    }

    /// Called when PostgreSQL did not answer, or answered that it accepts no connections: clears
    /// what is no longer known.
    fn not_read(&mut self, failure: Failure) {
        self.catch_up();
        self.unknown();
        if self.report.trouble.is_none() {
            tracing::warn!(
                slot = %self.settings.slot, code = %failure.code,
                "the monitor cannot read the slot: {}", failure.message_with_causes()
            );
        }
        self.stopping(&failure);
        self.report.trouble = Some(failure);
    }

    /// The slot was not read in this round. What was read last stays in the report's `watch`, with
    /// the moment at which it was read, and so do pin and decisions: an alert must not end because
    /// nobody looks.
    fn unknown(&mut self) {
        self.report.slot = ObservedSlot::Unknown;
        (self.report.rates, self.report.seconds_to_limit) = (None, None);
    }
}
