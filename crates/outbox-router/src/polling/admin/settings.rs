//! What the endpoint is given at its start.

use tokio::sync::watch;

use crate::polling::{report::WorkerReport, survey::SurveyReport};

/// What does not change while the router runs.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// `name`: the label `pipeline`, which is this name alone.
    pub name: String,
    /// `admin.hosts`: names under which people may ask.
    pub hosts: Vec<String>,
}

/// Where the answers come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// What the worker publishes.
    pub worker: watch::Receiver<WorkerReport>,
    /// What the survey publishes.
    pub surveyed: watch::Receiver<SurveyReport>,
}
