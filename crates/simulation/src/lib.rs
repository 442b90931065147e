//! Deterministic simulation of the whole: the real core and the real checks of slot and publication
//! run between a simulated PostgreSQL and a simulated Kafka, with every fault between them that is
//! known to happen. A seed decides the plan and the order of events; the same seed gives the same
//! run.
//!
//! Read in this order: [`plan`] (what a seed means), [`history`] (what was committed),
//! [`postgres`], [`kafka`], [`world`] (the order of events; `world/shell.rs` does what the
//! product's shell does), [`checker`] (what must hold after every step).
//!
//! The core is the product's own and not a mock: a violation is a bug of the product, or of this
//! crate.
#![allow(
    clippy::indexing_slicing,
    clippy::struct_excessive_bools,
    clippy::missing_panics_doc,
    reason = "the state of a model is a set of facts; a model whose state is inconsistent must stop, and a panic counts as a violation"
)]

pub mod checker;
pub mod coverage;
pub mod document;
pub mod fault;
pub mod history;
pub mod invariant;
pub mod kafka;
pub mod plan;
pub mod polling;
pub mod postgres;
pub mod random;
pub mod reached;
pub mod repairs;
pub mod resources;
pub mod router;
pub mod rows;
pub mod run;
pub mod world;
mod xid;
