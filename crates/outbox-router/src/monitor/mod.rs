//! The monitor: looks at the slot and the publication from outside the stream, so that somebody notices when the
//! stream itself cannot.
//!
//! A stream that is silent and a publication that no longer publishes look alike from within. The monitor has its
//! own SQL connection and looks every few seconds, on a standby instance too. It tells the relay exactly two things,
//! [`MonitorEvent`]; everything else it learns it publishes as a [`MonitorReport`], which is data and decides nothing.
//!
//! It never creates, drops, alters or advances anything.
//!
//! Read in this order: [`slot`] and [`catalog`] (what is read, by SQL), [`publication`] and [`verdict`] (what is
//! wrong with it, as plain functions), [`preflight()`] (the same questions before each `START_REPLICATION`), [`task`]
//! (the loop); [`lag`], [`pace`] and [`threshold`] make the numbers that people look at.

mod announce;
pub mod baseline;
pub mod catalog;
pub mod connection;
pub mod gap;
pub mod lag;
mod mapping;
pub mod pace;
pub mod pins;
pub mod preflight;
pub mod publication;
pub mod report;
#[cfg(test)]
pub(crate) mod samples;
pub mod slot;
pub mod task;
pub mod threshold;
pub mod verdict;

pub use baseline::{Baseline, Encoding, Expectations, Server};
pub use connection::{Connect, ConnectBy, SqlSession};
pub use gap::{Gap, Interval, Mark};
pub use lag::{Blame, Lag, WindowLimits};
pub use preflight::{Obstacle, preflight};
pub use report::{MonitorReport, Polled, RelayReport, SlotView};
pub use slot::{SlotHealth, SlotLook, WalStatus};
pub use task::{Channels, MonitorEvent, Settings, run};
pub use threshold::Thresholds;
