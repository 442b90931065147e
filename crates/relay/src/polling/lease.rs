//! Which shards belong to this worker, and until when it may rely on that.
//!
//! A lease is counted from the moment at which its request was made, so it ends here before it ends
//! on the server. Records are produced in its first half only, and the producer gives a record up
//! before the second half is over: so nothing is sent after the lease has ended, even by a
//! process that was frozen in between.

use std::time::Duration;

use super::{
    protocol::{LeaseRequest, Leases, RequestNumber, Share},
    shards::{ShardSet, share_of},
};
use crate::clock::Moment;

/// See the module's header.
#[derive(Debug)]
pub(super) struct Lease {
    length: Duration,
    /// The shards of each table.
    held: Vec<ShardSet>,
    /// How many workers there are, as far as is known.
    workers: u32,
    /// What this worker may take.
    share: Share,
    /// When the request was made that granted what is held; `None` while nothing is.
    granted_at: Option<Moment>,
    /// When the request under way was made.
    asked_at: Option<Moment>,
    /// When to ask again.
    ask_at: Moment,
    /// The request that was answered last.
    as_of: RequestNumber,
    /// Whether the server has answered at all.
    answered: Answered,
    /// Whether the server may know of this worker.
    known: Known,
}

/// Whether a request was made since everything was given back. Its answer may have been lost, so
/// what is held here says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Never,
    Maybe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Never,
    Once,
}

/// Whether this worker reads on meanwhile, or has nothing in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    Yes,
    No,
}

impl Lease {
    pub(super) fn new(length: Duration, tables: usize) -> Self {
        Self {
            length,
            held: vec![ShardSet::NONE; tables],
            workers: 1,
            share: Share::Equal,
            granted_at: None,
            asked_at: None,
            ask_at: Moment::default(),
            as_of: RequestNumber::default(),
            answered: Answered::Never,
            known: Known::Never,
        }
    }

    /// The request that is due, if one is.
    pub(super) fn request(&mut self, busy: Busy, at: Moment) -> Option<LeaseRequest> {
        let is_due = self.ask_at <= at || (busy == Busy::No && self.is_excess());
        if self.asked_at.is_some() || !is_due {
            return None;
        }
        self.asked_at = Some(at);
        self.known = Known::Maybe;
        let share = self.share();
        let wanted = self.held.iter().map(|held| match busy {
            // What is given back may belong to another worker at once, so nothing of it may be in
            // flight.
            Busy::Yes => share.max(held.len()),
            Busy::No => share,
        });
        Some(LeaseRequest::Hold { wanted: wanted.collect() })
    }

    /// The request that gives everything back, unless the server knows of nothing.
    pub(super) fn release(&mut self, at: Moment) -> Option<LeaseRequest> {
        if self.asked_at.is_some() || self.known == Known::Never {
            return None;
        }
        self.asked_at = Some(at);
        self.known = Known::Never;
        self.give_up();
        Some(LeaseRequest::Release)
    }

    /// The request was answered.
    pub(super) fn answer(&mut self, leases: Leases) {
        let Some(asked_at) = self.asked_at.take() else { return };
        self.answered = Answered::Once;
        self.workers = leases.workers.max(1);
        self.share = leases.share;
        self.as_of = leases.request;
        let tables = self.held.len();
        self.held = leases.held;
        self.held.resize(tables, ShardSet::NONE);
        self.granted_at = Some(asked_at);
        self.ask_at = asked_at + self.length / 3;
    }

    /// The request failed. What is held stays so until its time is over.
    pub(super) fn failed(&mut self, at: Moment) {
        self.asked_at = None;
        self.ask_at = at + (self.length / 10).min(Duration::from_secs(1));
    }

    /// The shards of a table that may be read and produced now.
    pub(super) fn usable(&self, table: usize, at: Moment) -> ShardSet {
        match self.held.get(table) {
            Some(held) if self.may_produce(at) && !self.is_shrinking() => *held,
            Some(_) | None => ShardSet::NONE,
        }
    }

    /// Whether every one of these shards of a table is held, and records may be produced.
    pub(super) fn covers(&self, table: usize, shards: ShardSet, at: Moment) -> bool {
        self.may_produce(at) && self.held.get(table).is_some_and(|held| shards.is_within(*held))
    }

    /// Until when records may be produced.
    pub(super) fn produces_until(&self) -> Option<Moment> {
        self.granted_at.map(|granted| granted + self.length / 2)
    }

