//! The table of held events on a real PostgreSQL: its answers are those of the table in memory that
//! the core's tests and the simulation use, and its failures say what to do.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

mod failures;
mod fencing;
mod fixture;
mod many_events;
mod many_keys;
mod random;
mod reading_order;
mod requests;
