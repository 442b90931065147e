//! From the configuration to the parts that `run` starts with. The commands build theirs in the same
//! way, so that a slot, a record and a broker are the same to all of them.

use relay::{OutboxTable, Outboxes, Timestamp, witness::Pipeline};

use crate::{
    config::Config,
    kafka::{CreateTopics, KafkaSettings},
    shell::{Endpoint, Source},
};

/// What is read of PostgreSQL, and how it is reached.
pub fn source(config: &Config, endpoint: Endpoint) -> Source {
    Source {
        endpoint,
        slot: config.postgres.slot.as_str().to_owned(),
        publication: config.postgres.publication.as_str().to_owned(),
        outboxes: config.outboxes(),
        row_bytes: size(config.limits.row_bytes),
    }
}

/// Under which name this configuration's witness is kept.
pub fn pipeline(config: &Config, database: &str) -> Pipeline {
    Pipeline {
        name: config.name.clone(),
        database: database.to_owned(),
        slot: config.postgres.slot.as_str().to_owned(),
    }
}

/// What librdkafka is told.
pub fn kafka_settings(config: &Config) -> KafkaSettings {
    let kafka = &config.kafka;
    KafkaSettings {
        client_id: config.name.clone(),
        bootstrap_servers: kafka.bootstrap_servers.clone(),
        properties: kafka
            .properties
            .iter()
            .map(|(name, value)| (name.to_owned(), value.expose().clone()))
            .collect(),
        create_topics: kafka.create_topics.map(|create| CreateTopics {
            partitions: create.partitions,
            replication_factor: i32::from(create.replication_factor),
        }),
        timestamp: timestamp(&config.outboxes()),
        window_bytes: size(config.limits.window_bytes),
        row_bytes: size(config.limits.row_bytes),
    }
}

/// Without a table in the configuration every outbox has the defaults.
fn timestamp(outboxes: &Outboxes) -> Timestamp {
    let now = |table: &OutboxTable| table.timestamp == Timestamp::Now;
    if !outboxes.tables.is_empty() && outboxes.tables.iter().all(now) {
        Timestamp::Now
    } else {
        Timestamp::Commit
    }
}

/// Bytes as a length; on a machine of 32 bits no limit is larger than its memory.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
