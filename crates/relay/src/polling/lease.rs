//! Which shards belong to this worker, and until when it may rely on that.
//!
//! A lease is counted from the moment at which its request was made, so it ends here before it ends
//! on the server. Records are produced in its first half only, and the producer gives a record up
//! before the second half is over: so nothing is sent after the lease has ended, even by a
//! process that was frozen in between.

use std::time::Duration;

use super::{
    batch::Batch,
    lease_length::LeaseLength,
    protocol::{LeaseRequest, Leases, RequestNumber, Share, TableLeases},
    shards::ShardSet,
};
use crate::{clock::Moment, source::Oid};

/// How long after the end of another worker's lease its shards are asked for: clocks may differ in
/// how fast they go.
const PAST_END: Duration = Duration::from_millis(50);

/// See the module's header.
#[derive(Debug)]
pub(super) struct Lease {
    length: LeaseLength,
    /// Of each table, as far as is known. Each is shared by its own workers: others may poll one of
    /// the tables and not the next, and would never take what is given back of that one.
    tables: Vec<TableLeases>,
    /// Whether this worker can read each of them.
    readable: Vec<Readable>,
    granted: Vec<Granted>,
    /// How many shards of each the request under way asks for.
    wanted: Vec<u32>,
    /// When the request was made that granted what is held; `None` while nothing is.
    granted_at: Option<Moment>,
    /// When the request under way was made.
    asked_at: Option<Moment>,
    /// When to ask again.
    ask_at: Moment,
    /// Since the last request failed, nothing is asked before this.
    not_before: Moment,
    /// The request that was answered last.
    as_of: RequestNumber,
    /// Whether the server has answered at all.
    answered: Answered,
    /// Whether the server may know of this worker.
    registered: Registered,
}

/// How many shards of a table the server may have for this worker: a request may have been carried
/// out although no answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Granted {
    /// Less than what is held here while some are given back: others may have these.
    least: u32,
    /// More than what is held here where an answer was lost, or where the lease has ended here and
    /// not there.
    most: u32,
}

impl Granted {
    /// What an answer says.
    const fn exactly(shards: u32) -> Self {
        Self { least: shards, most: shards }
    }
}

/// Whether a request was made since everything was given back. Its answer may have been lost, so
/// what is held here says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registered {
    Never,
    Maybe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Never,
    Once,
}

/// Whether this worker can read a table, as far as is known. Of one that it cannot, it leaves all
/// shards to the others: their rows would wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readable {
    Yes,
    No,
}

/// Whether this worker reads on meanwhile, or has nothing in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    Yes,
    No,
}

impl Lease {
    pub(super) fn new(length: LeaseLength, tables: usize) -> Self {
        Self {
            length,
            tables: vec![TableLeases::nothing(1); tables],
            readable: vec![Readable::Yes; tables],
            granted: vec![Granted::exactly(0); tables],
            wanted: Vec::new(),
            granted_at: None,
            asked_at: None,
            ask_at: Moment::default(),
            not_before: Moment::default(),
            as_of: RequestNumber::default(),
            answered: Answered::Never,
            registered: Registered::Never,
        }
    }

    /// The request that is due, if one is.
    pub(super) fn request(&mut self, busy: Busy, at: Moment) -> Option<LeaseRequest> {
        let is_due = self.ask_at <= at || (busy == Busy::No && self.is_excess());
        if self.asked_at.is_some() || !is_due || at < self.not_before {
            return None;
        }
        self.asked_at = Some(at);
        self.registered = Registered::Maybe;
        self.wanted = (0..self.tables.len()).map(|table| self.ask_for(table, busy)).collect();
        Some(LeaseRequest::Hold { wanted: self.wanted.clone() })
    }

    /// How many shards of a table are asked for.
    fn ask_for(&mut self, table: usize, busy: Busy) -> u32 {
        let due = self.due(table);
        let Some(granted) = self.granted.get_mut(table) else { return due };
        let wanted = match busy {
            // What is given back may belong to another worker at once, so nothing of it may be in
            // flight, and no mark of it be under way.
            Busy::Yes => due.max(granted.most),
            Busy::No => due,
        };
        *granted = Granted { least: wanted.min(granted.least), most: wanted.max(granted.most) };
        wanted
    }

