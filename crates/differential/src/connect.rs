//! The real Debezium: Kafka Connect standalone with a connector for each case.

use testbed::debezium::{Worker, WorkerOptions};

use crate::case::Case;
use crate::ours::PARTITIONS;

/// How long Debezium's producer waits for a partition that a topic does not have. A minute is
/// usual.
const MAX_BLOCK_MS: u32 = 8_000;

/// Starts a worker with a connector for each case.
pub(crate) fn start(bootstrap: &str, port: u16, cases: &[Case]) -> anyhow::Result<Worker> {
    let more = format!(
        "errors.log.enable=true\nerrors.log.include.messages=true\n\
         producer.override.max.block.ms={MAX_BLOCK_MS}\n\
         topic.creation.default.replication.factor=1\n\
         topic.creation.default.partitions={PARTITIONS}\n"
    );
    let options = cases.iter().fold(WorkerOptions::new(bootstrap), |options, case| {
        let tolerance = if tolerates(case) { "all" } else { "none" };
        let tolerance = format!("errors.tolerance={tolerance}\n");
        options.connector(&case.name, case.properties(port) + &tolerance + &more)
    });
    Worker::start(&options)
}

/// Whether a row that is refused is left out, so that those are seen that follow. Else the task
/// ends at it, which is usual.
pub(crate) fn tolerates(case: &Case) -> bool {
    case.rows.len() > 1 && case.before_last_row.is_empty()
}
