//! Some seeds of the polling source, in the default tests.

use simulation::polling::{PollingCoverage, plan::PollingPlan, run::run};

#[test]
fn no_seed_of_the_polling_source_violates_an_invariant() {
    let mut coverage = PollingCoverage::default();
    for seed in 0..200 {
        if let Err(violation) = run(PollingPlan::of_seed(seed), &mut coverage) {
            panic!("{violation}\n  replay: scripts/simulate.sh --polling --seed {seed}");
        }
    }
    assert!(coverage.records > 1_000 && coverage.duplicates > 0, "{}", coverage.report());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let seen = |seed| {
        let mut coverage = PollingCoverage::default();
        let result = run(PollingPlan::of_seed(seed), &mut coverage);
        (result.is_ok(), coverage.report())
    };
    for seed in 0..30 {
        assert_eq!(seen(seed), seen(seed));
    }
}
