//! Runs one seed.

use super::{RowsCoverage, world::RowsWorld};
use crate::{
    invariant::{Invariant, Violation},
    plan::Trace,
    run::without_panic,
};

/// Runs a seed.
///
/// # Errors
/// The first invariant that did not hold. A panic of the core counts as one.
pub fn run(seed: u64, trace: Trace, coverage: &mut RowsCoverage) -> Result<(), Violation> {
    let (result, seen) = without_panic(Invariant::R1Kept, || {
        let mut world = RowsWorld::new(seed, trace);
        let result = world.run();
        (result, world.coverage)
    })?;
    coverage.add(&seen);
    result
}
