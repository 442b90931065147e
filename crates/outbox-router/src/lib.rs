//! The product: what does I/O around the core in `relay`.
//!
//! * [`shell`] drives the core: one task, one wait.
//! * [`postgres`] is the way to PostgreSQL: the replication connection, and ordinary SQL.
//! * [`kafka`] is the way to Kafka: a `RecordSink` over librdkafka.
//! * [`monitor`] looks at the slot from outside, [`admin`] tells what it and the core see.
//! * [`config`] is the contract of configuration, [`cli`] the commands.
//! * [`prepare`] makes the parts of a configuration, [`app`] puts `run` together of them,
//!   [`telemetry`] is its log.

pub mod admin;
pub mod app;
mod blocking;
pub mod cli;
pub mod config;
#[cfg(feature = "failpoints")]
pub mod failpoint;
pub mod kafka;
pub mod monitor;
pub mod postgres;
pub mod prepare;
pub mod shell;
pub mod telemetry;
mod warning;
mod wording;
