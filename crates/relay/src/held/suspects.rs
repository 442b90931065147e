//! Which record of a transaction the broker refuses.
//!
//! A broker refuses a batch and names no record of it, and the producer's failure ends the session.
//! So the transaction is produced again in groups: nothing of a group is produced before the group
//! before it is acknowledged, and the group that fails next holds the culprit. After the first
//! failure a group has 256 records, after the second one. So a culprit costs three sessions at
//! most, and even in a transaction of 100,000 records less than 700 waits for an acknowledgement.

use std::collections::BTreeMap;

use pgoutput::{Begin, Lsn, PgTimestamp, Xid};

use super::EventId;
use crate::{failure::Failure, progress::LastTransaction};

/// The size of a group after the first failure.
const GROUP: u32 = 256;

/// By what a transaction is told from another one at the same position, as a server writes it that
/// was restored to an earlier state.
type Told = (Xid, PgTimestamp);

/// A transaction whose records are produced in groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Suspects {
    commit_lsn: Lsn,
    /// The first record that may be the culprit; those before it were acknowledged once.
    first: u32,
    /// How many records are in flight together from `first` on.
    group: u32,
    /// The first record of the group that is in flight, in the present session.
    begun: Option<u32>,
    /// How many records of the group were offered.
    offered: u32,
    /// The last of them.
    last: Option<u32>,
}

impl Suspects {
    fn new(commit_lsn: Lsn, first: u32, group: u32) -> Self {
        Self { commit_lsn, first, group, begun: None, offered: 0, last: None }
    }
}

/// What is known of records that a broker refuses.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    suspects: Option<Suspects>,
    /// What was found, until its position is confirmed.
    culprits: BTreeMap<EventId, Failure>,
    /// The transactions of both, by where they commit.
    transactions: BTreeMap<Lsn, Told>,
}

/// What a refusal has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrowed {
    /// Fewer records can be the culprit, or it is found: the next session goes on with that.
    Further,
    /// Nothing: the culprit was known, and its place was taken by something that fails alike.
    No,
}

