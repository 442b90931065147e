//! S1, S2, S4 and S8, as far as they are about positions: the confirmed one and that of the
//! witness.

use super::InvariantChecker;
use crate::{
    history::{CommitHistory, PublicationState},
    invariant::Invariant,
    plan::StateTopicSetting,
};

impl InvariantChecker {
    /// The server's confirmed position moves from `from` to `to`.
    pub fn check_confirmed(&mut self, history: &CommitHistory, session: usize, from: u64, to: u64) {
        if to > history.end_of_wal {
            let end = history.end_of_wal;
            self.report_violation(Invariant::S8Slot, || {
                format!("{to} is confirmed, and WAL ends at {end}")
            });
        }
        if to < from {
            self.report_violation(Invariant::S8Slot, || {
                format!("the confirmed position goes back from {from} to {to}")
            });
        }
        // What commits before the position is not sent again, even if it ends after it.
        for transaction in history.first_from(from)..history.first_from(to.max(from)) {
            let transaction = &history.transactions[transaction];
            for number in transaction.events.clone() {
                let event = &history.events[number];
                if event.catalog.publication == PublicationState::Missing && !event.is_accepted {
                    self.report_violation(Invariant::S1Complete, || {
                        format!("{to} is confirmed, and the server reported that it skipped event {number} before it")
                    });
                }
                if event.is_published() && !event.is_settled() {
                    self.report_violation(Invariant::S2NeverAhead, || {
                        format!("{to} is confirmed, and event {number} before it is not in Kafka")
                    });
                }
                self.check_letter_record(number, event, to);
            }
        }
        if self.state_topic == StateTopicSetting::Used && to > from.max(self.witness_position) {
            let recorded = self.witness_position;
            self.report_violation(Invariant::S2NeverAhead, || {
                format!("{to} is confirmed, and the acknowledged witness has no later position than {recorded}")
            });
        }
        self.note_status_update(session, to);
    }

    /// A session has sent a status update with this position, whether or not it arrives.
    pub fn note_status_update(&mut self, session: usize, position: u64) {
        if self.state_topic == StateTopicSetting::Unused {
            self.advance_window_start(session, position);
        }
    }

    /// A record of the witness with this position was acknowledged, or was found by a session that
    /// begins.
    pub fn note_witness_ack(&mut self, position: u64) {
        self.witness_position = self.witness_position.max(position);
    }

    /// The highest position that a witness names.
    pub fn witness_position(&self) -> u64 {
        self.witness_position
    }

    /// The window of a session begins at this position, or later.
    pub fn advance_window_start(&mut self, session: usize, position: u64) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.window_start = session.window_start.max(position);
        }
    }

    /// A process has ended and reports that everything is delivered and confirmed.
    pub fn check_drained(&mut self, history: &CommitHistory, session: usize, confirmed: u64) {
        let newest = self.newest(session).map_or(0, |newest| history.events[newest].serial + 1);
        let again = newest.saturating_sub(history.serial_past(confirmed));
        if again > 0 {
            self.report_violation(Invariant::S4Duplicates, || {
                format!("a process reports that it has drained, and the slot will send {again} events again")
            });
        }
    }
}