    /// The request that gives everything back, unless the server knows of nothing.
    pub(super) fn release(&mut self, at: Moment) -> Option<LeaseRequest> {
        if self.asked_at.is_some() || self.registered == Registered::Never {
            return None;
        }
        self.asked_at = Some(at);
        self.registered = Registered::Never;
        self.give_up();
        Some(LeaseRequest::Release)
    }

    /// The request was answered.
    pub(super) fn answer(&mut self, leases: Leases) {
        let Some(asked_at) = self.asked_at.take() else { return };
        self.answered = Answered::Once;
        self.as_of = leases.request;
        let tables = self.tables.len();
        self.tables = leases.tables;
        self.tables.resize(tables, TableLeases::nothing(1));
        let held = self.tables.iter().map(|table| table.held.len());
        self.granted = held.map(Granted::exactly).collect();
        self.granted_at = Some(asked_at);
        self.ask_at = asked_at + self.until_renewal();
    }

    /// From a request that was answered to the next one. A worker that has died is replaced as soon
    /// as its lease has ended.
    fn until_renewal(&self) -> Duration {
        let wanted = self.wanted.iter().enumerate();
        if wanted.into_iter().any(|(table, wanted)| self.due(table) > *wanted) {
            // One has gone since the last answer.
            return Duration::ZERO;
        }
        let renewal = self.length.renewal();
        let ends = self.tables.iter().filter_map(|table| table.next_end);
        // Others may have shorter leases, which they renew more often.
        ends.map(|end| (end + PAST_END).max(renewal / 4)).fold(renewal, Duration::min)
    }

    /// The request failed. What is held stays so until its time is over.
    pub(super) fn failed(&mut self, at: Moment) {
        self.asked_at = None;
        self.ask_at = at + self.again_after();
        self.not_before = self.ask_at;
    }

    /// The server has said that another worker has shards of a table which this request granted:
    /// nothing of it is read before the next answer.
    pub(super) fn refuted(&mut self, table: usize, as_of: RequestNumber, at: Moment) {
        if as_of != self.as_of {
            return;
        }
        if let Some(table) = self.tables.get_mut(table) {
            table.held = ShardSet::NONE;
        }
        self.ask_at = self.ask_at.min(at + self.again_after());
    }

    fn again_after(&self) -> Duration {
        (self.length.whole() / 10).min(Duration::from_secs(1))
    }

    /// Says whether this worker can read a table.
    pub(super) fn set_readable(&mut self, table: usize, readable: Readable) {
        if let Some(known) = self.readable.get_mut(table) {
            *known = readable;
        }
    }

    /// The shards of a table that may be read and produced now.
    pub(super) fn usable(&self, table: usize, at: Moment) -> ShardSet {
        // Of a table of which more is held than a share, part is about to be given back; and what
        // a request gives back belongs to others until an answer says that it does not.
        if self.may_produce(at) && !self.is_excess_of(table) && !self.is_given_back_of(table) {
            self.held(table)
        } else {
            ShardSet::NONE
        }
    }

    /// Whether every one of these shards of a table is held, and records may be produced.
    pub(super) fn covers(&self, table: usize, shards: ShardSet, at: Moment) -> bool {
        self.may_produce(at) && shards.is_within(self.held(table))
    }

    /// The same of a batch: since it was read, another table may have taken the name.
    pub(super) fn covers_batch(&self, batch: &Batch, at: Moment) -> bool {
        let table = batch.table.0;
        self.relation(table) == Some(batch.asked.relation) && self.covers(table, batch.shards, at)
    }

    /// Until when records may be produced.
    pub(super) fn produces_until(&self) -> Option<Moment> {
        self.granted_at.map(|granted| granted + self.length.producing())
    }

