//! What the endpoint is given at its start.

use std::time::Duration;

use tokio::sync::watch;

use crate::{
    kafka::BrokerStatistics,
    polling::{report::WorkerReport, survey::SurveyReport},
    retention::RetentionReport,
    tap::Taps,
};

/// What does not change while the router runs.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// `name`: the label `pipeline`, which is this name alone.
    pub name: String,
    /// `admin.hosts`: names under which people may ask.
    pub hosts: Vec<String>,
    /// `retention.keep`, exported so that alert rules need no editing; `None` where retention is
    /// off.
    pub keep: Option<Duration>,
}

/// Where the answers come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// What the worker publishes.
    pub worker: watch::Receiver<WorkerReport>,
    /// What the survey publishes.
    pub surveyed: watch::Receiver<SurveyReport>,
    /// What retention publishes.
    pub retention: watch::Receiver<RetentionReport>,
    /// What librdkafka tells of the brokers; `None` where `kafka.statistics` is off.
    pub brokers: Option<watch::Receiver<BrokerStatistics>>,
    /// What `/tap` answers with.
    pub taps: Taps,
}