    /// When the lease ends, unless it is renewed.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        self.granted_at.map(|granted| granted + self.length)
    }

    /// The lease has ended: other workers may have its shards.
    pub(super) fn give_up(&mut self) {
        self.granted_at = None;
        self.held.fill(ShardSet::NONE);
    }

    /// When to ask again; `None` while an answer is awaited.
    pub(super) fn ask_at(&self) -> Option<Moment> {
        if self.asked_at.is_some() { None } else { Some(self.ask_at) }
    }

    /// Whether an answer is awaited.
    pub(super) fn is_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Whether the server has said what is held, at least once.
    pub(super) fn is_known(&self) -> bool {
        self.answered == Answered::Once
    }

    /// The request whose answer said what is held.
    pub(super) fn as_of(&self) -> RequestNumber {
        self.as_of
    }

    /// What is held of a table.
    pub(super) fn held(&self, table: usize) -> ShardSet {
        self.held.get(table).copied().unwrap_or_default()
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> u32 {
        self.workers
    }

    fn may_produce(&self, at: Moment) -> bool {
        self.produces_until().is_some_and(|until| at < until)
    }

    /// Whether this worker holds more than its share, so that others have less than theirs.
    fn is_excess(&self) -> bool {
        let share = self.share();
        self.held.iter().any(|held| held.len() > share)
    }

    /// Whether this worker is to hold nothing, whoever else there is.
    pub(super) fn is_withheld(&self) -> bool {
        self.share == Share::None
    }

    /// The most shards of each table that this worker should hold.
    fn share(&self) -> u32 {
        match self.share {
            Share::Equal => share_of(self.workers),
            Share::None => 0,
        }
    }

    /// Whether part of what is held is about to be given back.
    fn is_shrinking(&self) -> bool {
        self.is_excess()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn leases(held: ShardSet, workers: u32, share: Share) -> Leases {
        Leases { held: vec![held], workers, share, request: RequestNumber(1) }
    }

    fn all(workers: u32) -> Leases {
        leases(ShardSet::ALL, workers, Share::Equal)
    }

    fn part(shards: u32, workers: u32) -> Leases {
        leases((0..shards).collect(), workers, Share::Equal)
    }

    /// A lease of all shards, from a request made at second 0.
    fn held() -> Lease {
        let mut lease = Lease::new(TEN, 1);
        assert_eq!(lease.usable(0, at(0)), ShardSet::NONE);
        let request = lease.request(Busy::No, at(0));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![64] }));
        lease.answer(all(1));
        lease
    }

    #[test]
    fn a_lease_counts_from_its_request_and_is_used_in_its_first_half() {
        let mut lease = Lease::new(TEN, 1);
        assert!(lease.request(Busy::No, at(7)).is_some());
        assert!(lease.request(Busy::No, at(8)).is_none(), "one request at a time");
        lease.answer(all(1));
        assert_eq!(lease.usable(0, at(11)), ShardSet::ALL);
        assert_eq!(lease.usable(0, at(12)), ShardSet::NONE, "half of it is over");
        assert!(!lease.covers(0, ShardSet::ALL, at(12)));
        assert_eq!(lease.ends_at(), Some(at(17)));
    }

    #[test]
    fn a_request_that_fails_takes_nothing_away_and_is_repeated_soon() {
        let mut lease = held();
        let second = Duration::from_secs(1);
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        lease.failed(at(4));
        assert_eq!(lease.usable(0, at(4)), ShardSet::ALL);
        assert_eq!(lease.ask_at(), Some(at(4) + second));
        assert_eq!(lease.usable(0, at(5)), ShardSet::NONE);
    }

    #[test]
    fn what_is_more_than_a_share_is_given_back_when_nothing_is_in_flight() {
        let mut lease = held();
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        lease.answer(all(3));
        assert_eq!(lease.usable(0, at(5)), ShardSet::NONE, "nothing new is begun");
        assert!(lease.covers(0, ShardSet::ALL, at(5)), "what is in flight goes on");
        assert_eq!(lease.request(Busy::Yes, at(5)), None);
        let request = lease.request(Busy::No, at(5));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![22] }));
        lease.answer(part(22, 3));
        assert_eq!(lease.usable(0, at(6)).len(), 22);
        assert_eq!(lease.request(Busy::No, at(6)), None);
    }

    #[test]
    fn a_busy_worker_renews_all_that_it_holds() {
        let mut lease = held();
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        lease.answer(all(2));
        let request = lease.request(Busy::Yes, at(8));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![64] }));
    }

    #[test]
    fn a_table_that_is_handed_over_is_given_back_when_nothing_is_in_flight() {
        let mut lease = held();
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        lease.answer(Leases { share: Share::None, ..all(1) });
        assert_eq!(lease.usable(0, at(5)), ShardSet::NONE, "nothing new is begun");
        assert!(lease.covers(0, ShardSet::ALL, at(5)), "what is in flight goes on");
        let request = lease.request(Busy::Yes, at(8));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![64] }));
        lease.answer(Leases { share: Share::None, ..all(1) });
        let request = lease.request(Busy::No, at(9));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![0] }));
        lease.answer(leases(ShardSet::NONE, 1, Share::None));
        assert_eq!(lease.request(Busy::No, at(10)), None, "it asks now and then");
        assert_eq!(lease.request(Busy::No, at(13)), Some(LeaseRequest::Hold { wanted: vec![0] }));
        // The hand-over was given up.
        lease.answer(leases(ShardSet::NONE, 1, Share::Equal));
        let request = lease.request(Busy::No, at(17));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![64] }));
    }

    #[test]
    fn shards_that_another_worker_has_taken_are_covered_no_more() {
        let mut lease = held();
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        lease.answer(part(10, 2));
        assert!(!lease.covers(0, ShardSet::ALL, at(4)));
        assert!(lease.covers(0, (0..5).collect(), at(4)));
    }

    #[test]
    fn what_the_server_may_have_granted_without_an_answer_is_given_back() {
        let mut lease = Lease::new(TEN, 1);
        assert_eq!(lease.release(at(0)), None, "nothing was asked for");
        assert!(lease.request(Busy::No, at(0)).is_some());
        lease.failed(at(3));
        assert_eq!(lease.release(at(3)), Some(LeaseRequest::Release));
        lease.failed(at(6));
        assert_eq!(lease.release(at(6)), None, "once");
    }

    #[test]
    fn everything_is_given_back_at_once_and_only_once() {
        let mut lease = held();
        assert_eq!(lease.release(at(2)), Some(LeaseRequest::Release));
        assert_eq!(lease.usable(0, at(2)), ShardSet::NONE);
        assert_eq!(lease.release(at(2)), None);
    }
}