impl Refusals {
    /// Whether a row has to be compared with what is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.suspects.is_none() && self.culprits.is_empty()
    }

    /// Whether records of one transaction are produced in groups, so that nothing else may be in
    /// flight beside them.
    pub(crate) fn is_searching(&self) -> bool {
        self.suspects.is_some_and(|suspects| suspects.begun.is_some())
    }

    /// This transaction is received. What is known of another one at its position says nothing of
    /// its records.
    pub(crate) fn begun(&mut self, begin: &Begin) {
        let told = (begin.xid, begin.committed_at);
        if self.transactions.get(&begin.final_lsn).is_some_and(|known| *known != told) {
            self.forget(begin.final_lsn);
        }
    }

    /// A broker refused a record of this transaction.
    pub(crate) fn refused(&mut self, of: LastTransaction, failure: &Failure) -> Narrowed {
        let LastTransaction { commit_lsn, xid, committed_at, .. } = of;
        self.transactions.insert(commit_lsn, (xid, committed_at));
        let known = self.suspects.filter(|known| known.commit_lsn == commit_lsn);
        match known {
            // It was in flight alone.
            Some(Suspects { begun: Some(index), offered: 1, .. }) => {
                let id = EventId { commit_lsn, index };
                if self.culprits.contains_key(&id) {
                    return Narrowed::No;
                }
                self.suspects = None;
                self.culprits.insert(id, failure.clone());
            }
            Some(Suspects { begun: Some(first), .. }) => {
                self.suspects = Some(Suspects::new(commit_lsn, first, 1));
            }
            // The session failed before it came to the suspects, or at records before them: those
            // are suspects, too.
            Some(Suspects { begun: None, group, .. }) => {
                self.suspects = Some(Suspects::new(commit_lsn, 0, group));
            }
            // Those that were found are not produced any more: there is another one.
            None => {
                self.suspects = Some(Suspects::new(commit_lsn, 0, GROUP));
            }
        }
        Narrowed::Further
    }

    /// Why this event is known to be refused.
    pub(crate) fn culprit(&self, id: EventId) -> Option<&Failure> {
        self.culprits.get(&id)
    }

    /// The event is produced out of the table: somebody believes that the broker takes it now. If
    /// it comes again, it follows again what comes again before it.
    pub(crate) fn tried_again(&mut self, id: EventId) {
        self.culprits.remove(&id);
    }

    /// Whether the record must wait until nothing is in flight.
    pub(crate) fn must_wait(&self, id: EventId, in_flight: u64) -> bool {
        let Some(suspects) = self.of(id) else { return false };
        let is_group_full = suspects.begun.is_none() || suspects.offered >= suspects.group;
        id.index >= suspects.first && is_group_full && in_flight > 0
    }

    /// The record is offered to the producer; the same one may be offered several times.
    pub(crate) fn offered(&mut self, id: EventId) {
        let Some(suspects) = self.suspects.as_mut().filter(|s| s.commit_lsn == id.commit_lsn)
        else {
            return;
        };
        if id.index < suspects.first || suspects.last == Some(id.index) {
            return;
        }
        suspects.last = Some(id.index);
        if suspects.begun.is_none() || suspects.offered >= suspects.group {
            (suspects.begun, suspects.offered) = (Some(id.index), 0);
        }
        suspects.offered += 1;
    }

    /// A session ended: the next one begins with the suspects again.
    pub(crate) fn session_ended(&mut self) {
        if let Some(suspects) = &mut self.suspects {
            *suspects = Suspects::new(suspects.commit_lsn, suspects.first, suspects.group);
        }
    }

    /// This position is confirmed: what is known of transactions before it is not needed any more.
    pub(crate) fn position_confirmed(&mut self, confirmed: Lsn) {
        self.suspects.take_if(|suspects| confirmed > suspects.commit_lsn);
        self.culprits.retain(|id, _| confirmed <= id.commit_lsn);
        self.transactions.retain(|commit_lsn, _| confirmed <= *commit_lsn);
    }

    fn forget(&mut self, commit_lsn: Lsn) {
        self.suspects.take_if(|suspects| suspects.commit_lsn == commit_lsn);
        self.culprits.retain(|id, _| id.commit_lsn != commit_lsn);
        self.transactions.remove(&commit_lsn);
    }

    fn of(&self, id: EventId) -> Option<&Suspects> {
        self.suspects.as_ref().filter(|suspects| suspects.commit_lsn == id.commit_lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    fn id(index: u32) -> EventId {
        EventId { commit_lsn: Lsn::from_u64(100), index }
    }

    fn refused() -> Failure {
        Failure::new(Code::RecordRefused, "refused")
    }

    /// The transaction of [`id`].
    fn transaction() -> LastTransaction {
        LastTransaction {
            commit_lsn: id(0).commit_lsn,
            end_lsn: Lsn::from_u64(108),
            xid: Xid::from_u32(7),
            committed_at: PgTimestamp::from_micros(1),
        }
    }

    fn begin(xid: u32, micros: i64) -> Begin {
        let committed_at = PgTimestamp::from_micros(micros);
        Begin { final_lsn: id(0).commit_lsn, committed_at, xid: Xid::from_u32(xid) }
    }

    /// Produces a transaction of `records`, of which one is refused, as sessions do. Returns
    /// whether it got through.
    fn session(refusals: &mut Refusals, records: u32, culprit: u32) -> bool {
        let mut in_flight = Vec::new();
        let mut fails = false;
        for index in 0..records {
            if refusals.culprit(id(index)).is_some() {
                assert!(index <= culprit, "an innocent record is taken for the culprit");
                continue;
            }
            if refusals.must_wait(id(index), u64::try_from(in_flight.len()).unwrap()) {
                if fails {
                    break;
                }
                in_flight.clear();
            }
            refusals.offered(id(index));
            in_flight.push(index);
            fails |= index == culprit;
        }
        if fails {
            assert_eq!(refusals.refused(transaction(), &refused()), Narrowed::Further);
        }
        refusals.session_ended();
        !fails
    }

    #[test]
    fn the_culprit_is_found_in_three_sessions_wherever_it_stands() {
        for records in [1, 2, 255, 256, 257, 5_000] {
            for culprit in [0, 1, 255, 256, 257, records / 2, records - 1] {
                if culprit >= records {
                    continue;
                }
                let mut refusals = Refusals::default();
                let failed = (0..4).position(|_| session(&mut refusals, records, culprit));
                let sessions = if records == 1 { 2 } else { 3 };
                assert!(failed.is_some_and(|n| n <= sessions), "{culprit} of {records}");
            }
        }
    }

    #[test]
    fn one_record_is_in_flight_at_the_end_and_nothing_waits_elsewhere() {
        let mut refusals = Refusals::default();
        refusals.refused(transaction(), &refused());
        refusals.offered(id(0));
        refusals.session_ended();
        let other = EventId { commit_lsn: Lsn::from_u64(200), index: 0 };
        assert!(refusals.must_wait(id(0), 1) && !refusals.must_wait(other, 1));
        refusals.offered(id(0));
        assert!(!refusals.must_wait(id(1), 1), "the group has room");
        refusals.offered(id(1));
        refusals.refused(transaction(), &refused());
        refusals.offered(id(0));
        assert!(refusals.must_wait(id(1), 1) && !refusals.must_wait(id(1), 0));
    }

    #[test]
    fn what_is_known_says_nothing_of_another_transaction_at_the_position() {
        for (other, is_other) in [(begin(7, 1), false), (begin(8, 1), true), (begin(7, 2), true)] {
            let mut refusals = Refusals::default();
            assert!(!session(&mut refusals, 1, 0));
            assert!(!session(&mut refusals, 1, 0));
            refusals.begun(&other);
            assert_eq!(refusals.culprit(id(0)).is_none(), is_other, "{other:?}");
            let mut refusals = Refusals::default();
            assert!(!session(&mut refusals, 1, 0));
            refusals.begun(&other);
            assert_eq!(refusals.is_empty(), is_other, "{other:?}");
        }
    }

    #[test]
    fn what_is_known_is_forgotten_when_its_position_is_confirmed() {
        let mut refusals = Refusals::default();
        session(&mut refusals, 1, 0);
        refusals.position_confirmed(Lsn::from_u64(100));
        assert!(!refusals.is_empty());
        refusals.position_confirmed(Lsn::from_u64(101));
        assert!(refusals.is_empty());
    }

    #[test]
    fn every_culprit_of_a_transaction_is_found() {
        let mut refusals = Refusals::default();
        for culprit in [1, 4] {
            let found = (0..4).any(|_| session(&mut refusals, 6, culprit));
            assert!(found, "record {culprit} is searched");
        }
        assert!(refusals.culprit(id(1)).is_some() && refusals.culprit(id(4)).is_some());
    }
}
