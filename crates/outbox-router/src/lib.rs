//! The program: all I/O around the core, which is the crate `relay`.
//!
//! * [`shell`] drives the core: one task, and one place where it waits.
//! * [`postgres`] connects to PostgreSQL: the replication connection, and ordinary SQL.
//! * [`kafka`] connects to Kafka: a `RecordSink` over librdkafka.
//! * [`monitor`] reads slot and publication by SQL; [`admin`] serves metrics and health, and
//!   `service` tells the service manager of them; [`tap`] shows events as they are routed.
//! * [`retention`] removes delivered rows from the tables.
//! * [`polling`] reads outbox tables by SQL instead of a stream.
//! * [`migrate`] translates the configuration of Debezium.
//! * [`compare`] pairs the records that the router would produce with those in Kafka.
//! * `republish` reads rows of an outbox table, and produces their records again.
//! * [`config`] declares and reads the configuration; [`cli`] is the commands.
//! * [`alerts`] is the table of alerts, from which rules and runbook follow.
//! * [`codes`] says what every error code means and what to type.
//! * [`block_on`] runs a command, or `run`, to its end.
//! * [`prepare`] builds the parts of a configuration; [`app`] is `run`, made of these parts;
//!   [`telemetry`] is the log.

pub mod admin;
pub mod alerts;
pub mod app;
pub mod block_on;
mod blocking;
pub mod cli;
pub mod codes;
pub mod compare;
mod condition_log;
pub mod config;
mod created_at;
#[cfg(feature = "failpoints")]
pub mod failpoint;
mod filter_labels;
pub mod held;
pub mod kafka;
pub mod migrate;
pub mod monitor;
mod owned_record;
pub mod polling;
pub mod postgres;
pub mod prepare;
mod republish;
pub mod retention;
mod service;
pub mod shell;
mod shell_word;
pub mod status;
pub mod tap;
pub mod telemetry;
mod timestamp;
mod warning;
mod wording;
