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
    let (result, seen) = without_panic(Invariant::S11Reporting, || {
        let mut world = World::new(plan);
        let result = world.run();
        (result, world.coverage)
    })?;
    coverage.add(&seen);
    result
}

/// Runs a world; a panic of the core violates this invariant.
pub(crate) fn without_panic<T>(
    invariant: Invariant,
    run: impl FnOnce() -> T,
) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let what = text.unwrap_or_else(|| "a panic without a message".to_owned());
        Violation { invariant, what: format!("panic: {what}") }
    })
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
