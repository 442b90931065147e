//! Events on their way into the table, each with its ticket.

use std::{collections::VecDeque, sync::Arc};

use super::HeldEvent;
use crate::progress::ticket::Ticket;

/// The most events of one write: a statement of this size takes some ten milliseconds.
const WRITE_EVENTS: usize = 1_000;
/// The most bytes of one write, except for a single event.
const WRITE_BYTES: usize = 1 << 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<(HeldEvent, Ticket)>,
    /// The write that runs, or is to be repeated, with the tickets of its events.
    writing: Option<(Arc<[HeldEvent]>, Vec<Ticket>)>,
}

impl Queue {
    /// An event is to be written.
    pub(crate) fn push(&mut self, event: HeldEvent, ticket: Ticket) {
        self.waiting.push_back((event, ticket));
    }

    /// Events that are not in the table yet.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.writing.as_ref().map_or(0, |(events, _)| events.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The event that came last, if it waits to be written.
    pub(crate) fn last(&self) -> Option<&HeldEvent> {
        self.waiting.back().map(|(event, _)| event)
    }

    /// Those events.
    pub(crate) fn events(&self) -> impl Iterator<Item = &HeldEvent> {
        let writing = self.writing.iter().flat_map(|(events, _)| events.iter());
        writing.chain(self.waiting.iter().map(|(event, _)| event))
    }

    /// The next write: the one that failed, else the oldest events that wait.
    pub(crate) fn next_write(&mut self) -> Option<Arc<[HeldEvent]>> {
        if self.writing.is_none() {
            let (mut events, mut tickets, mut bytes) = (Vec::new(), Vec::new(), 0);
            while let Some((event, _)) = self.waiting.front() {
                bytes += event.bytes();
                if events.len() == WRITE_EVENTS || (bytes > WRITE_BYTES && !events.is_empty()) {
                    break;
                }
                let Some((event, ticket)) = self.waiting.pop_front() else { break };
                events.push(event);
                tickets.push(ticket);
            }
            if events.is_empty() {
                return None;
            }
            self.writing = Some((events.into(), tickets));
        }
        self.writing.as_ref().map(|(events, _)| Arc::clone(events))
    }

    /// The write is durable. Returns the tickets of its events.
    pub(crate) fn written(&mut self) -> Vec<Ticket> {
        self.writing.take().map_or_else(Vec::new, |(_, tickets)| tickets)
    }

    /// The session is over: the server sends these events again, or finds them in the table.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.writing = None;
    }
}
