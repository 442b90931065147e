//! What a keeper learns when the state topic is read: before a session, and while one streams.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{Keeper, Stored, Unwritten};
use crate::{
    failure::Failure,
    protocol::{StateRead, StateRecord},
    source::Gap,
    witness::{acceptance::Changed, combine, combine::join},
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
}

impl Keeper {
    /// Takes the records that were read from the state topic while no session streams.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn read(&mut self, read: StateRead) -> Result<StateTopicChange, Failure> {
        let combined = combine(&read.records)?;
        let since = if read.records == self.read {
            StateTopicChange::Unchanged
        } else {
            StateTopicChange::Changed
        };
        let is_new = |record: &StateRecord, keys: &BTreeSet<_>| !keys.contains(&record.key);
        self.remembered
            .take_if(|left| read.records.iter().any(|record| is_new(record, &left.keys)));
        self.read = read.records;
        // What this process has written still counts if the topic was deleted meanwhile.
        self.known = join(self.known.take().into_iter().chain(combined));
        self.reopen();
        Ok(since)
    }

    /// Takes the records that were read from the state topic while a session streams.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn others_wrote(&mut self, read: StateRead) -> Result<OthersChange, Failure> {
        let StateRead { cluster, records } = read;
        let combined = combine(&records)?;
        let Some(present) = &mut self.present else { return Ok(OthersChange::Nothing) };
        if !cluster.is_empty() && cluster != present.witness.cluster {
            return Ok(OthersChange::AnotherHistory);
        }
        // Somebody has deleted this session's record, or the topic: write the record again.
        if present.stored == Stored::Yes && !records.iter().any(|record| record.key == present.key)
        {
            present.news = Unwritten::Some;
        }
        self.read = records;
        let Some(known) = join(self.known.take().into_iter().chain(combined)) else {
            return Ok(OthersChange::Nothing);
        };
        // A promotion begins a generation, too, so an unknown gap may be of this session's own
        // generation.
        let seen = match (known.generation.cmp(&present.witness.generation), &known.gaps[..]) {
            // The writer of that record has held the slot after this session.
            (Ordering::Equal, []) if known.holder() > present.witness.holder() => {
                OthersChange::AnotherHistory
            }
            (Ordering::Less, _) | (Ordering::Equal, []) => OthersChange::Nothing,
            (Ordering::Equal | Ordering::Greater, gaps @ [_, ..]) => {
                OthersChange::Gaps(gaps.to_vec())
            }
            (Ordering::Greater, []) => OthersChange::AnotherHistory,
        };
        if known.generation == present.witness.generation
            && present.witness.take_over_acceptances(&known) == Changed::Yes
        {
            present.news = Unwritten::Some;
        }
        self.known = Some(known);
        Ok(seen)
    }
}
