//! One replication connection: what the walsender has decoded, and what lies in the socket.

use std::collections::VecDeque;

use relay::{Code, Moment, testing::wire};

use super::{backlog::SimulatedBacklog, socket::SocketMessage};
use crate::history::{CommitHistory, OutboxName};

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
    /// What is read by SQL first; `None` once all of it was read.
    pub backlog: Option<SimulatedBacklog>,
    /// Whether there was such a backlog.
    pub has_read_by_sql: bool,
    /// Whether the walsender has sent anything meanwhile that the router has not noticed.
    pub was_heard: bool,
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
            backlog: None,
            has_read_by_sql: false,
            was_heard: false,
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

    /// The messages that the router reads next.
    pub fn shown(&mut self) -> &mut VecDeque<SocketMessage> {
        match &mut self.backlog {
            Some(backlog) => &mut backlog.wire,
            None => &mut self.wire,
        }
    }

    /// Whether the network lets none of them through.
    pub fn is_cut(&self) -> bool {
        let shares = self.backlog.as_ref().is_none_or(|backlog| backlog.shares_the_network);
        self.is_black_holed && shares
    }

    /// Whether the router has something to read or to notice.
    pub fn is_readable(&self) -> bool {
        let has_messages = match &self.backlog {
            Some(backlog) => !backlog.wire.is_empty() || backlog.is_read(),
            None => !self.wire.is_empty(),
        };
        let is_over = !self.has_walsender && !self.is_black_holed;
        (has_messages && !self.is_cut()) || is_over
    }

    pub(super) fn end(&mut self, code: Code) {
        self.has_walsender = false;
        self.ended_by = code;
    }

    /// Sends a keepalive that asks for a reply.
    pub fn request_reply(&mut self, history: &CommitHistory) {
        if !self.client_copy_done {
            self.wire.push_back(SocketMessage::Frame(wire::reply_request(self.position(history))));
            self.was_heard = true;
        }
    }

    /// Sends a keepalive because the router asked for one.
    pub fn send_keepalive(&mut self, history: &CommitHistory) {
        self.wire.push_back(SocketMessage::Frame(wire::keepalive(self.position(history))));
        self.was_heard = true;
    }

    /// Whether everything up to the end of WAL was sent.
    pub fn is_caught_up(&self, history: &CommitHistory) -> bool {
        self.next >= history.transactions.len()
    }

    /// The position in a keepalive: everything before it was decoded and sent.
    fn position(&self, history: &CommitHistory) -> u64 {
        if self.is_caught_up(history) {
            return history.sendable_end();
        }
        let sent = self.next.checked_sub(1).and_then(|last| history.transactions.get(last));
        sent.map_or(0, |last| last.end_lsn)
    }
}
