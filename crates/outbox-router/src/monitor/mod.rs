//! The monitor: looks at the slot and the publication from outside the stream, so that somebody
//! notices when the stream itself cannot.
//!
//! A stream that is silent and a publication that no longer publishes look alike from within. The
//! monitor has its own SQL connection and looks every few seconds, on a standby instance too. It
//! tells the relay what it saw ([`MonitorEvent`]): all well, a gap suspected, the server is
//! stopping. Everything else it learns it publishes as a [`MonitorReport`], which is data and
//! decides nothing.
//!
//! It never creates, drops, alters or advances anything.
//!
//! Read in this order: [`server`], [`slot`] and [`catalog`] (what is read, by SQL, here and on the
//! connection that will stream), [`task`] (the loop); [`lag`], [`pace`] and [`threshold`] make the
//! numbers that people look at. What was read is data of [`relay::source`], and what is wrong with
//! it is judged there, by plain functions.

mod announce;
pub mod catalog;
pub mod connection;
pub mod lag;
pub mod moves;
pub mod pace;
pub mod pins;
pub mod report;
#[cfg(test)]
pub(crate) mod samples;
pub mod server;
pub mod slot;
pub mod task;
pub mod threshold;

pub use connection::{Connect, ConnectBy, SqlSession};
pub use lag::{Blame, Lag, WindowLimits};
pub use relay::source::{
    Baseline, Encoding, Gap, Interval, Mark, Server, SlotHealth, SlotKind, SlotLook, WalStatus,
};
pub use report::{MonitorReport, Polled, RelayReport, SlotView};
pub use task::{Channels, MonitorEvent, Settings, SourceState, run};
pub use threshold::Thresholds;
