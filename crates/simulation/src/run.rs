//! Runs one seed, and reduces a failing plan.

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
/// The first invariant that did not hold. A panic of the core counts as a failure without a cause.
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
            let what = text.unwrap_or_else(|| "a panic without a message".to_owned());
            Err(Violation { invariant: Invariant::S11Reporting, what: format!("panic: {what}") })
        }
    }
}

/// The indexes of the faults that a failing plan needs in order to fail.
pub fn shrink(plan: &Plan) -> Vec<usize> {
    let mut unseen = Coverage::default();
    shrink_while(plan, |fewer| run(fewer, &mut unseen).is_err())
}

/// [`shrink`] with another criterion of failing. Leaves out one fault after the other until none
/// can be left out: a fault may be needed only because another one is there.
pub fn shrink_while(plan: &Plan, mut fails: impl FnMut(Plan) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..plan.faults.len()).collect();
    let mut index = 0;
    let mut needed = 0;
    while needed < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(index % kept.len());
        if fails(plan.with_only(&fewer)) {
            kept = fewer;
            needed = 0;
        } else {
            index += 1;
            needed += 1;
        }
    }
    kept
}
