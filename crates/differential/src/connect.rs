//! The real Debezium: Kafka Connect standalone with a connector for each case.

use testbed::debezium::{Worker, WorkerOptions};

use crate::case::Case;
use crate::ours::PARTITIONS;

/// Starts a worker with a connector for each case.
pub(crate) fn start(bootstrap: &str, port: u16, cases: &[Case]) -> anyhow::Result<Worker> {
    // A row that is refused is left out, so that the others of its case are seen.
    let more = format!(
        "errors.tolerance=all\nerrors.log.enable=true\n\
         topic.creation.default.replication.factor=1\n\
         topic.creation.default.partitions={PARTITIONS}\n"
    );
    let options = cases.iter().fold(WorkerOptions::new(bootstrap), |options, case| {
        options.connector(&case.name, case.properties(port) + &more)
    });
    Worker::start(&options)
}
