//! Retention of polled tables: rows that are published leave after a while.
//!
//! The table's own marks say which rows those are, so this needs to know nothing of the worker. It
//! has a connection of its own, so that neither a lock nor a slow statement delays a row. Several
//! processes may do it at once: a row that another one has locked is left to it.

mod sweeper;
mod task;

pub use sweeper::{SweepSettings, Sweeper};
pub(crate) use task::{first_report, run};
