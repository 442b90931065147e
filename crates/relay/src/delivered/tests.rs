//! The rule against a model of transactions, and wrong rules against the same model, which must
//! find them wrong.

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

use std::sync::LazyLock;

use pgoutput::{Lsn, Oid, PgTimestamp, Xid};

use super::{
    horizon::WAITING_MAX,
    model::{Model, Rule, Step, step},
    *,
};
use crate::{
    failure::Failure,
    source::{History, SlotHealth},
    testing::samples,
};

const STEPS: std::ops::Range<usize> = 1..120;

/// Where ids begin: far from and close before the end of 32 bits.
fn first_id() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1_000), (1..3u64).prop_map(|wraps| (wraps << 32) - 12)]
}

fn is_right(rule: Rule, first: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut model = Model::new(rule, first);
    for step in steps {
        model.take(step);
        if let Some(wrong) = model.wrongly_deleted() {
            return Err(TestCaseError::fail(wrong));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config::with_cases(2_000))]

    #[test]
    fn a_row_that_may_be_deleted_has_its_commit_at_or_below_the_confirmed_position(
        first in first_id(),
        steps in prop::collection::vec(step(), STEPS),
    ) {
        is_right(Rule::Right, first, &steps)?;
    }

    #[test]
    fn every_row_may_be_deleted_once_everything_is_confirmed(
        first in first_id(),
        steps in prop::collection::vec(step(), STEPS),
    ) {
        let mut model = Model::new(Rule::Right, first);
        for step in &steps {
            model.take(step);
        }
        model.end();
        prop_assert_eq!(model.wrongly_deleted(), None);
        prop_assert_eq!(model.wrongly_kept(), None);
    }
}

/// The model is good enough to find these.
#[test]
fn each_wrong_rule_deletes_a_row_that_is_not_confirmed() {
    for rule in
        [Rule::VisibleInSnapshot, Rule::KeptAcrossCrash, Rule::PositionFirst, Rule::HorizonOfAnyAge]
    {
        let config = Config { cases: 200_000, failure_persistence: None, ..Config::default() };
        let steps = (first_id(), prop::collection::vec(step(), STEPS));
        let outcome = TestRunner::new_with_rng(config, fixed())
            .run(&steps, |(first, steps)| is_right(rule, first, &steps));
        assert!(matches!(outcome, Err(TestError::Fail(..))), "{rule:?} is not found wrong");
    }
}

/// The same cases at every run.
fn fixed() -> TestRng {
    TestRng::deterministic_rng(RngAlgorithm::ChaCha)
}

fn horizon(xmin: u64, lsn: u64) -> Horizon {
    Horizon { xmin: FullXid::from_u64(xmin), lsn: Lsn::from_u64(lsn) }
}

fn covered(xmin: u64) -> Covered {
    horizon(xmin, 1).covered(&Confirmed::at(1)).unwrap()
}

#[test]
fn ids_are_compared_modulo_two_to_the_32() {
    let precedes = |xmin: u64, row: u32, next: u64| {
        covered(xmin).contains(Xid::from_u32(row), FullXid::from_u64(next))
    };
    assert!(precedes(100, 99, 200));
    assert!(!precedes(100, 100, 200));
    assert!(!precedes(100, 101, 200));
    // The horizon is past the wrap, the row before it.
    assert!(precedes((1 << 32) + 5, u32::MAX, (1 << 32) + 9));
    assert!(!precedes((1 << 32) - 5, 3, (1 << 32) + 9));
    // Half of all ids apart: which is older is not known.
    assert!(precedes(1 << 33, 1 << 31 | 1, 1 << 33));
    assert!(!precedes(1 << 33, 1 << 31, 1 << 33));
    // Frozen, or there since the cluster was made.
    assert!([0, 1, 2].iter().all(|&row| precedes(100, row, 200)));
    assert!(!precedes(100, 99, 100 + (1 << 31)), "a horizon of long ago says nothing");
}

