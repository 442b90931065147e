//! The task that remembers what one look cannot show: since when the verdict holds, which verdicts
//! came before, when a position last moved, and the figures of the last hour. It decides nothing,
//! and nobody waits for it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{Facts, Limits, Timeline, Trend, Verdict, Word, progress::Progress};
use crate::monitor::{MonitorReport, RelayReport};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// What the observer remembers.
#[derive(Debug, Clone)]
pub struct Observed {
    /// When a position last moved.
    pub progress: Progress,
    /// The verdicts until now.
    pub timeline: Arc<Timeline>,
    /// The figures of the last hour.
    pub trend: Trend,
}

impl Observed {
    /// Before the first look.
    pub fn begin(now: Instant) -> Self {
        Self { progress: Progress::begin(now), timeline: Arc::default(), trend: Trend::begin(now) }
    }

    /// Since when this verdict holds; a new one begins at `now`.
    pub fn since(&self, verdict: &Verdict, now: SystemTime) -> SystemTime {
        self.timeline.since(verdict).unwrap_or(now)
    }
}

/// The observer's ends of the channels.
#[derive(Debug)]
pub struct Channels {
    /// What the streaming task publishes.
    pub relay: watch::Receiver<RelayReport>,
    /// What the monitor publishes.
    pub monitor: watch::Receiver<MonitorReport>,
    /// What is remembered.
    pub observed: watch::Sender<Observed>,
}

/// Looks twice a second, until nobody wants to know.
pub async fn run(limits: Limits, channels: Channels) {
    let Channels { relay, monitor, observed } = channels;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !observed.is_closed() {
        looks.tick().await;
        let now = Instant::now();
        let mut memory = observed.borrow().clone();
        let verdict = {
            let (relay, monitor) = (relay.borrow(), monitor.borrow());
            let facts = Facts::of(&relay, &monitor, limits, now);
            memory.progress.observe(&facts, now);
            memory.trend.observe(&facts, now);
            Verdict::of(&facts, memory.progress.without(now))
        };
        if memory.timeline.since(&verdict).is_none() {
            Arc::make_mut(&mut memory.timeline).add(&verdict, SystemTime::now());
            announce(&verdict);
        }
        observed.send_replace(memory);
    }
}

/// The streaming task logs its states itself, with their reasons; a stall is nobody's state.
fn announce(verdict: &Verdict) {
    if verdict.word == Word::Stalled {
        tracing::warn!(to_blame = verdict.blame.as_str(), "{}", verdict.sentence);
    }
}
