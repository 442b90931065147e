//! Compares the records that the router would produce with those that are in Kafka. It does no I/O:
//! both sides are given to a [`Comparison`], which pairs them by event id and reports what differs.
//!
//! Both sides come in their own order, the expected records in that of the WAL, the stored ones in
//! that of each partition. A producer writes a partition in WAL order, so both walk side by side,
//! and only what one side is ahead of the other is kept. `comparison` pairs, `difference` compares
//! two records, `report` counts and keeps examples, `recent` remembers what was paired.

mod comparison;
mod difference;
mod fingerprint;
mod recent;
mod record;
mod report;
#[cfg(test)]
mod tests;

pub use comparison::{Comparison, Limits, Load};
pub use difference::Difference;
pub use record::{Expected, Time};
pub use report::{Example, Finding, Report};