    /// When the lease ends, unless it is renewed.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        self.granted_at.map(|granted| granted + self.length.whole())
    }

    /// The lease has ended: other workers may have its shards.
    pub(super) fn give_up(&mut self) {
        self.granted_at = None;
        self.tables.iter_mut().for_each(|table| table.held = ShardSet::NONE);
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

    /// Which table the lease is of.
    pub(super) fn relation(&self, table: usize) -> Option<Oid> {
        self.tables.get(table).and_then(|table| table.relation)
    }

    /// What is held of a table.
    pub(super) fn held(&self, table: usize) -> ShardSet {
        self.tables.get(table).map(|table| table.held).unwrap_or_default()
    }

    /// How many workers there are, of the table that has the most.
    pub(super) fn workers(&self) -> u32 {
        self.tables.iter().map(|table| table.workers).max().unwrap_or(0).max(1)
    }

    /// Whether this worker is to hold nothing of any table, whoever else there is.
    pub(super) fn is_withheld(&self) -> bool {
        !self.tables.is_empty() && self.tables.iter().all(|table| table.share == Share::None)
    }

    fn may_produce(&self, at: Moment) -> bool {
        self.produces_until().is_some_and(|until| at < until)
    }

    /// The most shards of a table that this worker should hold.
    fn due(&self, table: usize) -> u32 {
        match self.readable.get(table) {
            Some(Readable::Yes) => self.tables.get(table).map_or(0, TableLeases::due),
            Some(Readable::No) | None => 0,
        }
    }

    /// Whether this worker holds more of a table than it should, so that others have less.
    fn is_excess_of(&self, table: usize) -> bool {
        self.held(table).len() > self.due(table)
    }

    /// Whether the server may have less of a table for this worker than it holds.
    fn is_given_back_of(&self, table: usize) -> bool {
        self.granted.get(table).is_none_or(|granted| self.held(table).len() > granted.least)
    }

    fn is_excess(&self) -> bool {
        (0..self.tables.len()).any(|table| self.is_excess_of(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: LeaseLength = LeaseLength::new(Duration::from_secs(10));

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn leases(held: ShardSet, workers: u32, share: Share) -> Leases {
        of_tables(vec![TableLeases { share, ..table(held, workers) }])
    }

    fn of_tables(tables: Vec<TableLeases>) -> Leases {
        Leases { tables, request: RequestNumber(1) }
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

    /// As far as the answers say: a worker that lives renews its lease long before.
    #[test]
    fn the_shards_of_a_worker_that_died_are_asked_for_when_its_lease_has_ended() {
        let mut lease = Lease::new(TEN, 1);
        assert!(lease.request(Busy::No, at(0)).is_some());
        let of_two = |ends_in: u64| {
            let next_end = Some(Duration::from_secs(ends_in));
            let half = (0..32).collect();
            of_tables(vec![TableLeases { next_end, ..table(half, 2) }])
        };
        lease.answer(of_two(8));
        let renewal = at(0) + TEN.renewal();
        assert_eq!(lease.ask_at(), Some(renewal));
        assert!(lease.request(Busy::No, renewal).is_some());
        lease.answer(of_two(2));
        let ended = renewal + Duration::from_secs(2) + PAST_END;
        assert_eq!(lease.ask_at(), Some(ended));
        let request = lease.request(Busy::Yes, ended);
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![32] }));
        // That it is alone now, the answer says.
        lease.answer(part(32, 1));
        let request = lease.request(Busy::Yes, ended);
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![64] }));
        lease.answer(all(1));
        assert_eq!(lease.ask_at(), Some(ended + TEN.renewal()));
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
    fn shards_to_give_back_are_no_reason_to_ask_a_server_that_is_away_at_once() {
        let mut lease = held();
        assert!(lease.request(Busy::No, at(4)).is_some());
        lease.answer(all(2));
        assert!(lease.request(Busy::No, at(4)).is_some(), "half is to be given back");
        lease.failed(at(4));
        assert_eq!(lease.request(Busy::No, at(4)), None);
        assert_eq!(lease.ask_at(), Some(at(5)));
        assert!(lease.request(Busy::No, at(5)).is_some());
    }

    #[test]
    fn a_table_that_is_handed_over_is_given_back_when_nothing_is_in_flight() {
        let mut lease = held();
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        lease.answer(leases(ShardSet::ALL, 1, Share::None));
        assert_eq!(lease.usable(0, at(5)), ShardSet::NONE, "nothing new is begun");
        assert!(lease.covers(0, ShardSet::ALL, at(5)), "what is in flight goes on");
        let request = lease.request(Busy::Yes, at(8));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![64] }));
        lease.answer(leases(ShardSet::ALL, 1, Share::None));
        let request = lease.request(Busy::No, at(9));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![0] }));
        lease.answer(leases(ShardSet::NONE, 1, Share::None));
        assert_eq!(lease.request(Busy::No, at(10)), None, "it asks now and then");
        assert_eq!(lease.request(Busy::No, at(13)), Some(LeaseRequest::Hold { wanted: vec![0] }));
        // The hand-over was cancelled.
        lease.answer(leases(ShardSet::NONE, 1, Share::Equal));
        let request = lease.request(Busy::No, at(17));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![64] }));
    }

    /// A lease of all shards of two tables, from a request made at second 0.
    fn held_of_two() -> Lease {
        let mut lease = Lease::new(TEN, 2);
        assert!(lease.request(Busy::No, at(0)).is_some());
        lease.answer(of_tables(vec![table(ShardSet::ALL, 1), table(ShardSet::ALL, 1)]));
        lease
    }

    fn table(held: ShardSet, workers: u32) -> TableLeases {
        TableLeases { held, ..TableLeases::nothing(workers) }
    }

    /// The other worker has a configuration with the first table alone: nobody would take what is
    /// given back of the second one.
    #[test]
    fn a_table_is_shared_with_those_workers_alone_that_poll_it() {
        let mut lease = held_of_two();
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        lease.answer(of_tables(vec![table(ShardSet::ALL, 2), table(ShardSet::ALL, 1)]));
        assert_eq!(lease.workers(), 2);
        assert_eq!(lease.usable(0, at(5)), ShardSet::NONE, "half of it is given back");
        assert_eq!(lease.usable(1, at(5)), ShardSet::ALL);
        let request = lease.request(Busy::No, at(5));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![32, 64] }));
        // Rows of the other table may be read before the answer: of that one nothing is given back.
        assert_eq!(lease.usable(0, at(5)), ShardSet::NONE);
        assert_eq!(lease.usable(1, at(5)), ShardSet::ALL);
        let half: ShardSet = (0..32).collect();
        lease.answer(of_tables(vec![table(half, 2), table(ShardSet::ALL, 1)]));
        assert_eq!((lease.usable(0, at(6)), lease.usable(1, at(6))), (half, ShardSet::ALL));
    }

    #[test]
    fn a_table_that_is_handed_over_takes_no_other_one_with_it() {
        let mut lease = held_of_two();
        assert!(lease.request(Busy::Yes, at(4)).is_some());
        let handed = TableLeases { share: Share::None, ..table(ShardSet::ALL, 1) };
        lease.answer(of_tables(vec![handed, table(ShardSet::ALL, 1)]));
        assert_eq!((lease.usable(0, at(5)), lease.usable(1, at(5)).len()), (ShardSet::NONE, 64));
        assert!(!lease.is_withheld(), "the other one is polled");
        let request = lease.request(Busy::No, at(5));
        assert_eq!(request, Some(LeaseRequest::Hold { wanted: vec![0, 64] }));
        let nothing = TableLeases { share: Share::None, ..TableLeases::nothing(1) };
        lease.answer(of_tables(vec![nothing, nothing]));
        assert!(lease.is_withheld());
    }

    /// It could not read the table for a while, and can again before the answer comes.
    #[test]
    fn what_a_request_gives_back_is_not_read_before_an_answer_says_who_has_it() {
        let mut lease = held();
        lease.set_readable(0, Readable::No);
        assert_eq!(lease.request(Busy::No, at(4)), Some(LeaseRequest::Hold { wanted: vec![0] }));
        lease.set_readable(0, Readable::Yes);
        assert_eq!(lease.usable(0, at(4)), ShardSet::NONE, "others may have them");
        lease.failed(at(4));
        assert_eq!(lease.usable(0, at(4)), ShardSet::NONE, "it may have been carried out");
        assert_eq!(lease.request(Busy::No, at(5)), Some(LeaseRequest::Hold { wanted: vec![64] }));
        assert_eq!(lease.usable(0, at(5)), ShardSet::NONE);
        lease.answer(all(1));
        assert_eq!(lease.usable(0, at(5)), ShardSet::ALL);
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
