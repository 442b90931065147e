//! The parts that the shell is made of.

use relay::{Relay, TopicName, witness::WitnessKey};
use tokio::sync::{mpsc, watch};

use super::{Clock, ports::Postgres};
use crate::{
    monitor::{MonitorEvent, RelayReport},
    tap::Tap,
};

/// Everything that [`super::Shell::new`] takes.
pub struct Parts<P: Postgres, K> {
    /// The core.
    pub relay: Relay,
    /// How to connect to PostgreSQL, and what to read there.
    pub postgres: P,
    /// The table of held events.
    pub held: P::HeldTable,
    /// How to make a producer.
    pub kafka: K,
    /// The topic of the witness; `None` keeps no witness.
    pub state_topic: Option<TopicName>,
    /// Under what the state topic keeps the witness.
    pub witness_key: WitnessKey,
    /// The monitor's events.
    pub monitor: mpsc::Receiver<MonitorEvent>,
    /// Where the core's state is reported.
    pub reports: watch::Sender<RelayReport>,
    /// Who is shown what is routed.
    pub tap: Tap,
    /// Changes to [`Running::Stopping`] when the process is to stop.
    pub shutdown: watch::Receiver<Running>,
    /// The clock that the core was started with.
    pub clock: Clock,
}

/// Whether the process is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// It is not.
    On,
    /// It was asked to stop.
    Stopping,
}
