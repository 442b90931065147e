//! Runs one seed, and reduces a failing plan.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{PollingCoverage, plan::PollingPlan, world::PollingWorld};
use crate::invariant::{Invariant, Violation};

/// Runs a plan.
///
/// # Errors
/// The first invariant that did not hold. A panic of the core counts as one.
pub fn run(plan: PollingPlan, coverage: &mut PollingCoverage) -> Result<(), Violation> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = PollingWorld::new(plan);
        let result = world.run();
        (result, world.coverage)
    }));
    match result {
        Ok((result, seen)) => {
            coverage.add(&seen);
            result
        }
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let what = text.unwrap_or_else(|| "a panic without a message".to_owned());
            Err(Violation { invariant: Invariant::W6Rest, what: format!("panic: {what}") })
        }
    }
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