#[test]
fn the_greatest_xmin_of_what_is_confirmed_counts_and_stays() {
    let mut horizons = Horizons::default();
    assert_eq!(horizons.confirmed(&Confirmed::at(500)), None);
    horizons.offer(horizon(10, 100));
    horizons.offer(horizon(12, 200));
    assert_eq!(horizons.waits_for(), Some(Lsn::from_u64(100)));
    assert_eq!(horizons.confirmed(&Confirmed::at(99)), None);
    assert_eq!(horizons.confirmed(&Confirmed::at(199)), Some(covered(10)));
    assert_eq!(horizons.waits_for(), Some(Lsn::from_u64(200)));
    assert_eq!(horizons.confirmed(&Confirmed::at(200)), Some(covered(12)));
    assert_eq!(horizons.confirmed(&Confirmed::at(0)), Some(covered(12)));
    assert_eq!(horizons.waits_for(), None);
}

#[test]
fn few_horizons_wait_and_the_oldest_is_among_them() {
    let mut horizons = Horizons::default();
    for number in 1..10_000 {
        horizons.offer(horizon(number, 10 * number));
    }
    assert!(horizons.waiting.len() <= WAITING_MAX);
    assert_eq!(horizons.waits_for(), Some(Lsn::from_u64(10)));
    assert_eq!(horizons.confirmed(&Confirmed::at(99_990)), Some(covered(9_999)));
}

fn history(system_id: &str, timeline: u32) -> History {
    History { system_id: system_id.to_owned(), timeline }
}

/// What is confirmed where slot, acknowledged events and reading of the publication end here; and
/// what is changed of that.
fn confirmed(change: impl Fn(&mut SlotHealth, &mut Acknowledged<'_>)) -> Result<u64, Failure> {
    let here = history("1", 1);
    let mut slot = SlotHealth {
        confirmed_flush_lsn: Some(Lsn::from_u64(300)),
        current_wal_lsn: Lsn::from_u64(500),
        active_pid: None,
        ..samples::slot()
    };
    let mut acknowledged = Acknowledged {
        history: Some(&here),
        position: Lsn::from_u64(300),
        last_commit: Some(Lsn::from_u64(200)),
        by: Witnessed::ByRecord,
    };
    change(&mut slot, &mut acknowledged);
    Confirmed::by(Evidence {
        here: &history("1", 1),
        slot_name: "s",
        slot: &slot,
        acknowledged,
        verified: Lsn::from_u64(400),
        nothing_before: None,
    })
    .map(|confirmed| confirmed.position().as_u64())
}

#[test]
fn the_least_of_slot_acknowledgement_and_reading_is_confirmed() {
    assert_eq!(confirmed(|_, _| {}).unwrap(), 300);
    let moved = |slot_at, position| {
        confirmed(move |slot, acknowledged| {
            slot.confirmed_flush_lsn = Some(Lsn::from_u64(slot_at));
            slot.active_pid = Some(7);
            acknowledged.position = Lsn::from_u64(position);
        })
        .unwrap()
    };
    assert_eq!([moved(250, 300), moved(300, 250), moved(450, 450)], [250, 250, 400]);
}

#[test]
fn nothing_is_confirmed_on_another_server_or_after_the_slot_was_moved() {
    for (told, refused) in [
        ("another server", confirmed(|_, known| known.history = Some(other()))),
        ("another server", confirmed(|_, known| known.history = Some(promoted()))),
        ("not known which server", confirmed(|_, known| known.history = None)),
        ("restored", confirmed(|slot, _| slot.current_wal_lsn = Lsn::from_u64(299))),
        ("was re-created", confirmed(|_, known| known.position = Lsn::from_u64(299))),
    ] {
        let failure = refused.unwrap_err();
        assert!(failure.message.contains(told), "{told}: {failure:#}");
    }
    // A router that streams may have confirmed more since it reported.
    let by_router = confirmed(|_, known| {
        (known.position, known.by) = (Lsn::from_u64(299), Witnessed::ByRouter);
    });
    assert_eq!(by_router.unwrap(), 299);
}

fn other() -> &'static History {
    static OTHER: LazyLock<History> = LazyLock::new(|| history("2", 1));
    &OTHER
}

