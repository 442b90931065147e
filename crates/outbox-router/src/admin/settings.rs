//! What the endpoint is given at its start.

use std::time::Duration;

use relay::Window;
use tokio::sync::watch;

use crate::{
    kafka::BrokerStatistics,
    monitor::{MonitorReport, RelayReport, Thresholds},
    retention::RetentionReport,
    status::{Limits, Observed},
    tap::Taps,
};

/// What does not change while the router runs.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// `name`: the label `pipeline`, which is this name alone.
    pub name: String,
    /// The slot's name: the label `slot`.
    pub slot: String,
    /// `monitor.bytes_behind`, exported so that alert rules need no editing.
    pub thresholds: Thresholds,
    /// `retention.keep`, exported so that alert rules need no editing; `None` where retention is
    /// off.
    pub keep: Option<Duration>,
    /// `admin.hosts`: names under which people may ask.
    pub hosts: Vec<String>,
    /// The window's limits, from which it follows who has to act.
    pub window: Window,
}

impl AdminSettings {
    /// The limits that a verdict depends on.
    pub(super) fn limits(&self) -> Limits {
        Limits { thresholds: self.thresholds, window: self.window }
    }
}

/// Where the answers come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// What the streaming task publishes.
    pub relay: watch::Receiver<RelayReport>,
    /// What the monitor publishes.
    pub monitor: watch::Receiver<MonitorReport>,
    /// What the observer remembers.
    pub observed: watch::Receiver<Observed>,
    /// What retention publishes.
    pub retention: watch::Receiver<RetentionReport>,
    /// What librdkafka tells of the brokers; `None` where `kafka.statistics` is off.
    pub brokers: Option<watch::Receiver<BrokerStatistics>>,
    /// Who is shown events as they are routed.
    pub taps: Taps,
}
