//! What is measured of a backlog that is read as a stream, and the pause that follows from it
//! ([`PauseFinder`]).

use std::time::Duration;

use relay::ReadPace;
use tokio::time::Instant;

use super::read_pause::{PauseFinder, Stretch};
use crate::monitor::BacklogReading;

/// A pause adds at most this part to the time by which the server is behind, so that a short
/// backlog does not become longer.
const PART_OF_LAG: u32 = 16;
/// Type and length of a CopyData message.
const HEADER: u64 = 5;

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    finder: PauseFinder,
    bytes: u64,
    messages: u64,
    begun: Option<Begun>,
    segment_bytes: Option<u64>,
    /// The last pause in a backlog; `None` without one.
    pause: Option<Duration>,
}

/// The beginning of a stretch.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Instant,
    bytes: u64,
    messages: u64,
    segments: Option<u32>,
}

impl Pacing {
    /// A frame with so large a payload was taken.
    #[inline]
    pub(super) fn took(&mut self, payload: usize) {
        self.messages += 1;
        self.bytes += HEADER + u64::try_from(payload).unwrap_or_default();
    }

    /// Another connection: what was found for the last one says nothing of it.
    pub(super) fn connected(&mut self) {
        *self = Self::default();
    }

    /// For how long to let the socket fill. `segments` asks the kernel how many have arrived.
    pub(super) fn pause(
        &mut self,
        pace: ReadPace,
        now: Instant,
        segments: impl FnOnce() -> Option<u32>,
    ) -> Option<Duration> {
        let behind = match pace {
            ReadPace::AtOnce => return self.follows(None),
            ReadPace::Coalesce(length) => return self.follows(Some(length)),
            ReadPace::Backlog { behind } => behind,
        };
        let most = behind / PART_OF_LAG;
        if self.finder.pause() > most {
            self.begun = None;
        } else {
            self.measure(now, segments);
        }
        self.pause = Some(self.finder.pause().min(most));
        self.pause
    }

    /// What is in force; `None` without a backlog.
    pub(super) fn in_force(&self) -> Option<BacklogReading> {
        self.pause.map(|pause| BacklogReading { pause, segment_bytes: self.segment_bytes })
    }

    fn follows(&mut self, pause: Option<Duration>) -> Option<Duration> {
        self.pause = None;
        self.begun = None;
        pause
    }

    fn measure(&mut self, now: Instant, segments: impl FnOnce() -> Option<u32>) {
        let begun = self.begun;
        let elapsed = begun.map_or(Duration::MAX, |begun| now.saturating_duration_since(begun.at));
        if elapsed < self.finder.stretch() {
            return;
        }
        let Self { bytes, messages, .. } = *self;
        let segments = segments();
        if let Some(begun) = begun {
            let arrived = segments.zip(begun.segments);
            let stretch = Stretch {
                elapsed,
                bytes: bytes - begun.bytes,
                messages: messages - begun.messages,
                segments: arrived.map(|(now, before)| u64::from(now.wrapping_sub(before))),
            };
            self.segment_bytes =
                stretch.segments.and_then(|segments| stretch.bytes.checked_div(segments));
            tracing::debug!(pause = ?self.finder.pause(), ?stretch, "a stretch of a backlog was read");
            self.finder.take(stretch);
        }
        self.begun = Some(Begun { at: now, bytes, messages, segments });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BACKLOG: ReadPace = ReadPace::Backlog { behind: Duration::from_secs(60) };

    /// What is read in `length`, a pass every 4 ms: so many messages of 186 bytes, each a segment.
    fn read(pacing: &mut Pacing, now: &mut Instant, length: Duration, messages: u32) {
        let end = *now + length;
        while *now < end {
            *now += Duration::from_millis(4);
            for _ in 0..messages {
                pacing.took(181);
            }
            let segments = u32::try_from(pacing.messages).unwrap();
            let pause = pacing.pause(BACKLOG, *now, || Some(segments));
            assert_eq!(pause, Some(pacing.finder.pause()));
        }
    }

    #[test]
    fn without_a_backlog_nothing_is_tried_and_nothing_measured() {
        let (mut pacing, mut now) = (Pacing::default(), Instant::now());
        let short = Duration::from_micros(300);
        for _ in 0..1000 {
            now += Duration::from_millis(4);
            pacing.took(181);
            let unasked = || -> Option<u32> { panic!("the kernel is asked in a backlog alone") };
            assert_eq!(pacing.pause(ReadPace::AtOnce, now, unasked), None);
            assert_eq!(pacing.pause(ReadPace::Coalesce(short), now, unasked), Some(short));
        }
        assert_eq!(pacing.in_force(), None);
    }

    #[test]
    fn a_pause_adds_no_more_than_a_sixteenth_to_what_a_commit_has_waited_for() {
        let (mut pacing, now) = (Pacing::default(), Instant::now());
        let behind = Duration::from_millis(51);
        let pause = pacing.pause(ReadPace::Backlog { behind }, now, || None);
        assert_eq!(pause, Some(behind / 16));
        assert_eq!(pacing.in_force().unwrap().pause, behind / 16);
    }

    #[test]
    fn what_was_read_is_measured_until_the_backlog_ends() {
        let (mut pacing, mut now) = (Pacing::default(), Instant::now());
        read(&mut pacing, &mut now, SECOND, 100);
        let found = pacing.in_force().unwrap();
        assert_eq!(found.segment_bytes, Some(186));
        assert_eq!(pacing.pause(ReadPace::AtOnce, now, || None), None);
        assert_eq!(pacing.in_force(), None);
        // The time in which there was no backlog does not count as time in which little was read.
        now += SECOND * 100;
        read(&mut pacing, &mut now, SECOND / 2, 100);
        assert_eq!(pacing.in_force(), Some(found));
    }

    #[test]
    fn another_connection_is_measured_anew() {
        let (mut pacing, mut now) = (Pacing::default(), Instant::now());
        read(&mut pacing, &mut now, SECOND, 100);
        pacing.connected();
        assert_eq!(pacing.pause(BACKLOG, now, || Some(0)), Some(PauseFinder::default().pause()));
        assert_eq!(pacing.in_force().unwrap().segment_bytes, None);
    }
}
