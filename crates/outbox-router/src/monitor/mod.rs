//! The monitor: looks at the slot and the publication from outside the stream, so that somebody notices when the
//! stream itself cannot.
//!
//! A stream that is silent and a publication that no longer publishes look alike from within. The monitor has its
//! own SQL connection and looks every few seconds, on a standby instance too. It tells the relay exactly two things,
//! [`MonitorEvent`]; everything else it learns it publishes as a [`MonitorReport`], which is data and decides nothing.
//!
//! It never creates, drops, alters or advances anything.
//!
//! Read in this order: [`slot`] and [`catalog`] (what is read, by SQL), [`preflight()`] (the look before each
//! `START_REPLICATION`), [`task`] (the loop); [`lag`], [`pace`] and [`threshold`] make the numbers that people look at.
//! What was read is data of [`relay::source`], and what is wrong with it is judged there, by plain functions.

mod announce;
pub mod catalog;
pub mod connection;
pub mod lag;
pub mod moves;
pub mod pace;
pub mod pins;
pub mod preflight;
pub mod report;
#[cfg(test)]
pub(crate) mod samples;
pub mod slot;
pub mod task;
pub mod threshold;

pub use connection::{Connect, ConnectBy, SqlSession};
pub use lag::{Blame, Lag, WindowLimits};
pub use preflight::{Preflights, preflight};
pub use relay::source::{
    Baseline, Encoding, Expectations, Gap, Interval, Mark, Obstacle, Server, SlotHealth, SlotKind,
    SlotLook, WalStatus,
};
pub use report::{MonitorReport, Polled, RelayReport, SlotView};
pub use task::{Channels, MonitorEvent, Settings, run};
pub use threshold::Thresholds;