fn promoted() -> &'static History {
    static PROMOTED: LazyLock<History> = LazyLock::new(|| history("1", 2));
    &PROMOTED
}

#[test]
fn an_idle_slot_counts_unless_it_should_send_the_last_transaction_again() {
    let here = history("1", 1);
    let at = |slot_at, last| {
        let slot = SlotHealth {
            confirmed_flush_lsn: Some(Lsn::from_u64(slot_at)),
            current_wal_lsn: Lsn::from_u64(500),
            active_pid: None,
            ..samples::slot()
        };
        let acknowledged = Acknowledged {
            history: Some(&here),
            position: Lsn::from_u64(300),
            last_commit: Some(Lsn::from_u64(last)),
            by: Witnessed::ByRecord,
        };
        Confirmed::by(Evidence {
            here: &here,
            slot_name: "s",
            slot: &slot,
            acknowledged,
            verified: Lsn::from_u64(490),
            nothing_before: Some(Lsn::from_u64(480)),
        })
    };
    assert_eq!(at(250, 200).unwrap().position().as_u64(), 480);
    let failure = at(250, 250).unwrap_err();
    assert!(failure.message.contains("does not send it again"), "{failure:#}");
}

#[test]
fn rows_from_before_their_table_or_partition_are_no_events() {
    let time = PgTimestamp::from_micros;
    let part = |oid, xid, older: Option<i64>| EventPart {
        oid: Oid::from_u32(oid),
        since: EventsSince {
            xid: FullXid::from_u64(xid),
            older: older.map(|at| OlderRows {
                at: time(at),
                by: AgeColumn::Column { number: 5, type_oid: 1_184, is_never_null: true },
            }),
        },
        links: Vec::new(),
    };
    let rows = covered(1_900).rows_of(vec![part(1, 0, None), part(2, 1_500, Some(70))]);
    let next = FullXid::from_u64(2_000);
    let row = |oid, xmin, at: Option<i64>| WrittenBy {
        table: Oid::from_u32(oid),
        xmin: Xid::from_u32(xmin),
        time: at.map(time),
        aged_by: AgeColumn::Column { number: 5, type_oid: 1_184, is_never_null: true },
    };
    let is_event = |row| rows.contains(row, next);
    assert!(is_event(row(1, 2, None)) && is_event(row(1, 1_000, None)));
    assert!(is_event(row(2, 1_500, Some(71))) && !is_event(row(2, 1_499, Some(71))));
    // An update gives a row from before a younger transaction, and leaves its time.
    assert!(!is_event(row(2, 1_600, Some(70))) && !is_event(row(2, 1_600, None)));
    assert!(!is_event(row(3, 1_800, Some(71))), "nothing is known of the partition");
    let older = row(2, 1_499, None);
    assert!(!is_event(older) && rows.with_older_given_up().contains(older, next));
}

#[test]
fn a_partition_is_dropped_after_a_count_that_keeps_writers_out_and_nothing_else() {
    let (oid, rows) = (Oid::from_u32(5), PartitionRows { all: 3, ..PartitionRows::default() });
    assert_eq!(rows.droppable(oid, Writers::May), None);
    let droppable = rows.droppable(oid, Writers::KeptOut).unwrap();
    assert_eq!((droppable.oid(), droppable.rows()), (oid, 3));
    for kept in [
        PartitionRows { undelivered: 1, ..rows },
        PartitionRows { held: 1, ..rows },
        PartitionRows { older: 1, ..rows },
    ] {
        assert_eq!(kept.droppable(oid, Writers::KeptOut), None);
    }
}
