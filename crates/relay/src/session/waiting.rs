//! What a session waits for before it takes the frame at hand, and when the frame is offered again.
//!
//! A frame never ends a wait. Every other input may, if the reason to wait is gone:
//! acknowledgements by `room_made`, a topic's answer by `topic_differs`, a status update by
//! `review_isolation`, and all others by [`Session::review`]. [`Session::deadline`] says when the
//! next review is due at the latest. So no frame waits for ever without being reviewed.

use pgoutput::Lsn;

use super::{Session, SessionPhase, wait_reason::WaitReason};
use crate::{
    clock::Moment,
    failure::{Code, Failure, Name},
    held::holding::Follows,
    progress::{NextRow, Unacked, window::Window},
    protocol::FrameOutcome,
    routing::{
        record::TopicId,
        topic::TopicName,
        topics::{Readiness, TopicFacts, Topics},
    },
    telemetry::PauseReason,
};

/// When a record is offered again to a full queue if nothing is acknowledged. Acknowledgements make
/// room, but room can also come otherwise, and then no other input would offer the frame again.
const QUEUE_ASK_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);
/// How long a row that cannot become a record waits before it is offered again.
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

impl Session {
    pub(super) fn wait(&mut self, reason: WaitReason) -> FrameOutcome {
        self.wait_reason = Some(reason);
        FrameOutcome::NotTaken
    }

    pub(super) fn wait_at_row(
        &mut self,
        failure: Failure,
        topic: Option<TopicId>,
        at: Moment,
    ) -> FrameOutcome {
        let failure = match self.ledger.open_commit_lsn() {
            Some(lsn) => failure.at(lsn),
            None => failure,
        };
        self.retried_failure = None;
        self.wait(WaitReason::Row { failure, again_at: at + ASK_AGAIN, topic })
    }

    pub(super) fn wait_until_room(&mut self, at: Moment) -> FrameOutcome {
        self.wait(WaitReason::QueueFull { again_at: at + QUEUE_ASK_AGAIN })
    }

    /// Records were acknowledged, of this session or an earlier one: the producer's queue has room.
    pub(crate) fn room_made(&mut self) {
        if let Some(WaitReason::QueueFull { .. }) = self.wait_reason {
            self.wait_reason = None;
        }
    }

    /// Events have left the table of held events: the one that was too many may find room.
    pub(crate) fn table_has_room(&mut self) {
        let is_full = |failure: &Failure| failure.code == Code::HeldFull;
        if matches!(&self.wait_reason, Some(WaitReason::Row { failure, .. }) if is_full(failure)) {
            self.offer_again();
        }
    }

    /// Whether events may be released: not while nothing more may be produced until everything is
    /// acknowledged, nor while the router stops.
    pub(crate) fn follows(&self) -> Follows {
        match self.phase {
            SessionPhase::Following if self.repin.is_some() => Follows::Paused,
            SessionPhase::Following => Follows::Yes,
            SessionPhase::Draining | SessionPhase::Finishing => Follows::No,
        }
    }

    /// Has the row offered again. Until the row is taken, its failure is still reported.
    pub(crate) fn offer_again(&mut self) {
        if let Some(WaitReason::Row { failure, .. }) = self.wait_reason.take() {
            self.retried_failure = Some(failure);
        }
    }

    /// The failure of a row that waits for a person, if one does.
    pub(crate) fn row_failure(&self) -> Option<&Failure> {
        match &self.wait_reason {
            Some(WaitReason::Row { failure, .. }) => Some(failure),
            Some(
                WaitReason::Topic(_)
                | WaitReason::QueueFull { .. }
                | WaitReason::SinkClosed
                | WaitReason::Isolate
                | WaitReason::Draining,
            )
            | None => self.retried_failure.as_ref(),
        }
    }

