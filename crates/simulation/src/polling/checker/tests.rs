//! Tests of what one interruption may repeat.

use std::time::Duration;

use relay::polling::{FetchRequest, PassedOver, RequestNumber, ShardSet, TableIndex, WaitsKept};

use super::*;
use crate::polling::table::Marks;

const BATCH: usize = 3;
const FIRST: Handing = Handing { process: 1, producer: 1 };
const SECOND: Handing = Handing { process: 1, producer: 2 };

struct Checked {
    tables: PolledTables,
    leases: LeaseTable,
    checker: PollingChecker,
}

/// So many rows of one key, of which the only process has the shard.
fn rows(count: usize) -> Checked {
    let plan = PollingPlan { batch: BATCH, ..PollingPlan::of_seed(0) };
    let marks = Marks {
        waits: WaitsKept::InMemory,
        claimed: Claimed::No,
        hold: HoldKeys::Yes,
        lock: Duration::from_secs(10),
    };
    let mut tables = PolledTables::new(marks);
    tables.begin();
    (0..count).for_each(|_| tables.write(0, 0, 1, None));
    tables.commit(0);
    let mut leases = LeaseTable::new(1);
    let now = relay::Moment::default();
    leases.hold(
        (1, RequestNumber(1)),
        &[(0, 64)],
        Duration::from_secs(10),
        now,
        &mut crate::random::Random::new(7),
    );
    Checked { tables, leases, checker: PollingChecker::new(&plan) }
}

impl Checked {
    fn hand_over(&mut self, by: Handing, rows: std::ops::Range<usize>) {
        for row in rows {
            let handed = HandedOver { row, content: 0, is_intact: true };
            self.checker.handed_over(by, &handed, &self.tables, &self.leases);
        }
    }

    /// Marks of these rows are not written, since another worker has had their shards.
    fn lose_lease(&mut self, rows: std::ops::Range<usize>) {
        let request = FetchRequest {
            table: TableIndex(0),
            shards: ShardSet::ALL,
            limit: usize::MAX,
            passed_over: PassedOver::NOTHING,
        };
        let fetched = self.tables.fetch(&request, 1, relay::Moment::default());
        let published = fetched.rows[rows].iter().map(relay::testing::sent);
        let request = SettleRequest {
            table: TableIndex(0),
            shards: ShardSet::ALL,
            as_of: RequestNumber::default(),
            session: fetched.session,
            published: published.collect(),
            failed: Vec::new(),
            released: Vec::new(),
        };
        self.checker.interrupted(1, &request, Written::NotOurs);
    }

    fn violated(&self) -> Option<Invariant> {
        self.checker.violation().map(|violation| violation.invariant)
    }
}

#[test]
fn the_end_of_a_producer_repeats_a_batch_at_most() {
    let mut checked = rows(BATCH + 1);
    checked.hand_over(FIRST, 0..BATCH + 1);
    checked.hand_over(SECOND, 0..BATCH);
    assert_eq!(checked.violated(), None);
    checked.hand_over(SECOND, BATCH..BATCH + 1);
    assert_eq!(checked.violated(), Some(Invariant::W5Duplicates));
}

#[test]
fn a_lost_lease_and_the_end_of_its_producer_repeat_a_batch_each() {
    let other = Handing { producer: 9, ..FIRST };
    let mut checked = rows(2 * BATCH);
    checked.hand_over(FIRST, 0..BATCH);
    // The other worker's records come before the first one learns that its lease has ended.
    checked.hand_over(other, 0..BATCH);
    checked.lose_lease(0..BATCH);
    checked.hand_over(FIRST, BATCH..2 * BATCH);
    checked.hand_over(SECOND, BATCH..2 * BATCH);
    assert_eq!(checked.violated(), None);
}

#[test]
fn a_producer_repeats_nothing_by_itself() {
    let mut checked = rows(1);
    checked.hand_over(FIRST, 0..1);
    checked.hand_over(FIRST, 0..1);
    assert_eq!(checked.violated(), Some(Invariant::W5Duplicates));
}
