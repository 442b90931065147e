//! Some seeds of repairs, in the default tests.

use simulation::{
    plan::Trace,
    repairs::{RepairsCoverage, run::run},
};

#[test]
fn no_seed_of_repairs_violates_an_invariant() {
    let mut coverage = RepairsCoverage::default();
    for seed in 20_000..22_500 {
        if let Err(violation) = run(seed, Trace::Off, &mut coverage) {
            panic!("{violation}\n  replay: scripts/simulate.sh --repairs --seed {seed} --trace");
        }
    }
    assert_eq!(coverage.missing(), Vec::<String>::new(), "{}", coverage.report());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let seen = |seed| {
        let mut coverage = RepairsCoverage::default();
        let result = run(seed, Trace::Off, &mut coverage);
        (result.is_ok(), coverage)
    };
    for seed in 0..30 {
        assert_eq!(seen(seed), seen(seed));
    }
}
