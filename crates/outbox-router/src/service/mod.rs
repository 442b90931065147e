//! How the router fares, told at intervals: a line a minute in the log, one where decisions about
//! held events took effect, and more to the service manager (systemd, `Type=notify`) where one
//! listens: that the start is over, how the router fares, that its tasks tick, and that it stops.
//!
//! The messages follow the probes: READY when `/startupz` passes, WATCHDOG only while `/livez`
//! does. So a router whose streaming task or worker hangs is restarted, and one that waits for
//! PostgreSQL, Kafka or a person is not: a restart repairs none of them.
//!
//! Without NOTIFY_SOCKET nothing is sent. A message that cannot be sent stops nothing: systemd then
//! finds out by itself what it was not told.

pub(crate) mod decisions;
mod minute;
mod progress;
mod standing;

use std::{convert::Infallible, time::Duration};

use sd_notify::NotifyState;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    admin::health::{ProbeResult, StartProgress},
    shell::Running,
};
use progress::Progress;
pub(crate) use standing::{Behind, Standing};

/// How soon the service manager learns that the start is over.
const TICK: Duration = Duration::from_secs(1);

/// Time between two status lines.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// Reports until the process ends.
pub(crate) async fn run(
    standing: impl Fn() -> Standing,
    shutdown: watch::Receiver<Running>,
) -> Infallible {
    tokio::select! {
        never = minute::log(&standing) => never,
        never = notify(&standing, shutdown) => never,
    }
}

async fn notify(
    standing: impl Fn() -> Standing,
    mut shutdown: watch::Receiver<Running>,
) -> Infallible {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return std::future::pending().await;
    }
    let watchdog = sd_notify::watchdog_enabled();
    let mut ticks = interval(period(watchdog));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reporter = Reporter::new(watchdog);
    loop {
        tokio::select! {
            biased;
            changed = shutdown.changed(), if !reporter.is_stopping() => {
                // The sender lives as long as the process.
                if changed.is_ok() && *shutdown.borrow() == Running::Stopping {
                    reporter.stops();
                }
            }
            _ = ticks.tick() => {}
        }
        send(&reporter.messages(&standing()));
    }
}

/// The watchdog bites when it has heard nothing for its time: a third of it leaves room for one
/// message that is late.
fn period(watchdog: Option<Duration>) -> Duration {
    watchdog.map_or(TICK, |limit| TICK.min(limit / 3)).max(Duration::from_millis(1))
}

fn send(messages: &[NotifyState<'_>]) {
    if messages.is_empty() {
        return;
    }
    if let Err(error) = sd_notify::notify(messages) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Started,
    /// The manager was not told yet.
    StopAsked,
    Stopping,
}

/// What was said already, and so what is to be said.
struct Reporter {
    phase: Phase,
    watchdog: Option<Duration>,
    progress: Progress,
    /// The last status line.
    status: String,
    status_at: Option<Instant>,
}

impl Reporter {
    fn new(watchdog: Option<Duration>) -> Self {
        Self {
            phase: Phase::Starting,
            watchdog,
            progress: Progress::default(),
            status: String::new(),
            status_at: None,
        }
    }

    fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::StopAsked | Phase::Stopping)
    }

    fn stops(&mut self) {
        self.phase = Phase::StopAsked;
    }

    /// What the manager is told now.
    fn messages(&mut self, standing: &Standing) -> Vec<NotifyState<'_>> {
        let mut messages = Vec::new();
        match self.phase {
            Phase::Starting if standing.start == StartProgress::Over => {
                self.phase = Phase::Started;
                messages.push(NotifyState::Ready);
            }
            Phase::StopAsked => {
                self.phase = Phase::Stopping;
                messages.push(NotifyState::Stopping);
            }
            Phase::Starting | Phase::Started | Phase::Stopping => {}
        }
        if self.watchdog.is_some() && standing.alive == ProbeResult::Passed {
            messages.push(NotifyState::Watchdog);
        }
        let now = standing.now;
        let is_due = self.status_at.is_none_or(|at| now.duration_since(at) >= STATUS_EVERY);
        if is_due || !messages.iter().all(|message| matches!(message, NotifyState::Watchdog)) {
            self.status = self.progress.line(standing);
            self.status_at = Some(now);
            messages.push(NotifyState::Status(&self.status));
        }
        messages
    }
}

#[cfg(test)]
mod tests;
