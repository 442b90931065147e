//! What a sweep is told.

use std::time::Duration;

use relay::OutboxTable;
use sha2::{Digest as _, Sha256};

use crate::config::{Config, RetentionMode, RetentionSection};

/// What a sweep is told.
#[derive(Debug, Clone)]
pub struct RetentionSettings {
    /// `name` of the configuration.
    pub name: String,
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// The tables, in the order of the configuration.
    pub tables: Vec<OutboxTable>,
    /// `[retention]`.
    pub section: RetentionSection,
}

impl RetentionSettings {
    /// Takes them from the configuration.
    pub fn of(config: &Config) -> Self {
        Self {
            name: config.name.clone(),
            slot: config.postgres.slot.as_str().to_owned(),
            publication: config.postgres.publication.as_str().to_owned(),
            tables: config.outboxes().tables,
            section: config.retention.clone(),
        }
    }

    /// Whether rows are removed at all.
    pub fn is_on(&self) -> bool {
        self.section.mode != RetentionMode::Off
    }

    /// How long rows are kept; `None` where none is removed.
    pub fn keep(&self) -> Option<Duration> {
        self.is_on().then_some(self.section.keep)
    }

    /// The advisory lock of whoever removes rows of this pipeline. Locks are of one database, as
    /// the tables are.
    pub(super) fn lock_key(&self) -> i64 {
        let digest = Sha256::new()
            .chain_update(b"outbox_router.retention\0")
            .chain_update(&self.name)
            .chain_update(b"\0")
            .chain_update(&self.slot)
            .finalize();
        i64::from_be_bytes(digest.first_chunk::<8>().copied().unwrap_or_default())
    }
}
