//! S3: the order of the records of each key.

use super::{InvariantChecker, StoredBy};
use crate::{
    history::{CommitHistory, CommittedEvent, KEYS},
    invariant::Invariant,
    kafka::TopicPartition,
};

impl InvariantChecker {
    /// A record was stored in its partition.
    pub fn check_stored(
        &mut self,
        history: &mut CommitHistory,
        (number, session): (usize, usize),
        topic_partition: TopicPartition,
        stored_by: StoredBy,
    ) {
        self.records += 1;
        let Some(event) = history.events.get_mut(number) else { return };
        let key = event.key;
        let index = event.index_in_key;
        let (is_free, was_stored) = (event.is_free, event.is_stored);
        if stored_by == StoredBy::ClusterRetry {
            self.duplicates += 1;
            return;
        }
        if is_free {
            self.duplicates += u64::from(was_stored);
            event.is_stored = true;
            return;
        }
        if !event.has_order() || event.is_reopened {
            self.duplicates += u64::from(event.is_stored);
            event.is_stored = true;
            self.advance_past_settled(history, key);
            if let Some(session) = self.sessions.get_mut(session) {
                session.last[key] = None;
            }
            return;
        }
        let is_real = event.is_real;
        if let Some(last) = self.sessions.get(session).and_then(|session| session.last[key])
            && index != last + 1
            && !(is_real && follows(history, key, last, index))
            && (is_real || !history.has_held_events())
        {
            self.report_violation(Invariant::S3Order, || {
                format!(
                    "session {session} stores event {index} of key {key} directly after event {last} ({topic_partition:?})"
                )
            });
        }
        if let Some(session) = self.sessions.get_mut(session) {
            session.last[key] = Some(index);
        }
        // An event of a history that the restored backup does not contain.
        if !is_real {
            return;
        }
        self.check_replay_is_complete(history, key, session, index);
        self.advance_past_settled(history, key);
        let Some(event) = history.events.get_mut(number) else { return };
        let first = self.stored[key];
        if event.is_stored {
            self.duplicates += 1;
        } else if index > first {
            self.report_violation(Invariant::S3Order, || {
                format!(
                    "event {index} of key {key} is stored for the first time before event {first}"
                )
            });
        } else {
            // An event that was accepted as missing may still arrive late.
            event.is_stored = true;
            self.advance_past_settled(history, key);
        }
    }

    /// A replay must be complete: every event that followed a repeated event follows it again.
    /// Otherwise the last record of a key would not be its last event. Records that a session sends
    /// after it lost the slot lie between those of the next session. That session sends them again,
    /// or had passed their place before they were stored.
    fn check_replay_is_complete(
        &mut self,
        history: &CommitHistory,
        key: usize,
        session: usize,
        index: u64,
    ) {
        let has_lost_the_slot = session + 1 < self.sessions.len();
        let next = match self.tail[key] {
            Some((newest, last)) if session < newest => {
                // It lies where the replay ends, so nothing has to send it again.
                if index == last + 1 {
                    self.tail[key] = Some((newest, index));
                }
                return;
            }
            Some((_, last)) if has_lost_the_slot && index <= last => return,
            Some((_, last)) => last + 1,
            None => 0,
        };
        self.tail[key] = Some((session, index));
        let mut between = (next..index).filter_map(|index| {
            let number = history.by_key[key].get(usize::try_from(index).ok()?)?;
            history.events.get(*number)
        });
        let is_passed_over = |event: &CommittedEvent| {
            event.is_accepted || event.is_to_be_dropped() || event.is_reopened || event.is_free
        };
        if between.any(|event| !is_passed_over(event)) {
            self.report_violation(Invariant::S3Order, || {
                format!(
                    "a replay of key {key} stores event {index} directly after event {}",
                    next.saturating_sub(1)
                )
            });
        }
    }

    fn advance_past_settled(&mut self, history: &CommitHistory, key: usize) {
        let next = |first: u64| {
            let index = usize::try_from(first).expect("an index fits");
            history.by_key[key].get(index).map(|number| &history.events[*number])
        };
        while next(self.stored[key]).is_some_and(CommittedEvent::is_passed) {
            self.stored[key] += 1;
        }
    }

    /// A person has accepted that events are missing: the events behind them count as in order.
    pub fn advance_past_accepted(&mut self, history: &CommitHistory) {
        for key in 0..KEYS {
            self.advance_past_settled(history, key);
        }
    }
}

/// Whether nothing lies between two events of a key but what a person has decided to drop, or has
/// accepted as missing, or what binds no later event.
fn follows(history: &CommitHistory, key: usize, last: u64, index: u64) -> bool {
    // What was held before a gap is released by the session that begins behind the gap.
    let is_in_gap = |event: &CommittedEvent| history.has_held_events() && event.is_accepted;
    let is_passed_over = |index: u64| {
        let number = history.by_key[key].get(usize::try_from(index).expect("an index fits"));
        let event = number.map(|number| &history.events[*number]);
        // What an earlier session has produced may arrive after the history was taken back.
        let is_passed = |event: &CommittedEvent| {
            let is_lost = event.is_row_lost || event.is_drop_lost;
            event.is_to_be_dropped() || event.is_free || is_in_gap(event) || is_lost
        };
        event.is_some_and(is_passed)
    };
    index > last && (last + 1..index).all(is_passed_over)
}
