//! Compares the records that the router would produce with those that are in Kafka. It does no I/O:
//! both sides are given to a [`Comparison`], which pairs them by event id and reports what differs.
//!
//! Both sides come in their own order, the expected records in that of the WAL, the stored ones in
//! that of each partition. A producer writes a partition in WAL order, so both walk side by side,
//! and only what one side is ahead of the other is kept. `comparison` pairs, `decide` decides what
//! nothing was paired with, `difference` compares two records, `report` counts and keeps examples,
//! `recent` remembers what was paired.

mod comparison;
mod context_headers;
mod decide;
mod difference;
mod fingerprint;
mod limits;
mod partition;
mod recent;
mod record;
mod report;
#[cfg(test)]
mod tests;

pub use comparison::Comparison;
pub use difference::Difference;
pub use limits::{Limits, Load};
pub use record::{Expected, ExpectedTime, IdHeaders};
pub use report::{Example, Finding, Report};
