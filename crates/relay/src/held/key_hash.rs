//! What a key is compared by.

use std::fmt;

use pgoutput::Lsn;
use sha2::{Digest, Sha256};

use super::EventId;

/// SHA-256 of a record's key. A key may have a megabyte, and the core remembers every key that is
/// held; so it remembers 32 bytes of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// Of a key.
    pub fn of_key(key: &[u8]) -> Self {
        Self(Sha256::new().chain_update(b"key:").chain_update(key).finalize().into())
    }

    /// Of an event that holds no other: it has no key, or keys are not held.
    pub fn of_event(EventId { commit_lsn, index }: EventId) -> Self {
        let lsn = Lsn::as_u64(commit_lsn).to_be_bytes();
        let digest = Sha256::new().chain_update(b"event:").chain_update(lsn);
        Self(digest.chain_update(index.to_be_bytes()).finalize().into())
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "KeyHash({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}
