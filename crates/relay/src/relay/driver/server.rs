//! A server with one slot: transactions in commit order, a confirmed position that is in memory until it is saved, and a
//! walsender that sends a transaction again if and only if its commit record starts at or after that position.

use std::collections::{BTreeMap, VecDeque};

use super::{TRANSACTION_ROWS_MAX, broker::Broker, random::Random};
use crate::{
    OutboxTable, TableName,
    testing::wire::{self, TEXT, Value},
};

const OUTBOX: u32 = 16_400;
const OTHER: u32 = 16_500;
const COLUMNS: [(&str, u32); 5] = [
    ("id", TEXT),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
];
const TOPICS: [&str; 2] = ["order", "invoice"];
const KEYS: u64 = 5;

pub(super) fn outbox() -> OutboxTable {
    OutboxTable::with_defaults(TableName { schema: "public".into(), name: "outbox".into() })
}

/// What was committed: one row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) topic: String,
    pub(super) key: String,
    /// How many events of the same topic and key precede it.
    pub(super) place: u64,
}

struct Transaction {
    commit_lsn: u64,
    end_lsn: u64,
    /// Numbers of its events.
    events: std::ops::Range<usize>,
}

struct Walsender {
    /// The transaction to be sent next.
    next: usize,
    /// Frames on their way.
    wire: VecDeque<Vec<u8>>,
    ending: bool,
}

#[derive(Default)]
pub(super) struct Server {
    transactions: Vec<Transaction>,
    pub(super) events: Vec<Event>,
    places: BTreeMap<(String, String), u64>,
    end_of_wal: u64,
    confirmed: u64,
    saved: u64,
    walsender: Option<Walsender>,
}

impl Server {
    /// A transaction commits, or something else is written.
    pub(super) fn write(&mut self, random: &mut Random) {
        // Often the commit record starts where the last one ended.
        let commit_lsn = self.end_of_wal + 8 * random.below(3);
        let end_lsn = commit_lsn + 8;
        let rows = match random.below(20) {
            0..4 => 0,
            4..19 => random.below(5),
            _ => TRANSACTION_ROWS_MAX,
        };
        let first = self.events.len();
        for _ in 0..rows {
            let topic = format!("outbox.event.{}", TOPICS[random.index(TOPICS.len())]);
            let key = format!("k{}", random.below(KEYS));
            let place = self.places.entry((topic.clone(), key.clone())).or_default();
            self.events.push(Event { topic, key, place: *place });
            *place += 1;
        }
        // One in four without rows is not the slot's database: nothing is sent of it.
        if rows > 0 || !random.one_in(4) {
            let events = first..self.events.len();
            self.transactions.push(Transaction { commit_lsn, end_lsn, events });
        }
        self.end_of_wal = end_lsn;
    }

    pub(super) fn connect(&mut self) {
        let confirmed = self.confirmed;
        let next = self.transactions.partition_point(|sent| sent.commit_lsn < confirmed);
        let wire = VecDeque::from([
            wire::relation(OUTBOX, "outbox", &COLUMNS),
            wire::relation(OTHER, "orders", &COLUMNS),
        ]);
        self.walsender = Some(Walsender { next, wire, ending: false });
    }

    pub(super) fn is_connected(&self) -> bool {
        self.walsender.is_some()
    }

    pub(super) fn disconnect(&mut self) {
        self.walsender = None;
    }

    pub(super) fn disconnect_if_connected(&mut self) -> bool {
        self.walsender.take().is_some()
    }

    /// The walsender sends the next transaction, or a keepalive when there is none.
    pub(super) fn send(&mut self, random: &mut Random) {
        let Some(walsender) = &mut self.walsender else { return };
        if walsender.ending || walsender.wire.len() > 100 {
            return;
        }
        let Some(transaction) = self.transactions.get(walsender.next) else {
            let keepalive = if random.one_in(2) { wire::question } else { wire::keepalive };
            walsender.wire.push_back(keepalive(self.end_of_wal));
            return;
        };
        walsender.next += 1;
        let wire = &mut walsender.wire;
        wire.push_back(wire::begin(transaction.commit_lsn, 0));
        for number in transaction.events.clone() {
            let event = &self.events[number];
            let aggregate_type = event.topic.trim_start_matches("outbox.event.");
            let number = number.to_string();
            let values = [&number, aggregate_type, &event.key, "happened", &number];
            wire.push_back(wire::insert(1, OUTBOX, &values.map(Value::Text)));
            match random.below(12) {
                // Says nothing about the transaction that is under way.
                0 => wire.push_back(wire::keepalive(self.end_of_wal)),
                1 => wire.push_back(wire::insert(1, OTHER, &values.map(Value::Text))),
                2 => wire.push_back(wire::relation(OUTBOX, "outbox", &COLUMNS)),
                _ => {}
            }
        }
        wire.push_back(wire::commit(transaction.commit_lsn, transaction.end_lsn));
    }

    pub(super) fn peek(&self) -> Option<&[u8]> {
        self.walsender.as_ref()?.wire.front().map(Vec::as_slice)
    }

    pub(super) fn pop(&mut self) {
        if let Some(walsender) = &mut self.walsender {
            walsender.wire.pop_front();
        }
    }

    /// The client sent `CopyDone`: nothing more is sent but the answer.
    pub(super) fn say_goodbye(&mut self) {
        if let Some(walsender) = &mut self.walsender {
            walsender.ending = true;
        }
    }

    pub(super) fn said_goodbye(&self) -> bool {
        self.walsender.as_ref().is_some_and(|walsender| walsender.ending)
    }

    /// A status update arrives.
    pub(super) fn confirm(&mut self, flush: u64, broker: &Broker) {
        assert!(flush <= self.end_of_wal, "confirmed beyond the end of WAL");
        for number in self.between(self.confirmed, flush) {
            assert!(broker.has(number), "event {number} is confirmed, but not in the log");
        }
        self.confirmed = self.confirmed.max(flush);
    }

    /// The events of the transactions that end after `from` and at or before `to`.
    fn between(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let first = self.transactions.partition_point(|one| one.end_lsn <= from);
        let past = self.transactions.partition_point(|one| one.end_lsn <= to);
        match self.transactions.get(first..past) {
            Some([first, .., last]) => first.events.start..last.events.end,
            Some([only]) => only.events.clone(),
            Some([]) | None => 0..0,
        }
    }

    /// The events of the transaction that an event belongs to.
    pub(super) fn transaction_of(&self, number: usize) -> std::ops::Range<usize> {
        let index = self.transactions.partition_point(|one| one.events.end <= number);
        self.transactions[index].events.clone()
    }

    /// The first event that is not confirmed, and the size of the largest transaction with one.
    pub(super) fn unconfirmed(&self) -> (usize, u64) {
        let first = self.transactions.partition_point(|one| one.end_lsn <= self.confirmed);
        let unconfirmed = self.transactions.get(first..).unwrap_or_default();
        let first = unconfirmed.first().map_or(self.events.len(), |one| one.events.start);
        let largest = unconfirmed.iter().map(|one| one.events.len()).max().unwrap_or(0);
        (first, u64::try_from(largest).unwrap())
    }

    /// The slot goes to disk.
    pub(super) fn save(&mut self) {
        self.saved = self.confirmed;
    }

    /// Back to what was saved; tells how many confirmed events will come again.
    pub(super) fn crash(&mut self) -> u64 {
        let events = self.between(self.saved, self.confirmed).len();
        self.confirmed = self.saved;
        u64::try_from(events).unwrap()
    }

    pub(super) fn is_confirmed_to_the_end(&self) -> bool {
        self.confirmed == self.end_of_wal
    }
}
