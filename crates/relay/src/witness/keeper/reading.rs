//! What a keeper learns when the state topic is read: before a session, and while one streams.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{Keeper, Stored, Unwritten};
use crate::{
    failure::Failure,
    protocol::{StateTopicRead, StateTopicRecord},
    source::Gap,
    witness::{Unreadable, Witness, acceptance::Changed, combine, combine::join},
};

/// Whether the records differ from those of the last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateTopicChange {
    Unchanged,
    Changed,
}

/// What other routers and commands have written while a session streams.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OthersChange {
    /// Nothing that matters to the session.
    Nothing,
    /// Gaps that this session knows nothing of.
    Gaps(Vec<Gap>),
    /// A history that this session's record does not belong to: all checks have to be repeated.
    AnotherHistory,
    /// Kafka has lost what it had acknowledged to this session.
    Lost,
}

impl Keeper {
    /// Notes that the topic is read from now on: the answer has all that is acknowledged by now.
    pub(crate) fn asked(&mut self) {
        self.expected.clone_from(&self.acknowledged);
    }

    /// Whether Kafka has an older record under a key than it had acknowledged to this process, or
    /// than this process has read: a broker that lacked the latest was elected leader, or the topic
    /// was taken back. A record that is missing shows nothing, since somebody may have deleted it.
    fn has_lost(&self, records: &[StateTopicRecord]) -> Result<bool, Failure> {
        for record in records {
            let same = self.records.iter().find(|earlier| earlier.key == record.key);
            let was_read = match same.filter(|earlier| *earlier != record) {
                Some(earlier) => Some(Witness::decode(&earlier.value)?.rank()),
                None => None,
            };
            let own = self.expected.as_ref().filter(|expected| expected.key == record.key);
            let expected = was_read.max(own.map(|expected| expected.rank));
            if expected.is_some() && Some(Witness::decode(&record.value)?.rank()) < expected {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a write of this process was acknowledged at an offset that Kafka had given before.
    /// In a topic that was deleted and made again nothing is older than that write.
    fn note_taken_back(&mut self, records: &[StateTopicRecord]) -> bool {
        let Some((offset, key)) = self.taken_back.take() else { return false };
        let is_older = records.iter().any(|record| record.offset < offset);
        if is_older {
            self.uncounted.insert(key);
        }
        is_older
    }

    /// The witness that the records make together which count.
    pub(super) fn counted(
        &self,
        records: &[StateTopicRecord],
    ) -> Result<Option<Witness>, Unreadable> {
        if self.uncounted.is_empty() {
            return combine(records);
        }
        let mut records = records.to_vec();
        records.retain(|record| !self.uncounted.contains(&record.key));
        combine(&records)
    }

    /// Forgets all that this process knew of the witness but the gaps that it opened.
    fn forget(&mut self) {
        (self.witness, self.last_session) = (None, None);
        (self.acknowledged, self.expected) = (None, None);
        self.keys_to_delete.extend(self.session_record.take().map(|own| own.key));
    }

    /// Takes the records that were read from the state topic while no session streams. Where Kafka
    /// has lost some, events may have gone with them, and nothing but the topic counts, as for a
    /// process that has just started: this one would confirm what is nowhere.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn take_records(
        &mut self,
        read: StateTopicRead,
    ) -> Result<StateTopicChange, Failure> {
        let is_taken_back = self.note_taken_back(&read.records);
        let combined = self.counted(&read.records)?;
        let is_lost = is_taken_back || self.has_lost(&read.records)?;
        let newest = read.records.iter().map(|record| record.offset).max();
        if is_lost {
            self.forget();
        }
        let is_same = read.cluster == self.cluster && !is_lost;
        self.newest = if is_same { self.newest.max(newest) } else { newest };
        self.cluster = read.cluster;
        let since = if read.records == self.records {
            StateTopicChange::Unchanged
        } else {
            StateTopicChange::Changed
        };
        let is_new = |record: &StateTopicRecord, keys: &BTreeSet<_>| !keys.contains(&record.key);
        self.last_session
            .take_if(|left| read.records.iter().any(|record| is_new(record, &left.keys)));
        self.records = read.records;
        // What this process has written still counts if the topic was deleted meanwhile.
        self.witness = join(self.witness.take().into_iter().chain(combined));
        if is_lost {
            let own = std::mem::take(&mut self.own_gaps.gaps);
            self.open_gaps(&own);
        }
        self.reopen();
        Ok(since)
    }

    /// Takes the records that were read from the state topic while a session streams.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn take_others_records(
        &mut self,
        read: StateTopicRead,
    ) -> Result<OthersChange, Failure> {
        let StateTopicRead { cluster, records } = read;
        let combined = self.counted(&records)?;
        if self.has_lost(&records)? {
            return Ok(OthersChange::Lost);
        }
        let Some(session_record) = &mut self.session_record else {
            return Ok(OthersChange::Nothing);
        };
        if !cluster.is_empty() && cluster != session_record.witness.cluster {
            return Ok(OthersChange::AnotherHistory);
        }
        // Somebody has deleted this session's record, or the topic: write the record again.
        if session_record.stored == Stored::Yes
            && !records.iter().any(|record| record.key == session_record.key)
        {
            session_record.unwritten = Unwritten::Some;
        }
        self.newest = self.newest.max(records.iter().map(|record| record.offset).max());
        self.records = records;
        let Some(known) = join(self.witness.take().into_iter().chain(combined)) else {
            return Ok(OthersChange::Nothing);
        };
        // A command or a router that looked before this session began may have opened a gap in the
        // session's own generation.
        let seen = match (known.generation.cmp(&session_record.witness.generation), &known.gaps[..])
        {
            // The writer of that record has held the slot after this session.
            (Ordering::Equal, []) if known.holder() > session_record.witness.holder() => {
                OthersChange::AnotherHistory
            }
            (Ordering::Less, _) | (Ordering::Equal, []) => OthersChange::Nothing,
            (Ordering::Equal | Ordering::Greater, gaps @ [_, ..]) => {
                OthersChange::Gaps(gaps.to_vec())
            }
            (Ordering::Greater, []) => OthersChange::AnotherHistory,
        };
        if known.generation == session_record.witness.generation {
            let learned = session_record.witness.learn_topics(&known);
            let accepted = session_record.witness.take_over_acceptances(&known);
            let left_out = session_record.witness.learn_notes(&known);
            if [learned, accepted, left_out].contains(&Changed::Yes) {
                session_record.unwritten = Unwritten::Some;
            }
        }
        self.witness = Some(known);
        Ok(seen)
    }
}
