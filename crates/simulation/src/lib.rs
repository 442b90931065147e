//! Deterministic simulation of the whole: the real core, the real judgement of slot and
//! publication, between a PostgreSQL and a Kafka that are made up, with everything that is known to
//! go wrong between them. A seed decides the plan and the order of events; the same seed gives the
//! same run.
//!
//! Read in this order: [`plan`] (what a seed means), [`history`] (the truth), [`postgres`],
//! [`kafka`], [`world`] (the order of events; `world/shell.rs` is what stands for the real shell),
//! [`judge`] (what must hold after every step).
//!
//! Nothing here is a mock of the core: a violation is a bug of the product, or of this crate.
#![allow(
    clippy::indexing_slicing,
    clippy::struct_excessive_bools,
    clippy::missing_panics_doc,
    reason = "the state of a model is a set of facts; and one that has lost its books must stop, and a panic is a violation"
)]

pub mod coverage;
pub mod document;
pub mod fault;
pub mod history;
pub mod invariant;
pub mod judge;
pub mod kafka;
pub mod plan;
pub mod postgres;
pub mod random;
pub mod resources;
pub mod router;
pub mod run;
pub mod world;