    /// Whether the next frame may be offered.
    #[inline]
    pub(crate) fn wants_wal(&self, window: Window) -> bool {
        let wanted = match self.phase {
            SessionPhase::Finishing => return true,
            SessionPhase::Following => true,
            SessionPhase::Draining => self.ledger.is_open(),
        };
        wanted && self.wait_reason.is_none() && self.repin.is_none() && self.ledger.has_room(window)
    }

    /// Why the socket is not read, while frames are still wanted.
    pub(crate) fn pause_reason(&self, window: Window) -> Option<PauseReason> {
        if self.wants_wal(window) {
            return None;
        }
        match &self.wait_reason {
            Some(WaitReason::Topic(_)) => Some(PauseReason::Topic),
            Some(WaitReason::QueueFull { .. } | WaitReason::SinkClosed) => Some(PauseReason::Queue),
            Some(WaitReason::Row { .. }) => Some(PauseReason::Row),
            Some(WaitReason::Isolate) => Some(PauseReason::Isolation),
            // The router is stopping, and wants nothing more.
            Some(WaitReason::Draining) => None,
            None if self.repin.is_some() => Some(PauseReason::Topic),
            None if self.ledger.has_room(window) => None,
            None => Some(PauseReason::Window),
        }
    }

    /// The oldest event that is read, or waited at, and not acknowledged.
    pub(crate) fn oldest_unacked(&self) -> Option<Unacked> {
        let waits = self.wait_reason.is_some() || self.retried_failure.is_some();
        self.ledger.oldest_unacked(if waits { NextRow::Waits } else { NextRow::Unread })
    }

    /// Ends the wait if its reason is gone; called after every input that is not a frame. Returns
    /// the topic that must be looked up, if any. `left_in_flight` is zero when the producer has no
    /// records of an earlier session, and no released events are under way.
    pub(crate) fn review(
        &mut self,
        at: Moment,
        left_in_flight: u64,
        topics: &mut Topics,
    ) -> Option<TopicId> {
        if let Some((topic, facts)) = self.repin
            && self.ledger.is_settled_but_for_open()
            && left_in_flight == 0
        {
            topics.answer(topic, Ok(facts), at);
            self.repin = None;
            self.topic_differs(topic);
        }
        match &mut self.wait_reason {
            None | Some(WaitReason::SinkClosed | WaitReason::Isolate | WaitReason::Draining) => {
                None
            }
            Some(WaitReason::QueueFull { again_at }) => {
                if *again_at <= at {
                    self.wait_reason = None;
                }
                None
            }
            Some(WaitReason::Topic(topic)) => match topics.readiness(*topic) {
                Readiness::Pending => Some(*topic),
                Readiness::Ready(_) | Readiness::Illegal => {
                    self.wait_reason = None;
                    None
                }
            },
            Some(WaitReason::Row { again_at, .. }) if *again_at > at => None,
            Some(WaitReason::Row { again_at, topic: Some(topic), .. }) => {
                *again_at = at + ASK_AGAIN;
                Some(*topic)
            }
            Some(WaitReason::Row { topic: None, .. }) => {
                self.offer_again();
                None
            }
        }
    }

    /// Whether the transaction that commits at `commit_lsn` must wait until everything before it is
    /// confirmed. The isolation ends with the first transaction past `isolate_at` that need not
    /// wait.
    pub(super) fn isolate(&mut self, commit_lsn: Lsn) -> bool {
        match self.isolate_at {
            Some(lsn) if commit_lsn >= lsn => {
                let waits = !self.ledger.is_all_confirmed();
                if !waits && commit_lsn > lsn {
                    self.isolate_at = None;
                }
                waits
            }
            Some(_) | None => false,
        }
    }

    /// Ends the wait of [`WaitReason::Isolate`] if everything is confirmed. Called after each
    /// status update, since the next review may be far.
    pub(crate) fn review_isolation(&mut self) {
        if self.wait_reason == Some(WaitReason::Isolate) && self.ledger.is_all_confirmed() {
            self.wait_reason = None;
        }
    }

