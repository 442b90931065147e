//! The rule against a model of transactions, and wrong rules against the same model, which must
//! find them wrong.

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

use super::{
    model::{Model, Rule, Step, step},
    *,
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
    Horizon { xmin: FullXid(xmin), lsn: Lsn::from_u64(lsn) }
}

#[test]
fn ids_are_compared_modulo_two_to_the_32() {
    let precedes = |xmin: u64, row: u32, next: u64| {
        Horizon::precedes(FullXid(xmin), Xid::from_u32(row), FullXid(next))
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
    assert_eq!(horizons.confirmed(Lsn::from_u64(500)), None);
    horizons.offer(horizon(10, 100));
    horizons.offer(horizon(12, 200));
    assert_eq!(horizons.waits_for(), Some(Lsn::from_u64(100)));
    assert_eq!(horizons.confirmed(Lsn::from_u64(99)), None);
    assert_eq!(horizons.confirmed(Lsn::from_u64(199)), Some(FullXid(10)));
    assert_eq!(horizons.waits_for(), Some(Lsn::from_u64(200)));
    assert_eq!(horizons.confirmed(Lsn::from_u64(200)), Some(FullXid(12)));
    assert_eq!(horizons.confirmed(Lsn::ZERO), Some(FullXid(12)));
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
    assert_eq!(horizons.confirmed(Lsn::from_u64(99_990)), Some(FullXid(9_999)));
}
