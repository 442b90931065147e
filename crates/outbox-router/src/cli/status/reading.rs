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
        open_events::{AllOpen, OpenEvents},
        router_status::{self, Answer, Other},
    },
    config::Config,
    polling::sql::{kept_from_slot, switches_under_way},
};

/// Everything that one reading found.
pub(super) struct StatusReading {
    /// What PostgreSQL reports, or why it could not be read.
    pub(super) sample: Result<Sample, Box<Failure>>,
    /// The router's own `/status.json`; `None` where no router of this slot answers.
    pub(super) router: Option<Value>,
    /// Who answers in its place.
    pub(super) other: Option<Other>,
    /// What is open and what was accepted.
    pub(super) record: Recorded,
    /// Switches to polling, or from it, that are not complete; where there is no slot, also tables
    /// that were polled last.
    pub(super) switching: Vec<Failure>,
    /// What is held, as the table has it; of the own pipeline nothing where a router answers, which
    /// knows it, and of none where the table cannot be read.
    pub(super) held: AllOpen,
}

/// Reads once.
pub(super) async fn read(config: &Config, access: Access<'_>) -> Result<StatusReading, TaskError> {
    let slot = config.postgres.slot.as_str();
    let sampled =
        with_connection(access, "status", async |client| sample::take(client, slot).await);
    let from_router = async {
        let database = access.endpoint("status").ok().map(|endpoint| endpoint.conninfo.dbname);
        let (router, other) = match router_status::ask(config, database.as_deref()).await {
            Answer::Nobody => (None, None),
            Answer::Own(router) => (Some(router), None),
            Answer::Other(other) => (None, Some(other)),
        };
        let record = Box::pin(recorded::find(config, access, router.as_ref())).await;
        (router, other, record)
    };
    let (sample, (router, other, record)) = tokio::join!(Box::pin(sampled), from_router);
    let sample = match sample {
        Ok(sample) => Ok(sample),
        Err(TaskError::Failure(failure)) => Err(failure),
        Err(output @ TaskError::Output(_)) => return Err(output),
    };
    let (mut held, mut switching) = (AllOpen::default(), Vec::new());
    if let Ok(sample) = &sample {
        let publication = config.postgres.publication.as_str();
        let has_router = router.is_some();
        // What the role may not read of one is no reason to leave out the other.
        let read = with_connection(access, "status", async |client| {
            let (mut sql, outboxes) = (client, config.outboxes());
            let under_way = match sample.slot {
                Some(_) => switches_under_way(&mut sql, &outboxes, publication).await,
                None => kept_from_slot(&mut sql, &config.name, &outboxes, publication).await,
            };
            switching = under_way.unwrap_or_default();
            let open = if has_router {
                let others = OpenEvents::others(client, config).await;
                others.map(|others| AllOpen { own: None, others })
            } else {
                AllOpen::read(client, config).await
            };
            held = open.unwrap_or_default();
            Ok(())
        });
        Box::pin(read).await.unwrap_or_default();
    }
    Ok(StatusReading { sample, router, other, record, switching, held })
}