    /// A look-up of a topic succeeded, and its partition count is the one in use.
    pub(crate) fn topic_found(&mut self, id: TopicId) {
        if self.repin.is_some_and(|(topic, _)| topic == id) {
            self.repin = None;
        }
    }

    /// A topic's `max.message.bytes` has changed: a row that exceeded it may fit now.
    pub(crate) fn topic_differs(&mut self, id: TopicId) {
        if let Some(WaitReason::Row { topic: Some(topic), .. }) = &self.wait_reason
            && *topic == id
        {
            self.offer_again();
        }
    }

    /// The partition count of a topic in use has changed. A larger count moves keys to other
    /// partitions, so it takes effect only when everything that any session produced under the old
    /// count is acknowledged. If two topics grow at once, the next read of the metadata finds the
    /// other.
    ///
    /// # Errors
    /// The topic has fewer partitions than before (K016).
    pub(crate) fn topic_changed(
        &mut self,
        id: TopicId,
        old: TopicFacts,
        new: TopicFacts,
        topics: &Topics,
    ) -> Result<(), Failure> {
        if new.partitions < old.partitions {
            let name = topics.name(id).map_or("(unknown)", TopicName::as_str);
            let what = format!(
                "topic {name} went from {} to {} partitions: it was re-created",
                old.partitions, new.partitions
            );
            return Err(Failure::new(Code::TopicShrunk, what).naming(Name::Topic, name));
        }
        self.repin = Some((id, new));
        Ok(())
    }

    /// When [`Session::update`], [`Session::review`] or the release of a stopping server is due at
    /// the latest.
    pub(crate) fn deadline(&self, topics: &Topics) -> Option<Moment> {
        if self.phase == SessionPhase::Finishing {
            return None;
        }
        let feedback = self.feedback.deadline(&self.ledger, self.received);
        let offer_again_at = match &self.wait_reason {
            Some(WaitReason::Row { again_at, .. } | WaitReason::QueueFull { again_at }) => {
                Some(*again_at)
            }
            Some(WaitReason::Topic(topic)) => topics.look_up_at(*topic),
            None | Some(WaitReason::SinkClosed | WaitReason::Isolate | WaitReason::Draining) => {
                None
            }
        };
        let release = self.release_at.filter(|_| !self.lets_server_stop());
        [Some(feedback), offer_again_at, release].into_iter().flatten().min()
    }

    /// Whether a draining session has nothing left to wait for: everything received is settled. An
    /// open transaction does not count if the session waits at its next row for longer than a
    /// stopping process can wait.
    pub(crate) fn is_drained(&self, topics: &Topics) -> bool {
        let rest_is_coming = match &self.wait_reason {
            None
            | Some(WaitReason::Draining | WaitReason::Isolate | WaitReason::QueueFull { .. }) => {
                true
            }
            Some(WaitReason::Topic(topic)) => topics.refusal(*topic).is_none(),
            Some(WaitReason::Row { .. } | WaitReason::SinkClosed) => false,
        };
        if rest_is_coming {
            self.ledger.is_settled()
        } else {
            self.ledger.is_settled_but_for_open()
        }
    }

    /// Whether this session does not keep a server from stopping: everything received is settled
    /// and in the witness, and reading continues.
    fn lets_server_stop(&self) -> bool {
        self.ledger.is_settled()
            && !self.ledger.has_unwritten()
            && self.covered.is_none()
            && self.wait_reason.is_none()
            && self.repin.is_none()
    }

    /// The server is stopping: it has until `by` to get everything confirmed.
    pub(crate) fn release_by(&mut self, by: Moment) {
        self.release_at.get_or_insert(by);
    }

    /// Whether the time of [`Session::release_by`] is over and this session still keeps the server
    /// from stopping.
    pub(crate) fn must_release(&self, at: Moment) -> bool {
        !self.lets_server_stop() && self.release_at.is_some_and(|by| by <= at)
    }
}
