//! What makes a seed worth keeping: it replays, and a failing one becomes small.

use relay::bug::{self, Bug};
use simulation::{
    coverage::{self, Coverage},
    invariant::Invariant,
    plan::Plan,
    run::{run, shrink},
};

fn seen(seed: u64) -> (bool, String) {
    let mut coverage = Coverage::default();
    let result = run(Plan::of_seed(seed), &mut coverage);
    (result.is_ok(), coverage.report())
}

#[test]
fn a_seed_replays_exactly() {
    coverage::watch_failpoints();
    let runs: Vec<_> = (0..60).map(seen).collect();
    let again: Vec<_> = (0..60).map(seen).collect();
    assert_eq!(runs, again);
    let different: std::collections::BTreeSet<_> = runs.iter().map(|(_, report)| report).collect();
    assert!(different.len() > 50, "seeds differ from one another");
}

#[test]
fn a_failing_plan_shrinks_to_faults_that_it_needs() {
    coverage::watch_failpoints();
    bug::plant(Some(Bug::SkipEqualOnResume));
    let fails = |plan: Plan| run(plan, &mut Coverage::default()).is_err();
    // Of the first that fails, every fault may be needed.
    let (plan, kept) = (0..2_000)
        .map(Plan::of_seed)
        .filter(|plan| plan.faults.len() > 2 && fails(plan.clone()))
        .map(|plan| (plan.clone(), shrink(&plan)))
        .find(|(plan, kept)| kept.len() < plan.faults.len())
        .expect("a seed that resumes where a transaction begins");
    assert!(fails(plan.keeping(&kept)));
    for place in 0..kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(place);
        assert!(!fails(plan.keeping(&fewer)), "fault {place} of {kept:?} is not needed");
    }
    bug::plant(None);
}

#[test]
fn a_planted_bug_is_named_by_its_invariant() {
    coverage::watch_failpoints();
    bug::plant(Some(Bug::ConfirmOnEnqueue));
    let mut unseen = Coverage::default();
    let violation = (0..50)
        .find_map(|seed| run(Plan::of_seed(seed), &mut unseen).err())
        .expect("caught at once");
    assert_eq!(violation.invariant, Invariant::I2NeverAhead, "{violation}");
    bug::plant(None);
}
