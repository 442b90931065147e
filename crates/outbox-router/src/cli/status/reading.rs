//! One reading: PostgreSQL and the router are asked at the same time, the witness after the router.

use relay::Failure;
use serde_json::Value;

use super::{
    recorded::{self, Recorded},
    sample::{self, Sample},
};
use crate::{
    cli::{
        TaskError,
        connect::{Access, with_connection},
        http,
    },
    config::Config,
};

/// Everything that one reading found.
pub(super) struct StatusReading {
    /// What PostgreSQL reports, or why it could not be read.
    pub(super) sample: Result<Sample, Box<Failure>>,
    /// The router's own `/status.json`; `None` where no router of this slot answers.
    pub(super) router: Option<Value>,
    /// What is open and what was accepted.
    pub(super) record: Recorded,
}

/// Reads once.
pub(super) async fn read(config: &Config, access: Access<'_>) -> Result<StatusReading, TaskError> {
    let slot = config.postgres.slot.as_str();
    let sampled =
        with_connection(access, "status", async |client| sample::take(client, slot).await);
    let from_router = async {
        let router = http::get(config.admin.listen, "/status.json").await;
        let router: Option<Value> = router.and_then(|body| serde_json::from_str(&body).ok());
        let router = router.filter(|router| follows(router, slot));
        let record = Box::pin(recorded::find(config, access, router.as_ref())).await;
        (router, record)
    };
    let (sample, (router, record)) = tokio::join!(Box::pin(sampled), from_router);
    let sample = match sample {
        Ok(sample) => Ok(sample),
        Err(TaskError::Failure(failure)) => Err(failure),
        Err(output @ TaskError::Output(_)) => return Err(output),
    };
    Ok(StatusReading { sample, router, record })
}

/// Whether the answer is about this slot: a router of another slot may listen at the same address.
/// An answer that names no slot counts.
fn follows(router: &Value, slot: &str) -> bool {
    let theirs = router.get("slot").and_then(|slot| slot.get("name")?.as_str());
    theirs.is_none_or(|theirs| theirs == slot)
}
