//! The monitor's loop: look, judge, tell, wait.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use relay::{
    Code, Failure, Outboxes, Snapshot, State,
    source::{
        Baseline, Catalog, Gap, LastGood, Moves, SlotHealth, SlotLook,
        publication::{Watched, compare, is_note},
        slot_checks,
    },
    witness::History,
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    announce::{Announced, announce},
    catalog::{self, Sought},
    connection::{ANSWER_WITHIN, Connect, Driver, SqlSession, drive, unanswered},
    lag::{Blame, Lag, WindowLimits},
    moves,
    pace::Pace,
    pins::{self, WalPin},
    report::{MonitorReport, Polled, RelayReport, SlotView},
    server, slot,
    threshold::{Thresholds, Watch},
};

mod found;
mod gaps;
mod memory;

use found::Found;

/// What the monitor watches.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// The configured tables; empty: all that are published.
    pub outboxes: Outboxes,
    /// `monitor.interval`.
    pub interval: Duration,
    /// `monitor.bytes_behind`.
    pub thresholds: Thresholds,
    /// The window's limits, to tell who is to blame.
    pub window: WindowLimits,
}

/// What the relay is told.
#[derive(Debug, Clone, PartialEq)]
pub enum MonitorEvent {
    /// Rows may have been left out: confirm nothing more. Once per code.
    GapSuspected(Box<Gap>),
    /// Slot, publication and tables are as they must be.
    SourceSeen(Box<SourceState>),
    /// The server wants to stop and waits for what is unconfirmed: let go, stay away. Once per
    /// stop.
    ServerStopping,
}

/// A look at which nothing was wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceState {
    /// The slot.
    pub look: SlotLook,
    /// Publication and tables.
    pub catalog: Catalog,
}

/// How the monitor is connected to the rest.
#[derive(Debug)]
pub struct Channels {
    /// The relay's side of the story.
    pub relay: watch::Receiver<RelayReport>,
    /// To the relay. When it is full, the same is told again after the next look.
    pub events: mpsc::Sender<MonitorEvent>,
    /// To whoever shows it.
    pub report: watch::Sender<MonitorReport>,
}

/// How often a stopping server is asked again.
const STOP_INTERVAL: Duration = Duration::from_millis(500);

/// After the connection broke the server is asked at once why, but no more often than this.
const BREATH: Duration = Duration::from_millis(200);

/// Room in the channel that good looks leave to what is wrong.
const KEPT_FREE: usize = 2;

/// Watches until nobody receives the events any more.
pub async fn run(settings: Settings, connect: impl Connect + Send + Sync, channels: Channels) {
    let mut monitor = Monitor::new(settings, connect, channels);
    loop {
        let looked = monitor.look().await;
        monitor.report.ticked_at = Instant::now();
        match looked {
            Ok(look) => monitor.seen(look),
            Err(failure) => monitor.unseen(failure),
        }
        monitor.channels.report.send_replace(monitor.report.clone());
        if monitor.wait().await == Next::End {
            return;
        }
    }
}

/// What to do after waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Look,
    End,
}

struct Monitor<C> {
    settings: Settings,
    connect: C,
    channels: Channels,
    session: Option<Session>,
    report: MonitorReport,
    /// What the relay's latest session found: what was remembered before says nothing more.
    baseline: Option<Arc<Baseline>>,
    /// Publication and tables as they were when all was well.
    remembered: Option<Catalog>,
    last_good: Option<LastGood>,
    /// Codes of the gaps that the relay knows of.
    told: BTreeSet<Code>,
    /// Codes of the alterations that it was this monitor who told of, since that session began.
    announced: BTreeSet<Code>,
    /// How things stood when the last of them was found.
    found: Option<Found>,
    thresholds: Watch,
    pace: Pace,
    stop: Option<StopTold>,
}

struct Session {
    connection: SqlSession,
    version: i32,
    /// Which server this is, where the role may ask.
    history: Option<History>,
}

/// The relay knows that the server is stopping.
#[derive(Debug, Clone, Copy)]
struct StopTold;

