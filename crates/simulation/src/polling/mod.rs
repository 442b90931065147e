//! The simulation of the polling source: several workers with the product's own core, between
//! tables that are marked, a table of leases, and Kafka.
//!
//! Read in this order: [`plan`] (what a seed means), `table`, `leases`, `kafka` and `producer`,
//! `world` (the order of events; `world/shell.rs` does what the product's shell does), `checker`
//! (what must hold after every step).

pub mod checker;
pub mod clock;
mod coverage;
pub mod fault;
pub mod kafka;
pub mod late;
pub mod leases;
pub mod plan;
pub mod process;
pub mod producer;
pub mod run;
pub mod shape;
pub mod table;
pub mod world;

pub use coverage::PollingCoverage;
