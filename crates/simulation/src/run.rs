//! One seed, whatever becomes of it; and a failing one made smaller.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    coverage::Coverage,
    invariant::{Invariant, Violation},
    plan::Plan,
    world::World,
};

/// Runs a plan.
///
/// # Errors
/// The first invariant that did not hold; a panic of the core counts as a failure that nobody caused.
pub fn run(plan: Plan, coverage: &mut Coverage) -> Result<(), Violation> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan);
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
            let what = text.unwrap_or_else(|| "a panic without words".to_owned());
            Err(Violation { invariant: Invariant::I11Loudness, what: format!("panic: {what}") })
        }
    }
}

/// The places of the faults that a failing plan needs in order to fail, found by leaving out one
/// after the other, again and again: a fault may be needed only beside one that is not.
pub fn shrink(plan: &Plan) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..plan.faults.len()).collect();
    let mut unseen = Coverage::default();
    let mut place = 0;
    let mut needed = 0;
    while needed < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(place % kept.len());
        if run(plan.keeping(&fewer), &mut unseen).is_err() {
            kept = fewer;
            needed = 0;
        } else {
            place += 1;
            needed += 1;
        }
    }
    kept
}