/// What one look shows.
struct Look {
    slot: SlotLook,
    catalog: Catalog,
    /// What people should hear of besides.
    notes: Vec<Failure>,
    pin: Option<WalPin>,
    history: Option<History>,
}

/// What people should hear of that is neither of the slot nor of the publication.
fn notes(moves: &[Moves], version: i32) -> Vec<Failure> {
    moves.iter().map(Moves::finding).chain(server::outdated(version)).collect()
}

impl<C: Connect> Monitor<C> {
    async fn look(&mut self) -> Result<Look, Failure> {
        // That an old connection is dead says nothing of the server: a new one tells why.
        if let Some(session) = self.session.take()
            && let Ok(look) = self.read(session).await
        {
            return Ok(look);
        }
        let session = self.open().await?;
        self.read(session).await
    }

    async fn open(&mut self) -> Result<Session, Failure> {
        let connected = tokio::time::timeout(ANSWER_WITHIN, self.connect.connect()).await;
        let mut connection = connected.map_err(|_| unanswered("a connection attempt"))??;
        let SqlSession { client, driver } = &mut connection;
        let (version, history) = drive(driver, async {
            let version = server::version(&mut &*client).await?;
            // A role may be kept from asking; then only the stream knows where it is.
            let history = server::identity(&mut &*client).await.ok();
            Ok((version, history))
        })
        .await?;
        Ok(Session { connection, version, history })
    }

    /// Reads everything; the connection is kept only when all of it was answered.
    async fn read(&mut self, mut session: Session) -> Result<Look, Failure> {
        let before = self.before();
        let sought = Sought {
            publication: &self.settings.publication,
            outboxes: &self.settings.outboxes,
            remembered: before.as_ref(),
        };
        let Session { connection: SqlSession { client, driver }, version, history } = &mut session;
        let history = history.clone();
        let look = drive(driver, async {
            let slot = slot::look(&mut &*client, *version, &self.settings.slot).await?;
            let catalog = catalog::look(&mut &*client, *version, sought).await?;
            let moves = moves::look(client, &catalog).await?;
            let pin = match &slot.slot {
                Some(slot) if pins::is_worth_asking(slot) => pins::oldest(client).await?,
                _ => None,
            };
            Ok(Look { slot, catalog, notes: notes(&moves, *version), pin, history })
        })
        .await?;
        self.session = Some(session);
        Ok(look)
    }

    async fn wait(&mut self) -> Next {
        let pause = if self.stop.is_some() { STOP_INTERVAL } else { self.settings.interval };
        let broken = async {
            match &mut self.session {
                Some(session) => closed(&mut session.connection.driver).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.channels.events.closed() => return Next::End,
            () = tokio::time::sleep(pause) => return Next::Look,
            () = broken => {}
        }
        self.session = None;
        tokio::time::sleep(BREATH).await;
        Next::Look
    }
}

async fn closed(driver: &mut Driver) {
    driver.await;
}

impl<C> Monitor<C> {
    /// One that has seen nothing.
    fn new(settings: Settings, connect: C, channels: Channels) -> Self {
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
            told: BTreeSet::new(),
            announced: BTreeSet::new(),
            found: None,
            pace: Pace::default(),
            stop: None,
        }
    }

    /// PostgreSQL answered.
    fn seen(&mut self, look: Look) {
        if self.report.trouble.take().is_some() {
            tracing::info!(slot = %self.settings.slot, "the monitor sees postgresql again");
        }
        self.stop = None;
        let at = self.report.ticked_at;
        self.report.polled_at = Some(Polled { at, wall: SystemTime::now() });
        self.report.pin = look.pin;
        match self.elsewhere(look.history.as_ref()) {
            None => self.judge(&look.slot, look.catalog, look.notes),
            Some(finding) => self.report.findings = vec![finding],
        }
        self.report.slot = match look.slot.slot {
            Some(slot) => {
                self.measure(&slot, at);
                SlotView::Seen(slot)
            }
            None => {
                (self.report.rates, self.report.seconds_to_limit) = (None, None);
                SlotView::Missing
            }
        };
    }

