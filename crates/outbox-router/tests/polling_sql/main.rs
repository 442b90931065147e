//! The polling source's SQL on a real PostgreSQL, with the tables of docs/tables.md: what is read,
//! in which order, what is written, and who may read what.
//!
//! `OUTBOX_PG_VERSION` says which version; 15 comes with the system that the tests of this crate
//! need.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in the helpers of a test, too, what is missing fails it"
)]

mod casts;
mod claims;
mod failures;
mod fences;
mod filters;
mod fixture;
mod frozen;
mod holders;
mod indexes;
mod keys;
mod late_commits;
mod leases;
mod listening;
mod marks;
mod memory;
mod named;
mod noted;
mod owners;
mod pooler;
mod presets;
mod removals;
mod strangers;
mod surveys;
mod switches;
mod versions;
