//! The keys under which a pipeline's records are stored.

use crate::progress::ticket::SessionId;

/// Names a pipeline in the state topic: the configured name, the database and the slot.
///
/// Name and slot are often left at their defaults, so the database distinguishes two installations
/// that share a Kafka cluster. The server's address is not part of the name: a failover may change
/// the address, and the record must still be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// `name` in the configuration.
    pub name: String,
    /// The database.
    pub database: String,
    /// The slot.
    pub slot: String,
}

impl Pipeline {
    /// The prefix of all its keys, and of no other pipeline's keys.
    #[must_use]
    pub fn prefix(&self) -> Vec<u8> {
        let parts = [&self.name, &self.database, &self.slot];
        let mut key = serde_json::json!(parts).to_string();
        key.push('#');
        key.into_bytes()
    }

    /// The key of one writer: a session, a gap that a process found, or a command.
    #[must_use]
    pub fn key(&self, writer: &str) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(writer.as_bytes());
        key
    }
}

/// The key of a session's records.
pub(super) fn of_session(
    pipeline: &Pipeline,
    process: &str,
    sessions: u64,
    id: SessionId,
) -> Vec<u8> {
    pipeline.key(&format!("{process}.{sessions}.{}", id.0))
}