    /// The monitor reaches another server than the stream, by the same name: what it sees there
    /// says nothing about the stream's slot, and no more than that is said.
    fn elsewhere(&self, here: Option<&History>) -> Option<Failure> {
        let snapshot = self.channels.relay.borrow();
        let there = &snapshot.snapshot.baseline.as_ref()?.server.history;
        let here = here.filter(|here| *here != there)?;
        let name = |history: &History| {
            format!("system identifier {}, timeline {}", history.system_id, history.timeline)
        };
        Some(
            Failure::new(
                Code::MonitorElsewhere,
                format!(
                    "the monitor reaches another server ({}) than the stream comes from ({})",
                    name(here),
                    name(there)
                ),
            )
            .hint("see which servers the host of postgres.url resolves to, and what stands in between"),
        )
    }

    fn judge(&mut self, look: &SlotLook, catalog: Catalog, notes: Vec<Failure>) {
        let before = self.before();
        let watched =
            Watched { publication: &self.settings.publication, outboxes: &self.settings.outboxes };
        let checked = look.mark();
        let slot = slot_checks::fit(&self.settings.slot, look);
        let published = compare(watched, before.as_ref(), &catalog);
        let confirmed = slot.as_ref().ok().and_then(|slot| slot.confirmed_flush_lsn);
        let findings: Vec<Failure> = slot.err().into_iter().chain(published).chain(notes).collect();
        self.announce_notes(&findings);
        self.report.findings = findings;
        for failure in self.report.findings.clone() {
            self.gap(failure, look);
        }
        if self.report.findings.iter().all(is_note) {
            self.overtaken(look);
            self.announce_alterations(before.as_ref(), &catalog, &checked);
            let catalog = catalog.remember(&self.settings.outboxes, before.as_ref());
            let state = SourceState { look: look.clone(), catalog: catalog.clone() };
            // The next look will do as well; what is wrong must find room.
            if self.channels.events.capacity() > KEPT_FREE {
                let event = MonitorEvent::SourceSeen(Box::new(state));
                let _unsent = self.channels.events.try_send(event);
            }
            self.remembered = Some(catalog);
            self.last_good = Some(LastGood { checked, confirmed });
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.channels.relay.borrow().snapshot.clone()
    }

    fn measure(&mut self, slot: &SlotHealth, at: Instant) {
        self.pace.observe(slot, at);
        self.report.rates = self.pace.rates();
        self.report.seconds_to_limit = self.pace.seconds_to_limit(slot);
        if let Some(crossing) = self.thresholds.observe(slot.bytes_behind()) {
            let snapshot = self.snapshot();
            let blame = Blame::find(&snapshot, Lag::split(&snapshot, slot), self.settings.window);
            let seconds_to_limit = self.report.seconds_to_limit;
            let name = &self.settings.slot;
            announce(
                crossing,
                &Announced {
                    name,
                    slot,
                    limits: self.settings.thresholds,
                    blame,
                    seconds_to_limit,
                },
            );
        }
    }

    /// PostgreSQL did not answer, or answered that it does not want to.
    fn unseen(&mut self, failure: Failure) {
        self.catch_up();
        self.report.slot = SlotView::Unknown;
        self.report.pin = None;
        (self.report.rates, self.report.seconds_to_limit) = (None, None);
        if self.report.trouble.is_none() {
            tracing::warn!(
                slot = %self.settings.slot, code = %failure.code,
                "the monitor cannot see the slot: {}", failure.message
            );
        }
        self.stopping(&failure);
        self.report.trouble = Some(failure);
    }

    /// 57P03 to a router that had a stream means that the server is on its way down: it was up a
    /// moment ago. Whether something holds it up, and how long that may take, is for the relay to
    /// know.
    fn stopping(&mut self, failure: &Failure) {
        let had_stream = match self.snapshot().condition.state {
            State::Streaming | State::Blocked | State::Draining | State::Failed => true,
            State::Starting | State::Standby => false,
        };
        if failure.code != Code::ServerNotReady || !had_stream {
            self.stop = None;
        } else if self.stop.is_none()
            && self.channels.events.try_send(MonitorEvent::ServerStopping).is_ok()
        {
            self.stop = Some(StopTold);
        }
    }
}
