//! The channel from the streaming task to one listener.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::mpsc::{self, error::TrySendError};

use super::{Wants, filter::Filter, routed::Routed};

/// Events that wait for a listener to ask. A listener asks about ten times a second, so about ten
/// thousand events a second can be shown; more than that nobody reads.
pub(super) const EVENTS_WAITING_MAX: usize = 1024;

/// The streaming task's end.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    events: mpsc::Sender<Routed>,
    missed: Missed,
    pub(super) filter: Arc<Filter>,
    pub(super) wants: Wants,
}

/// Events that were wanted and found no room, and that the listener was not told of yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Missed(Arc<AtomicU64>);

impl Missed {
    fn add(&self, events: u64) {
        self.0.fetch_add(events, Ordering::Relaxed);
    }

    /// Whoever takes the number tells it.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Listener {
    /// Both ends of a channel.
    pub(super) fn new(filter: Filter, wants: Wants) -> (Self, mpsc::Receiver<Routed>, Missed) {
        let (events, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        let missed = Missed::default();
        let listener = Self { events, missed: missed.clone(), filter: Arc::new(filter), wants };
        (listener, receiver, missed)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.events.same_channel(&other.events)
    }

    /// Whether the channel has room. Only the streaming task fills it, so the room stays.
    pub(super) fn has_room(&self) -> bool {
        self.events.capacity() > 0
    }

    /// An event is wanted and finds no room.
    pub(super) fn miss(&self) {
        self.missed.add(1);
    }

    /// Gives an event to the listener, or counts it.
    pub(super) fn show(&self, mut event: Routed) {
        event.missed_before = self.missed.take();
        match self.events.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(event)) => self.missed.add(event.missed_before + 1),
            // The tap has ended, and will be forgotten.
            Err(TrySendError::Closed(_)) => {}
        }
    }
}
