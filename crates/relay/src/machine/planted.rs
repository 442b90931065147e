//! The one seeded bug that is more than a branch.

use super::{Phase, Relay};
use crate::{bug, clock::Now, ports::RecordSink, protocol::Step, session::BlockReason};

impl Relay {
    /// What [`Bug::PassOnFull`] does: a row that finds the queue full is put aside until after the next row.
    pub(super) fn pass_on_full<S: RecordSink>(
        &mut self,
        payload: &[u8],
        now: Now,
        sink: &mut S,
    ) -> Step {
        let is_row = payload.get(25) == Some(&b'I');
        if !is_row
            && let Some(aside) = bug::take_aside()
            && self.offer(&aside, now, sink) == Step::Held
        {
            bug::put_aside(&aside);
            return Step::Held;
        }
        let step = self.offer(payload, now, sink);
        let aside = bug::take_aside();
        let Phase::Streaming(session) = &mut self.phase else { return step };
        if step == Step::Held
            && aside.is_none()
            && matches!(session.blocked, Some(BlockReason::QueueFull { .. }))
        {
            session.blocked = None;
            bug::put_aside(payload);
            return Step::Taken;
        }
        if let Some(aside) = aside
            && (step == Step::Held || self.offer(&aside, now, sink) == Step::Held)
        {
            bug::put_aside(&aside);
        }
        step
    }
}
