//! The life of rows around the stream: transactions, partitions and publication of a simulated
//! server, a router that delivers, and the actors that remove rows at any moment, by the proofs of
//! [`relay::delivered`]. Servers are promoted and restored, tables join and leave, slots are moved.
//!
//! R1: no row leaves its table that is in no topic, not held, and not given up by a person.
//!
//! Read in this order: [`database`], [`pipeline`] (router, witness, topic), [`remover`], [`world`],
//! `persons`.

mod coverage;
pub mod database;
mod persons;
pub mod pipeline;
pub mod remover;
pub mod run;
pub mod world;

pub use coverage::{Rows, RowsCoverage};
