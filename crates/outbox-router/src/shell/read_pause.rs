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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stretch: microseconds, bytes, messages and segments.
    type Numbers = (u64, u64, u64, Option<u64>);
    /// What one connection brings in with each pause, in milliseconds.
    type Recorded<'r> = (u64, &'r [Numbers]);

    /// A stretch of single rows, whose messages have 192 bytes on average, from what was recorded
    /// with a reader that decodes nothing: milliseconds, MB/s, and bytes of a segment.
    const fn rows(millis: u64, rate: u64, segment: u64) -> Numbers {
        let bytes = rate * millis * 1_000;
        (millis * 1_000, bytes, bytes / 192, Some(bytes / segment))
    }

    /// BBR whose window has opened.
    const OPEN_WINDOW: &[Recorded<'_>] = &[
        (4, &[rows(100, 35, 195), rows(100, 33, 195), rows(100, 32, 195), rows(100, 33, 200)]),
        (20, &[rows(100, 45, 901), rows(100, 38, 601), rows(100, 54, 3621), rows(100, 46, 759)]),
        (1, &[rows(100, 31, 201), rows(100, 39, 193), rows(100, 32, 199), rows(100, 31, 192)]),
    ];

    const CUBIC: &[Recorded<'_>] = &[
        (4, &[rows(100, 40, 227), rows(100, 45, 222), rows(100, 46, 210)]),
        (20, &[rows(100, 28, 192), rows(100, 38, 192), rows(100, 29, 192)]),
        (1, &[rows(100, 43, 192), rows(100, 42, 192), rows(100, 43, 192)]),
    ];

    /// A fresh connection under BBR, while other processes used most of the machine.
    const GATHERING: &[Recorded<'_>] = &[(
        4,
        &[
            (106_320, 306_219, 1_594, Some(39)),
            (63_833, 189_711, 988, Some(54)),
            (91_675, 188_165, 980, Some(27)),
            (124_024, 704_158, 3_667, Some(121)),
            (68_014, 472_125, 2_458, Some(57)),
            (75_960, 278_212, 1_449, Some(140)),
            (96_143, 373_023, 1_942, Some(85)),
            (63_937, 169_245, 881, Some(91)),
        ],
    )];

    /// The same after that: 4 ms are as good as any.
    const BUSY_MACHINE: &[Recorded<'_>] = &[
        (
            4,
            &[
                (64_542, 421_953, 2_197, Some(606)),
                (63_056, 335_168, 1_745, Some(901)),
                (62_396, 403_590, 2_102, Some(1_237)),
            ],
        ),
        (
            20,
            &[
                (102_537, 500_049, 2_604, Some(1_990)),
                (109_375, 459_095, 2_391, Some(2_129)),
                (105_244, 316_146, 1_646, Some(1_638)),
            ],
        ),
        (
            1,
            &[
                (68_857, 255_508, 1_330, Some(1_224)),
                (68_047, 191_472, 997, Some(999)),
                (63_980, 192_624, 1_003, Some(999)),
            ],
        ),
    ];

    fn ms(pause: u64) -> Duration {
        Duration::from_millis(pause)
    }

    fn stretch((micros, bytes, messages, segments): Numbers) -> Stretch {
        Stretch { elapsed: Duration::from_micros(micros), bytes, messages, segments }
    }

    /// Reads for so long, and returns the pauses that were in force, in turn.
    fn read(finder: &mut PauseFinder, from: &[Recorded<'_>], length: Duration) -> Vec<Duration> {
        let mut readings: Vec<_> =
            from.iter().map(|(pause, read)| (ms(*pause), read.iter().cycle())).collect();
        let mut in_force = Vec::new();
        let mut elapsed = Duration::ZERO;
        while elapsed < length {
            let pause = finder.pause();
            in_force.push(pause);
            let (_, reading) = readings.iter_mut().find(|(of, _)| *of == pause).unwrap();
            let next = stretch(*reading.next().unwrap());
            elapsed += next.elapsed;
            finder.take(next);
        }
        in_force
    }

    #[test]
    fn where_each_message_is_a_packet_the_fastest_pause_is_kept_within_a_second() {
        let mut finder = PauseFinder::default();
        read(&mut finder, OPEN_WINDOW, ms(1_000));
        assert_eq!(finder.pause(), ms(20));
        let kept = read(&mut finder, OPEN_WINDOW, ms(20_000));
        assert!(kept.iter().all(|pause| *pause == ms(20)), "nothing is tried meanwhile");
    }

    #[test]
    fn while_messages_gather_nothing_is_tried() {
        let mut finder = PauseFinder::default();
        let in_force = read(&mut finder, GATHERING, ms(60_000));
        assert!(in_force.iter().all(|pause| *pause == ms(4)));
        read(&mut finder, OPEN_WINDOW, ms(1_000));
        assert_eq!(finder.pause(), ms(20), "until they do no longer");
    }

    #[test]
    fn where_no_pause_is_faster_the_first_is_kept() {
        for recorded in [CUBIC, BUSY_MACHINE] {
            let mut finder = PauseFinder::default();
            read(&mut finder, recorded, ms(1_000));
            assert!(matches!(finder.stage, Stage::Kept { .. }));
            assert_eq!(finder.pause(), ms(4));
        }
    }

    #[test]
    fn without_segments_the_rate_alone_decides() {
        let fast = (60_000, 6_000_000, 30_000, None);
        let slow = (60_000, 3_000_000, 15_000, None);
        let mut finder = PauseFinder::default();
        read(&mut finder, &[(4, &[slow]), (20, &[slow]), (1, &[fast])], ms(1_000));
        assert_eq!(finder.pause(), ms(1));
    }

    #[test]
    fn all_are_tried_again_when_the_rate_has_fallen_and_otherwise_seldom() {
        let (fast, slow) = ((100_000, 10, 1, None), (100_000, 1, 1, None));
        let kept = || {
            let mut finder = PauseFinder::default();
            read(&mut finder, &[(4, &[fast]), (20, &[slow]), (1, &[slow])], ms(900));
            assert!(matches!(finder.stage, Stage::Kept { .. }));
            finder
        };
        let tries_again_after = |readings: &[Numbers]| {
            let mut finder = kept();
            let mut elapsed = Duration::ZERO;
            let mut next = readings.iter().cycle();
            while matches!(finder.stage, Stage::Kept { .. }) {
                elapsed += ms(100);
                finder.take(stretch(*next.next().unwrap()));
            }
            elapsed
        };
        assert_eq!(tries_again_after(&[fast]), KEPT_AT_MOST);
        assert_eq!(tries_again_after(&[slow]), KEPT_AT_LEAST);
        assert_eq!(tries_again_after(&[fast, slow]), KEPT_AT_MOST, "one slow stretch is no fall");
    }

    proptest! {
        #[test]
        fn whatever_is_read_a_pause_of_the_list_is_in_force_and_trials_end(
            stretches in prop::collection::vec(
                (0..500_000u64, any::<u64>(), 0..50_000u64, prop::option::of(0..50_000u64)),
                1..200,
            )
        ) {
            let mut finder = PauseFinder::default();
            let mut trials = 0;
            for read in stretches {
                finder.take(stretch((read.0, read.1 >> 8, read.2, read.3)));
                prop_assert!(PAUSES.contains(&finder.pause()));
                prop_assert!(finder.stretch() <= ms(100));
                let is_trying = matches!(finder.stage, Stage::Trying { .. });
                trials = if is_trying { trials + 1 } else { 0 };
                prop_assert!(trials <= ROUNDS * PAUSES.len());
            }
        }
    }
}
