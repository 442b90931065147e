//! What makes a seed worth keeping: it replays, and a failing one becomes small.

use simulation::{
    coverage::{self, Coverage},
    plan::Plan,
    run::{run, shrink_while},
};

fn seen(seed: u64) -> (bool, String) {
    let mut coverage = Coverage::default();
    let result = run(Plan::of_seed(seed), &mut coverage);
    (result.is_ok(), coverage.report())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    coverage::watch_failpoints();
    let runs: Vec<_> = (0..60).map(seen).collect();
    let again: Vec<_> = (0..60).map(seen).collect();
    assert_eq!(runs, again);
    let different: std::collections::BTreeSet<_> = runs.iter().map(|(_, report)| report).collect();
    assert!(different.len() > 50, "seeds differ from one another");
}

#[test]
fn shrinking_a_failing_plan_leaves_only_faults_that_it_needs() {
    coverage::watch_failpoints();
    // What the core does with it is beside the point: a failure is what some of the faults make
    // together.
    let fails = |plan: Plan| {
        let mut coverage = Coverage::default();
        run(plan, &mut coverage).is_err() || coverage.duplicates > 0
    };
    // Of the first that fails, every fault may be needed.
    let (plan, kept) = (0..2_000)
        .map(Plan::of_seed)
        .filter(|plan| plan.faults.len() > 2 && fails(plan.clone()))
        .map(|plan| (plan.clone(), shrink_while(&plan, fails)))
        .find(|(plan, kept)| !kept.is_empty() && kept.len() < plan.faults.len())
        .expect("a plan that repeats a record, but would without one of its faults, too");
    assert!(fails(plan.with_only(&kept)));
    for index in 0..kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(index);
        assert!(!fails(plan.with_only(&fewer)), "fault {index} of {kept:?} is not needed");
    }
}
