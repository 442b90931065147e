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

    /// A released event was refused: when it is released again, it may go anywhere.
    pub fn note_refused_again(&mut self, number: usize) {
        self.released.remove(&number);
        for session in &mut self.sessions {
            session.released.remove(&number);
        }
    }
}
