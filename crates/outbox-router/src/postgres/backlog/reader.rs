//! One of the connections by which a backlog is read.

use postgres_protocol::message::frontend;

use super::CopiedSlot;
use crate::postgres::link::Link;

/// A session, and the temporary copy of the slot that it has made. PostgreSQL lets no other session
/// read that copy, and drops it when the session ends.
#[derive(Debug)]
pub struct SlotCopyOwner {
    link: Link,
    pub(super) copy: CopiedSlot,
}

impl SlotCopyOwner {
    pub(in crate::postgres) fn new(link: Link, copy: CopiedSlot) -> Self {
        Self { link, copy }
    }
}

/// See the module's header.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) link: Link,
    /// Reads a batch; of a reader that takes turns, any but the first.
    statement: String,
}

impl Reader {
    pub(super) fn new(owner: SlotCopyOwner, statement: String) -> Self {
        Self { link: owner.link, statement }
    }

    /// Asks for the first batch of all.
    pub(super) fn ask(&mut self, statement: &str) {
        // A statement has no zero byte, the one thing that this refuses.
        let _queued = frontend::query(statement, &mut self.link.out);
    }

    /// Asks for the next batch.
    pub(super) fn ask_next(&mut self) {
        let _queued = frontend::query(&self.statement, &mut self.link.out);
    }
}
