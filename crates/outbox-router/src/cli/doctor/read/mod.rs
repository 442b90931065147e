//! Reads the facts. Nothing here writes: the SQL session is read-only, the catalog is read in a
//! read-only transaction, and Kafka is asked for metadata and settings alone.
//!
//! The witness is read first, because it names tables to look for; then PostgreSQL, which says
//! which topics there may be; then Kafka. Each has a time limit of its own, and none is left out
//! because another does not answer.

mod configuration;
mod kafka;
mod polled;
mod postgres;
mod router_schema;
mod table;
mod zones;

use std::{future::Future, path::Path, time::Duration};

use relay::{Code, Failure};

use super::facts::{Facts, Part, RouterFacts, WitnessFacts};
use crate::{
    cli::{
        connect::Access,
        router_status,
        witness::{PipelineRecords, Records},
    },
    config::{Environment, Loaded, SourceKind},
};

/// How long each side may take altogether. A statement or a request has limits of some seconds, and
/// a cluster with thousands of topics takes several.
const LIMIT: Duration = Duration::from_secs(30);

/// Reads everything.
pub(super) async fn facts(
    file: Option<&Path>,
    loaded: &Loaded,
    environment: &Environment,
    access: Access<'_>,
) -> Facts {
    let config = &loaded.config;
    let configuration = configuration::facts(file, config, environment);
    let records = match config.postgres.source {
        SourceKind::Stream => Records::of(config, access),
        // Nothing is kept of rows that are polled.
        SourceKind::Polling => Ok(None),
    };
    let witness = match records {
        Ok(None) => None,
        Ok(Some(records)) => Some(within(Code::KafkaUnreachable, "Kafka", witness(records)).await),
        Err(failure) => Some(Err(failure)),
    };
    let known = witness.as_ref().and_then(|read| read.as_ref().ok()?.witness.as_ref());
    let remembered = known.map(|witness| &witness.catalog);
    let read = postgres::facts(config, access, environment, remembered);
    let postgres = Box::pin(within(Code::ServerUnreachable, "PostgreSQL", read)).await;
    let polled = match config.postgres.source {
        SourceKind::Stream => None,
        SourceKind::Polling => {
            let read = polled::facts(config, access, environment);
            Some(Box::pin(within(Code::ServerUnreachable, "PostgreSQL", read)).await)
        }
    };
    let templates = kafka::templates(config, postgres.as_ref().ok());
    let in_use = known.map(|witness| witness.partitions.keys().cloned().collect());
    let read = kafka::facts(config, templates, in_use.unwrap_or_default());
    let kafka = within(Code::KafkaUnreachable, "Kafka", read).await;
    let router = router_status::read(config).await;
    let router = router.as_ref().and_then(RouterFacts::of);
    Facts { configuration, postgres, polled, kafka, witness, router }
}

async fn witness(records: Records) -> Part<WitnessFacts> {
    let PipelineRecords { cluster, witness, .. } = records.read().await?;
    Ok(WitnessFacts { cluster, witness })
}

/// Gives up after [`LIMIT`]: whoever does not answer is not waited for.
async fn within<T>(code: Code, who: &str, read: impl Future<Output = Part<T>>) -> Part<T> {
    match tokio::time::timeout(LIMIT, read).await {
        Ok(read) => read,
        Err(_) => {
            let what = format!("{who} did not answer everything within {} s", LIMIT.as_secs());
            Err(Failure::new(code, what))
        }
    }
}
