//! What the shell asks of the table of held events.

use relay::held::HeldRequest;

/// The table, and what is to be asked of it next.
pub(super) struct HeldRequests<H> {
    /// `None` while a request runs: the job has it.
    pub(super) table: Option<Box<H>>,
    /// What was asked while another request ran. The core has one request at a time in a session,
    /// so one that still waits here is of a session that has ended, and nobody needs it.
    pub(super) waiting: Option<(u64, HeldRequest)>,
}

impl<H> HeldRequests<H> {
    pub(super) fn new(table: H) -> Self {
        Self { table: Some(Box::new(table)), waiting: None }
    }
}
