//! The polling source: `relay::polling` between PostgreSQL's tables and Kafka.
//!
//! * `worker`: the task that reads, produces and marks; `clock`: its time.
//! * [`sql`]: the statements, and the connections that they go over.
//! * [`report`]: what the worker publishes.
//! * [`retention`]: the task that removes rows which nobody needs any more.
//! * [`survey`]: the task that counts what is pending.
//! * [`admin`]: what people, probes and Prometheus read.

pub mod admin;
pub(crate) mod clock;
pub mod report;
pub mod retention;
#[cfg(test)]
pub(crate) mod samples;
pub mod sql;
pub mod survey;
pub(crate) mod worker;
