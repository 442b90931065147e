//! What the worker publishes.

use relay::polling::PollerReport;
use tokio::time::Instant;

/// State and numbers of the worker.
#[derive(Debug, Clone)]
pub struct WorkerReport {
    /// As the core reports them.
    pub poller: PollerReport,
    /// When it was taken: a worker that hangs takes none.
    pub at: Instant,
}

impl WorkerReport {
    /// The report before the worker has begun.
    pub fn first(poller: PollerReport) -> Self {
        Self { poller, at: Instant::now() }
    }
}
