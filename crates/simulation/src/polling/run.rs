//! Runs one seed, and reduces a failing plan.

use super::{PollingCoverage, plan::PollingPlan, world::PollingWorld};
use crate::{
    invariant::{Invariant, Violation},
    run::without_panic,
};

/// Runs a plan.
///
/// # Errors
/// The first invariant that did not hold. A panic of the core counts as one.
pub fn run(plan: PollingPlan, coverage: &mut PollingCoverage) -> Result<(), Violation> {
    let (result, seen) = without_panic(Invariant::W6Rest, || {
        let mut world = PollingWorld::new(plan);
        let result = world.run();
        (result, world.coverage)
    })?;
    coverage.add(&seen);
    result
}

/// The indexes of the faults that a failing plan needs in order to fail.
pub fn shrink(plan: &PollingPlan) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..plan.faults.len()).collect();
    let (mut index, mut needed) = (0, 0);
    while needed < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(index % kept.len());
        if run(plan.with_only(&fewer), &mut PollingCoverage::default()).is_err() {
            kept = fewer;
            needed = 0;
        } else {
            index += 1;
            needed += 1;
        }
    }
    kept
}
