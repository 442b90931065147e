//! The keys under which the state topic keeps a pipeline's witness.

use crate::progress::ticket::SessionId;

/// What all keys of a pipeline's witness begin with: the configured name, the database and the
/// slot.
///
/// Name and slot are often left at their defaults, so the database distinguishes two installations
/// that share a Kafka cluster. The server's address is not part of the key: a failover may change
/// the address, and the witness must still be found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WitnessKey {
    /// `name` in the configuration.
    pub name: String,
    /// The database.
    pub database: String,
    /// The slot.
    pub slot: String,
}

impl WitnessKey {
    /// The prefix of all keys of this pipeline, and of no other pipeline's keys.
    #[must_use]
    pub fn prefix(&self) -> Vec<u8> {
        let parts = [&self.name, &self.database, &self.slot];
        let mut key = serde_json::json!(parts).to_string();
        key.push('#');
        key.into_bytes()
    }

    /// The pipeline that a key is of; `None` for a key that none of ours is.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Option<Self> {
        let mut parts = serde_json::Deserializer::from_slice(key).into_iter::<[String; 3]>();
        let [name, database, slot] = parts.next()?.ok()?;
        Some(Self { name, database, slot })
    }

    /// The key of one writer: a session, a gap that a process found, or a command.
    #[must_use]
    pub fn of_writer(&self, writer: &str) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(writer.as_bytes());
        key
    }
}

/// The key of a session's records.
pub(super) fn of_session(
    witness_key: &WitnessKey,
    process: &str,
    sessions: u64,
    id: SessionId,
) -> Vec<u8> {
    witness_key.of_writer(&format!("{process}.{sessions}.{}", id.0))
}
