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
    is_backlog: bool,
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
            ReadPace::AtOnce => None,
            ReadPace::Coalesce(length) => return self.follows(Some(length)),
            ReadPace::Backlog { behind } => Some(behind),
        };
        let Some(behind) = behind else { return self.follows(None) };
        self.is_backlog = true;
        let most = behind / PART_OF_LAG;
        if self.finder.pause() > most {
            self.begun = None;
            return Some(most);
        }
        self.measure(now, segments);
        Some(self.finder.pause())
    }

    /// What is in force; `None` without a backlog.
    pub(super) fn in_force(&self) -> Option<BacklogReading> {
        self.is_backlog.then(|| BacklogReading {
            pause: self.finder.pause(),
            segment_bytes: self.segment_bytes,
        })
    }

    fn follows(&mut self, pause: Option<Duration>) -> Option<Duration> {
        self.is_backlog = false;
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
