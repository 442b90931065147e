//! What persons and commands do around the stream when rows are missing, and when tables change
//! their source: `recover`, `accept`, `replay`, `skip`, dead letters, `setup --backfill`, `switch
//! stream` and `switch polling`, beside a router, on a server whose slot is lost, moved and made
//! again, whose publication and partitions change, that has prepared transactions, and that is
//! promoted and restored with them. Commands take their steps at any moment, and are killed between
//! any two.
//!
//! R3: when a gap is closed, no row of the tables is missing that nobody has given up.
//! R4: a switch marks no row that is in no topic and that nobody has given up, and none that was
//! written since it was read.
//! R5: when tables are handed to a stream, each of their rows is in a topic, or comes from the
//! slot, or somebody has given it up.
//! R6: a back-fill sends no row twice but for what an interruption may repeat.
//!
//! The decisions are those of [`relay::delivered`] and [`relay::handover`], and the gaps are found
//! by [`relay::source`]; statements are modelled by what they do. Read in this order: `database`,
//! `slot`, `pipeline`, `site`, `stream`, `facts`, `compare`, `recover`, `others`,
//! `switch`, `to_stream`, `backfill`, `filled`, `handing`, `actor`, `world`.
//!
//! Not in it: workers that take rows in batches; topics that forget records; a partition that is
//! made and detached between two readings; and a server that is restored and whose slot is then
//! moved by hand before a router has seen it, where positions show nothing.

pub mod actor;
mod backfill;
mod check;
pub mod compare;
mod coverage;
pub mod database;
pub mod facts;
mod faults;
mod filled;
mod handing;
mod making;
pub mod others;
mod persons;
pub mod pipeline;
pub mod recover;
mod refusals;
pub mod run;
pub mod site;
pub mod slot;
pub mod step;
pub mod stream;
pub mod switch;
mod to_stream;
pub mod world;
mod writing;

pub use coverage::{Repairs, RepairsCoverage};
