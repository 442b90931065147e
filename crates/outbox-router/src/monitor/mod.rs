//! The monitor: reads slot, publication and outbox tables by SQL every few seconds, on a connection
//! of its own, also while another router holds the slot.
//!
//! On the replication connection, a stream with nothing to send and a publication that no longer
//! publishes look alike. So the monitor reads from the catalog what would leave rows out. It sends
//! the streaming task three events ([`MonitorEvent`]): the source is as it must be, a gap is
//! suspected, the server is stopping. Everything else is published as a [`MonitorReport`], which is
//! data and decides nothing.
//!
//! The monitor never creates, drops, alters or advances anything.
//!
//! Read in this order: [`server`], [`slot`] and [`catalog`] (what is read by SQL, here and on the
//! replication connection that is checked before a stream starts), [`task`] (the loop); [`lag`],
//! [`rates`] and [`threshold`] compute the figures that are shown to people, and [`watch`] reads
//! those that are only shown. What was read is data
//! of [`relay::source`], and plain functions there check it.

mod announce;
mod brief;
pub mod catalog;
pub mod connection;
mod decided;
pub mod lag;
pub mod moves;
pub mod pins;
mod polled;
pub mod rates;
pub mod report;
pub mod server;
pub mod slot;
pub mod tables;
pub mod task;
pub mod threshold;
pub mod watch;

pub use connection::{Connect, ConnectBy, SqlSession};
pub use lag::{Blame, Lag};
pub use polled::Polled;
pub use relay::source::{
    Baseline, Gap, Interval, Mark, Server, ServerEncoding, SlotHealth, SlotKind, SlotReading,
    WalStatus,
};
pub use report::{BacklogReading, MonitorReport, ObservedSlot, RelayReport};
pub use task::{Channels, MonitorEvent, MonitorSettings, SourceState, run};
pub use threshold::Thresholds;
pub use watch::SlotWatch;
