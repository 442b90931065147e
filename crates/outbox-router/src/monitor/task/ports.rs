//! What the monitor is given, and what it sends.

use std::time::Duration;

use relay::{
    Outboxes, Window,
    source::{Catalog, Gap, SlotReading},
};
use tokio::sync::{mpsc, watch};

use crate::monitor::{
    report::{MonitorReport, RelayReport},
    threshold::Thresholds,
};

/// What the monitor watches.
#[derive(Debug, Clone)]
pub struct MonitorSettings {
    /// `name`, under which events are held.
    pub name: String,
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// The configured tables; empty: all tables that are published.
    pub outboxes: Outboxes,
    /// `monitor.interval`.
    pub interval: Duration,
    /// `monitor.bytes_behind`.
    pub thresholds: Thresholds,
    /// The window's limits, from which it follows who has to act.
    pub window: Window,
}

/// What the monitor sends to the streaming task.
#[derive(Debug, Clone, PartialEq)]
pub enum MonitorEvent {
    /// Rows may have been left out: confirm nothing more. Sent once per code.
    GapSuspected(Box<Gap>),
    /// Slot, publication and tables are as they must be.
    SourceVerified(Box<SourceState>),
    /// The server is stopping, and its walsender waits for what is unconfirmed. Sent once per stop.
    ServerStopping,
}

/// A reading in which nothing was wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceState {
    /// The slot, with the server's position and clock.
    pub reading: SlotReading,
    /// Publication and tables.
    pub catalog: Catalog,
}

/// The channels between monitor, streaming task and admin endpoint.
#[derive(Debug)]
pub struct Channels {
    /// What the streaming task publishes.
    pub relay: watch::Receiver<RelayReport>,
    /// To the streaming task. An event for which there is no room is sent again after the next
    /// reading.
    pub events: mpsc::Sender<MonitorEvent>,
    /// To the admin endpoint.
    pub report: watch::Sender<MonitorReport>,
}
