//! One replication connection: what the walsender has decoded, and what lies in the socket.

use std::collections::VecDeque;

use relay::{Code, Moment, testing::wire};

use crate::history::{Called, History};

/// What lies in the socket.
#[derive(Debug, Clone)]
pub enum Wire {
    /// `CopyData`.
    Frame(Vec<u8>),
    /// `CopyData` of which only the beginning was kept.
    Oversized(Vec<u8>),
    /// The warning that a publication is missing.
    Warning,
    /// ErrorResponse, by the code that we have for it.
    Refused(Code),
    /// `CopyDone` of the server.
    Done,
}

/// See the module's documentation.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of one end of a connection; their combinations all occur"
)]
pub struct Connection {
    /// Its number.
    pub id: u64,
    /// Who made it.
    pub router: usize,
    /// The transaction to be sent next.
    pub(super) next: usize,
    /// Shape and name of the table as last described on it.
    pub(super) described: Option<(usize, Called)>,
    /// What was sent and not read.
    pub wire: VecDeque<Wire>,
    /// Whether the walsender lives, and holds the slot.
    pub is_served: bool,
    /// Whether the router's end is gone.
    pub is_abandoned: bool,
    /// Whether the network swallows everything.
    pub is_swallowed: bool,
    /// Why the walsender is gone.
    pub ended_by: Code,
    /// Whether its patience ended.
    pub was_timed_out: bool,
    /// The last word of the router.
    pub heard_at: Moment,
    /// Whether it asked since.
    pub is_asked: bool,
    /// Whether the client sent `CopyDone`.
    pub said_goodbye: bool,
    /// What the router said it had received.
    pub written: u64,
    /// Status updates without news in the present second.
    pub updates: (u64, u32),
}

impl Connection {
    pub(super) fn new(id: u64, router: usize, next: usize, at: Moment) -> Self {
        Self {
            id,
            router,
            next,
            described: None,
            wire: VecDeque::new(),
            is_served: true,
            is_abandoned: false,
            is_swallowed: false,
            ended_by: Code::ServerUnreachable,
            was_timed_out: false,
            heard_at: at,
            is_asked: false,
            said_goodbye: false,
            written: 0,
            updates: (0, 0),
        }
    }

    pub(super) fn end(&mut self, code: Code) {
        self.is_served = false;
        self.ended_by = code;
    }

    /// A keepalive that wants an answer.
    pub fn ask(&mut self, history: &History) {
        if !self.said_goodbye {
            self.wire.push_back(Wire::Frame(wire::question(self.position(history))));
        }
    }

    /// A keepalive because the router asked.
    pub fn answer(&mut self, history: &History) {
        self.wire.push_back(Wire::Frame(wire::keepalive(self.position(history))));
    }

    /// Whether everything up to the end of WAL was sent.
    pub fn is_caught_up(&self, history: &History) -> bool {
        self.next >= history.transactions.len()
    }

    /// What a keepalive says: everything before it was decoded and sent.
    fn position(&self, history: &History) -> u64 {
        if self.is_caught_up(history) {
            return history.end_of_wal;
        }
        let sent = self.next.checked_sub(1).and_then(|last| history.transactions.get(last));
        sent.map_or(0, |last| last.end_lsn)
    }
}
