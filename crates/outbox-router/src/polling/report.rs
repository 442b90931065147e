//! What the worker publishes.

use std::sync::Arc;

use relay::{polling::PollerReport, witness::ProducedTo};
use tokio::time::Instant;

/// State and numbers of the worker.
#[derive(Debug, Clone)]
pub struct WorkerReport {
    /// As the core reports them.
    pub poller: PollerReport,
    /// The topics that it has produced to.
    pub topics: Arc<ProducedTo>,
    /// When it was taken: a worker that hangs takes none.
    pub at: Instant,
}

impl WorkerReport {
    /// The report before the worker has begun.
    pub fn first(poller: PollerReport) -> Self {
        Self { poller, topics: Arc::default(), at: Instant::now() }
    }
}
