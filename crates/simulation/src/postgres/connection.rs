//! One replication connection: what the walsender has decoded, and what lies in the socket.

use std::collections::VecDeque;

use relay::{Code, Moment, testing::wire};

use crate::history::{CommitHistory, OutboxName};

/// What lies in the socket, unread by the router.
#[derive(Debug, Clone)]
pub enum SocketMessage {
    /// `CopyData`.
    Frame(Vec<u8>),
    /// `CopyData` larger than the router reads: only its beginning is kept.
    Oversized(Vec<u8>),
    /// The warning that a publication is missing.
    Notice,
    /// ErrorResponse, as the product's code for it.
    ErrorResponse(Code),
    /// The server's `CopyDone`.
    CopyDone,
}

/// See the module's documentation.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of one end of a connection; their combinations all occur"
)]
pub struct SimulatedConnection {
    /// Identifies it among all connections.
    pub id: u64,
    /// Index of the router.
    pub router: usize,
    /// Index of the transaction that is sent next.
    pub(super) next: usize,
    /// Shape and name of the table in the last Relation message sent on it.
    pub(super) sent_relation: Option<(usize, OutboxName)>,
    /// Messages that were sent and not read.
    pub wire: VecDeque<SocketMessage>,
    /// Whether the walsender lives, and so holds the slot.
    pub has_walsender: bool,
    /// Whether the router's end is gone.
    pub is_abandoned: bool,
    /// Whether the network drops everything in both directions.
    pub is_black_holed: bool,
    /// The code by which the router sees that the walsender is gone.
    pub ended_by: Code,
    /// Whether `wal_sender_timeout` ended it.
    pub was_timed_out: bool,
    /// When the last status update arrived.
    pub last_update_at: Moment,
    /// Whether the walsender has asked for a status update since then.
    pub reply_requested: bool,
    /// Whether the client sent `CopyDone`.
    pub client_copy_done: bool,
    /// The highest write position that the router has reported.
    pub written: u64,
    /// Status updates without a new position: the second, and how many in it.
    pub updates: (u64, u32),
}

impl SimulatedConnection {
    pub(super) fn new(id: u64, router: usize, next: usize, at: Moment) -> Self {
        Self {
            id,
            router,
            next,
            sent_relation: None,
            wire: VecDeque::new(),
            has_walsender: true,
            is_abandoned: false,
            is_black_holed: false,
            ended_by: Code::ServerUnreachable,
            was_timed_out: false,
            last_update_at: at,
            reply_requested: false,
            client_copy_done: false,
            written: 0,
            updates: (0, 0),
        }
    }

    pub(super) fn end(&mut self, code: Code) {
        self.has_walsender = false;
        self.ended_by = code;
    }

    /// Sends a keepalive that asks for a reply.
    pub fn request_reply(&mut self, history: &CommitHistory) {
        if !self.client_copy_done {
            self.wire.push_back(SocketMessage::Frame(wire::reply_request(self.position(history))));
        }
    }

    /// Sends a keepalive because the router asked for one.
    pub fn send_keepalive(&mut self, history: &CommitHistory) {
        self.wire.push_back(SocketMessage::Frame(wire::keepalive(self.position(history))));
    }

    /// Whether everything up to the end of WAL was sent.
    pub fn is_caught_up(&self, history: &CommitHistory) -> bool {
        self.next >= history.transactions.len()
    }

    /// The position in a keepalive: everything before it was decoded and sent.
    fn position(&self, history: &CommitHistory) -> u64 {
        if self.is_caught_up(history) {
            return history.end_of_wal;
        }
        let sent = self.next.checked_sub(1).and_then(|last| history.transactions.get(last));
        sent.map_or(0, |last| last.end_lsn)
    }
}
