//! What a verdict is made from, taken from the reports of streaming task and monitor at one moment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relay::{Failure, HeldLimits, PgTimestamp, Rereads, ServerNotice, Snapshot, State, Window};
use tokio::time::Instant;

use crate::monitor::{
    Blame, Gap, Lag, MonitorReport, RelayReport, Thresholds,
    watch::figures::{Holder, StandbySlot},
};

/// Age at which the streaming task's report counts as stale. The task publishes a report every half
/// second; calls into librdkafka that block may delay it by seconds.
pub const RELAY_STALE_AFTER: Duration = Duration::from_secs(30);

/// Age at which the monitor's report counts as stale. A round takes its interval, which is 10 s at
/// most, and then at most five answers of 5 s each.
pub const MONITOR_STALE_AFTER: Duration = Duration::from_secs(120);

/// The configured limits that a verdict depends on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// `monitor.bytes_behind`.
    pub thresholds: Thresholds,
    /// The window's limits.
    pub window: Window,
}

/// What a verdict is made from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The router's state and numbers.
    pub snapshot: &'a Snapshot,
    /// What the monitor sees.
    pub monitor: &'a MonitorReport,
    /// The configured limits.
    pub limits: Limits,
    /// The task that has published nothing for too long, if there is one.
    pub stale_task: Option<&'static str>,
    /// The gap that waits for a person, if there is one.
    pub gap: Option<&'a Gap>,
    /// What the slot is behind, by what it waits for; `None` when the slot was not read now, or
    /// another router holds it.
    pub lag: Option<Lag>,
    /// At which part of the pipeline it stands.
    pub blame: Blame,
    /// The slots of standbys that keep the walsender from sending what lies past `received`; empty
    /// where nothing is unread.
    pub held_by_standbys: Vec<&'a StandbySlot>,
    /// What the server warns of within the stream. A warning of standbys is left out where their
    /// slots were read.
    pub warning: Option<&'a ServerNotice>,
    /// What the slot is behind, as it was read last, however long ago.
    pub bytes_behind: Option<u64>,
    /// The age of the oldest event that is not acknowledged, by this machine's clock.
    pub oldest_unacked: Option<Duration>,
}

impl<'a> Facts<'a> {
    /// The facts of one moment.
    pub fn of(
        relay: &'a RelayReport,
        monitor: &'a MonitorReport,
        limits: Limits,
        now: Instant,
    ) -> Self {
        let snapshot = &relay.snapshot;
        let lag = monitor.slot.health().and_then(|slot| Lag::split(snapshot, slot));
        let last = monitor.watch.last.as_ref().and_then(|last| last.slot.as_ref());
        let seen = monitor.slot.health().or(last);
        let held_by_standbys = held_by_standbys(snapshot, monitor, lag);
        let warning = warning(snapshot, monitor, lag);
        let rereads = snapshot.rereads.is_some() && lag.is_some_and(|lag| lag.unread > 0);
        let waits_for_standby =
            !held_by_standbys.is_empty() || warning.is_some_and(ServerNotice::is_of_standby);
        let blame = match waits_for_standby || rereads {
            true => Blame::Postgres,
            false => Blame::find(snapshot, lag, limits.window),
        };
        Self {
            snapshot,
            monitor,
            limits,
            stale_task: stale_task(relay, monitor, now),
            gap: gap(snapshot, monitor),
            lag,
            blame,
            held_by_standbys,
            warning,
            bytes_behind: seen.map(|slot| slot.bytes_behind()),
            oldest_unacked: snapshot.oldest_unacked.map(|at| age(at, SystemTime::now())),
        }
    }

    /// The router's state.
    pub fn state(&self) -> State {
        self.snapshot.condition.state
    }

    /// What is held in the table of dead letters.
    pub fn held(&self) -> HeldLimits {
        self.snapshot.held.held
    }

