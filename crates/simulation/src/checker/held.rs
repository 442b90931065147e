//! S12: nothing passes a held event of its key, and what has left the table is not produced again.

use super::{InvariantChecker, Origin};
use crate::{
    history::{CommitHistory, CommittedEvent},
    invariant::Invariant,
};
use relay::testing::HeldState;

impl InvariantChecker {
    /// A session has produced an event. A router that has lost the slot does not know what the
    /// present holder has written into the table.
    pub(super) fn check_against_table(
        &mut self,
        history: &CommitHistory,
        (session, origin): (usize, Origin),
        (number, event): (usize, &CommittedEvent),
    ) {
        if !self.is_newest(session) || event.is_reopened {
            return;
        }
        match origin {
            Origin::Stream => {
                if let Some(state) = event.held.filter(|state| *state != HeldState::Delivered) {
                    self.report_violation(Invariant::S12Held, || {
                        format!("event {number} is produced from the stream, and is in the table: {state:?}")
                    });
                }
                if !self.holds_keys() {
                    return;
                }
                let earlier = history.by_key[event.key].iter().copied();
                let mut earlier = earlier.take_while(|earlier| *earlier < number);
                let held = earlier.find(|earlier| {
                    let earlier = &history.events[*earlier];
                    earlier.is_open() && !earlier.is_reopened
                });
                if let Some(held) = held {
                    self.report_violation(Invariant::S12Held, || {
                        format!("event {number} is produced, and event {held} of its key is held")
                    });
                }
            }
            Origin::Release => {
                let may_leave = matches!(event.held, Some(HeldState::Held | HeldState::Requeued));
                if !may_leave {
                    self.report_violation(Invariant::S12Held, || {
                        format!(
                            "event {number} is released, and in the table it is {:?}",
                            event.held
                        )
                    });
                }
                let own = self.sessions.get_mut(session);
                if own.is_some_and(|own| !own.released.insert(number)) {
                    self.report_violation(Invariant::S4Duplicates, || {
                        format!("a session releases event {number} twice")
                    });
                }
                self.released.insert(number);
            }
        }
    }

    /// What is released again goes to the partition where it went before, although the topic may
    /// have more of them: its batch was never closed.
    pub(super) fn check_released_partition(
        &mut self,
        number: usize,
        before: Option<i32>,
        partition: i32,
    ) {
        if let Some(before) = before.filter(|before| *before != partition) {
            self.report_violation(Invariant::S3Order, || {
                format!(
                    "event {number} is released again, to partition {partition} instead of {before}"
                )
            });
        }
    }

    /// What the routers know of partitions is lost.
    pub fn forget_released(&mut self) {
        self.released_to.clear();
    }

    /// A released event was refused. The batch that is closed now ends with it, so when it is
    /// released again, it may go anywhere, and so may what an earlier batch had behind it.
    pub fn note_refused_again(&mut self, number: usize) {
        self.released.clear();
        self.released_to.clear();
        for session in &mut self.sessions {
            session.released.remove(&number);
        }
    }
}
