//! What a connection reads by SQL before it reads what its walsender sends.

use std::collections::VecDeque;

use super::socket::SocketMessage;
use crate::history::OutboxName;

/// A second connection to the server, which reads the transactions before those of the walsender.
#[derive(Debug)]
pub struct SimulatedBacklog {
    /// Index of the transaction that is read next.
    pub(super) next: usize,
    /// Index of the walsender's first transaction.
    pub(super) until: usize,
    /// Shape and name of the table in the last Relation message.
    pub(super) sent_relation: Option<(usize, OutboxName)>,
    /// Messages that were sent and not read.
    pub(super) wire: VecDeque<SocketMessage>,
    /// Whether the server answers no more.
    pub(super) has_ended: bool,
    /// Whether it breaks before everything is read.
    pub(super) breaks: bool,
    /// Whether a black hole of the walsender's connection is one of this, too.
    pub(super) shares_the_network: bool,
}

impl SimulatedBacklog {
    /// Whether everything was read.
    pub(super) fn is_read(&self) -> bool {
        self.next >= self.until && self.wire.is_empty() && !self.has_ended
    }
}