    /// The program that reads the slot, if this router stands by and that one is not of this
    /// pipeline.
    pub fn foreign_reader(&self) -> Option<&'a Failure> {
        let failure = self.monitor.foreign_reader.as_ref();
        failure.filter(|_| self.state() == State::Standby)
    }

    /// What the server reads again before it sends the first row of the session, if rows wait.
    pub fn rereads(&self) -> Option<Rereads> {
        let waits = self.lag.is_some_and(|lag| lag.unread > 0);
        self.snapshot.rereads.filter(|_| waits && self.state() == State::Streaming)
    }

    /// The walsender that holds the slot, as it was read last.
    pub fn holder(&self) -> Option<&'a Holder> {
        self.monitor.watch.figures.as_ref()?.holder.as_ref()
    }

    /// What the monitor finds wrong with slot, publication and tables.
    pub fn defect(&self) -> Option<&'a Failure> {
        self.monitor.findings.iter().find(|finding| !finding.is_note())
    }
}

/// Whether the streaming task has published nothing for too long.
pub fn is_relay_stale(relay: &RelayReport, now: Instant) -> bool {
    now.duration_since(relay.published_at) > RELAY_STALE_AFTER
}

/// Whether the monitor has published nothing for too long.
pub fn is_monitor_stale(monitor: &MonitorReport, now: Instant) -> bool {
    now.duration_since(monitor.ticked_at) > MONITOR_STALE_AFTER
}

/// A walsender sends nothing that a standby named in `synchronized_standby_slots` has not
/// confirmed. While nothing is unread, it has nothing to wait with.
fn held_by_standbys<'a>(
    snapshot: &Snapshot,
    monitor: &'a MonitorReport,
    lag: Option<Lag>,
) -> Vec<&'a StandbySlot> {
    let is_unread = snapshot.condition.state == State::Streaming
        && snapshot.has_session
        && lag.is_some_and(|lag| lag.unread > 0);
    let standbys = monitor.watch.figures.as_ref().and_then(|figures| figures.standbys.as_ref());
    match standbys.filter(|_| is_unread) {
        Some(standbys) => standbys.blocking().collect(),
        None => Vec::new(),
    }
}

/// The figures say more of standbys than the warning, and are of now.
fn warning<'a>(
    snapshot: &'a Snapshot,
    monitor: &MonitorReport,
    lag: Option<Lag>,
) -> Option<&'a ServerNotice> {
    let figures = monitor.watch.figures.as_ref();
    let are_standbys_known = figures.is_some_and(|figures| figures.standbys.is_some())
        || lag.is_some_and(|lag| lag.unread == 0);
    let warning = snapshot.warning.as_ref()?;
    (!warning.is_of_standby() || !are_standbys_known).then_some(warning)
}

fn stale_task(relay: &RelayReport, monitor: &MonitorReport, now: Instant) -> Option<&'static str> {
    if is_relay_stale(relay, now) {
        Some("streaming")
    } else {
        is_monitor_stale(monitor, now).then_some("monitor")
    }
}

/// The gap that waits for a person's acceptance.
pub fn gap<'a>(snapshot: &'a Snapshot, monitor: &'a MonitorReport) -> Option<&'a Gap> {
    let witness = &snapshot.witness;
    // A gap in the witness comes first: its name is the one by which a person accepts it.
    witness.gaps.first().or(monitor.gap.as_ref()).or(witness.other_server_gap.as_ref())
}

/// The age at `now` of what the server's clock dates; clocks that differ give no negative age.
pub fn age(at: PgTimestamp, now: SystemTime) -> Duration {
    let at = Duration::from_millis(u64::try_from(at.unix_millis()).unwrap_or_default());
    now.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_negative() {
        let at = PgTimestamp::from_unix_micros(5_000_000);
        let now = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(age(at, now(9)), Duration::from_secs(4));
        assert_eq!(age(at, now(2)), Duration::ZERO);
    }
}
