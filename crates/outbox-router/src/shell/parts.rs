//! What the shell is made of, and what tells it to stop.

use relay::{Relay, TopicName, witness::Pipeline};
use tokio::sync::{mpsc, watch};

use super::Clock;
use crate::monitor::{MonitorEvent, RelayReport};

/// Everything that [`super::Shell::new`] takes.
pub struct Parts<P, K> {
    /// The core.
    pub relay: Relay,
    /// How to reach PostgreSQL, and what to expect there.
    pub postgres: P,
    /// How to make a producer.
    pub kafka: K,
    /// Where the witness is kept; `None`: nowhere.
    pub state_topic: Option<TopicName>,
    /// Whose witness it is.
    pub pipeline: Pipeline,
    /// What the monitor says.
    pub monitor: mpsc::Receiver<MonitorEvent>,
    /// Where the core's state is told.
    pub reports: watch::Sender<RelayReport>,
    /// Tells when the process is to stop.
    pub shutdown: watch::Receiver<Running>,
    /// The clock whose origin the core was made with.
    pub clock: Clock,
}

/// Whether the process is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// Yes.
    On,
    /// It was asked to stop.
    Stopping,
}
