//! How long to pause between two reads of a backlog: found by trial, as far as a trial does no
//! harm.
//!
//! A walsender sends each message by itself. Whether the kernel sends many of them as one segment
//! depends on the server's congestion window, of which the size of the segments is all that can be
//! seen from here. While the window is small, messages gather, however short the pause. A silence
//! of some 10 ms opens the window (BBR), and from then on each message is a packet, unless the
//! pause is long enough to fill the window (`docs/performance-log.md`). So while messages gather,
//! nothing else is tried: the trial could end that for good. Where they do not gather, or nobody
//! can tell, every pause is tried in turn, several times, and the one with the highest rate is
//! kept. Trials are repeated seldom, or when the rate falls.
//!
//! Nothing here reads a clock or a socket, and nothing but speed depends on it.

use std::time::Duration;

/// The pauses that are tried. The others have to be clearly better than the first.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(4), Duration::from_millis(20), Duration::from_millis(1)];
/// How often each is tried. The rate of one trial depends on what else the machine does.
const ROUNDS: usize = 3;
/// How long a trial lasts, and how many pauses at least.
const TRIAL: Duration = Duration::from_millis(60);
const PAUSES_PER_TRIAL: u32 = 5;
/// With a pause of at most this, large segments show that the window is small. After a longer one
/// they show nothing: more is sent meanwhile than any window holds.
const TELLING: Duration = Duration::from_millis(4);
/// So many messages in a segment, on average, have gathered. After 4 ms there are up to five where
/// the window is large, and more than ten where it is small.
const GATHERED: u64 = 8;
/// After this time all pauses are tried again; where the rate falls, after the shorter time.
const KEPT_AT_MOST: Duration = Duration::from_secs(30);
const KEPT_AT_LEAST: Duration = Duration::from_secs(3);

/// What was read in one stretch of a backlog.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) elapsed: Duration,
    pub(super) bytes: u64,
    pub(super) messages: u64,
    /// TCP segments that arrived; `None` where they are not known, as with a unix socket.
    pub(super) segments: Option<u64>,
}

impl Stretch {
    fn has_gathered(&self) -> bool {
        self.segments.is_some_and(|segments| self.messages >= GATHERED * segments.max(1))
    }
}

/// Finds the pause for one connection.
#[derive(Debug)]
pub(super) struct PauseFinder {
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Every pause is tried in turn.
    Trying { trials: [Trial; PAUSES.len()], turn: usize },
    /// Messages gather with this pause: nothing else is tried.
    Gathering(Duration),
    /// The best one is kept.
    Kept { best: Trial, lasted: Duration, is_low: bool },
}

/// What a pause has brought in.
#[derive(Debug, Clone, Copy)]
struct Trial {
    pause: Duration,
    elapsed: Duration,
    bytes: u64,
}

impl Trial {
    fn add(&mut self, stretch: &Stretch) {
        self.elapsed += stretch.elapsed;
        self.bytes += stretch.bytes;
    }

    /// Whether it is faster than `other` by more than a tenth, which trials of the same pause
    /// differ by.
    fn is_faster_than(&self, other: &Self) -> bool {
        self.rate() * 10 > other.rate() * 11
    }

    /// In bytes a second.
    fn rate(&self) -> u128 {
        u128::from(self.bytes) * 1_000_000 / self.elapsed.as_micros().max(1)
    }
}

impl Default for PauseFinder {
    fn default() -> Self {
        let trials = PAUSES.map(|pause| Trial { pause, elapsed: Duration::ZERO, bytes: 0 });
        Self { stage: Stage::Trying { trials, turn: 0 } }
    }
}

impl PauseFinder {
    /// The pause that is in force.
    pub(super) fn pause(&self) -> Duration {
        match &self.stage {
            Stage::Trying { turn, .. } => {
                PAUSES.iter().cycle().nth(*turn).copied().unwrap_or(TELLING)
            }
            Stage::Gathering(pause) => *pause,
            Stage::Kept { best, .. } => best.pause,
        }
    }

    /// How long the next stretch has to be.
    pub(super) fn stretch(&self) -> Duration {
        TRIAL.max(self.pause() * PAUSES_PER_TRIAL)
    }

    /// A stretch was read with the pause in force.
    pub(super) fn take(&mut self, stretch: Stretch) {
        let pause = self.pause();
        if pause <= TELLING && stretch.has_gathered() {
            self.stage = Stage::Gathering(pause);
            return;
        }
        match &mut self.stage {
            Stage::Gathering(_) => *self = Self::default(),
            Stage::Trying { trials, turn } => {
                if let Some(trial) = trials.iter_mut().find(|trial| trial.pause == pause) {
                    trial.add(&stretch);
                }
                *turn += 1;
                if *turn == ROUNDS * PAUSES.len() {
                    let [first, others @ ..] = *trials;
                    let faster = |best: Trial, other| match Trial::is_faster_than(&other, &best) {
                        true => other,
                        false => best,
                    };
                    let best = others.into_iter().fold(first, faster);
                    self.stage = Stage::Kept { best, lasted: Duration::ZERO, is_low: false };
                }
            }
            Stage::Kept { best, lasted, is_low } => {
                *lasted += stretch.elapsed;
                let now = Trial { pause, elapsed: stretch.elapsed, bytes: stretch.bytes };
                let was_low = std::mem::replace(is_low, now.rate() * 10 < best.rate() * 7);
                let has_fallen = was_low && *is_low && *lasted >= KEPT_AT_LEAST;
                if has_fallen || *lasted >= KEPT_AT_MOST {
                    *self = Self::default();
                }
            }
        }
    }
}
