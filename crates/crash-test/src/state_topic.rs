//! The witness's position at any moment: read from the state topic, and interpreted as the next
//! router will.
//!
//! Only here the product's own code is used, for the meaning of a record and for which of several
//! records counts: the next session goes by that interpretation.

use anyhow::Context;
use relay::{
    StateTopicRecord,
    witness::{WitnessKey, combine},
};
use testbed::postgres::DATABASE;
use testbed::reader::ConsumedRecord;
use testbed::tail::{EndOffsets, Tail};
use tokio_postgres::types::PgLsn;

/// The state topic.
pub(crate) const TOPIC: &str = "crash-test.state";
/// Name of slot, publication and role.
pub(crate) const SLOT: &str = "outbox_router";
/// `name` of the router's configuration.
pub(crate) const NAME: &str = "crash-test";

/// A reader of the state topic, from its start on.
pub(crate) struct StateTopicReader {
    tail: Tail,
    prefix: Vec<u8>,
}

impl StateTopicReader {
    /// Begins to read. The topic must exist.
    pub(crate) fn open(bootstrap: &str) -> anyhow::Result<Self> {
        Ok(Self { tail: Tail::open(bootstrap, &[TOPIC])?, prefix: prefix() })
    }

    /// Where the topic ends now.
    pub(crate) fn ends(&self) -> anyhow::Result<EndOffsets> {
        self.tail.ends()
    }

    /// The witness's position when the topic had these ends; `None` if there was no witness.
    pub(crate) fn position_at(&mut self, ends: &EndOffsets) -> anyhow::Result<Option<PgLsn>> {
        self.tail.read_to(ends)?;
        position(self.tail.seen().iter().filter(|record| ends.contain(record)), &self.prefix)
    }

    /// The witness's present position.
    pub(crate) fn position(&mut self) -> anyhow::Result<Option<PgLsn>> {
        let ends = self.ends()?;
        self.position_at(&ends)
    }
}

fn prefix() -> Vec<u8> {
    let [name, database, slot] = [NAME, DATABASE, SLOT].map(str::to_owned);
    WitnessKey { name, database, slot }.prefix()
}

/// The position that the records of a pipeline, in the order of the topic, amount to.
fn position<'r>(
    log: impl Iterator<Item = &'r ConsumedRecord>,
    prefix: &[u8],
) -> anyhow::Result<Option<PgLsn>> {
    let mut latest: Vec<StateTopicRecord> = Vec::new();
    for record in log {
        let Some(key) = record.key.as_ref().filter(|key| key.starts_with(prefix)) else { continue };
        latest.retain(|older| older.key != *key);
        latest.extend(record.value.clone().map(|value| StateTopicRecord {
            key: key.clone(),
            value,
            offset: record.offset,
        }));
    }
    let witness = combine(&latest).context("a record of the state topic cannot be read")?;
    Ok(witness.map(|witness| PgLsn::from(witness.position.as_u64())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use relay::Lsn;
    use relay::witness::Witness;

    use super::*;

    fn record(key: &str, value: Option<u64>) -> ConsumedRecord {
        ConsumedRecord {
            topic: Arc::from(TOPIC),
            partition: 0,
            offset: 0,
            key: Some([&prefix(), key.as_bytes()].concat()),
            value: value.map(|position| Witness::at(Lsn::from_u64(position)).encode()),
            headers: Vec::new(),
            timestamp: None,
            received: SystemTime::UNIX_EPOCH,
        }
    }

    fn read(log: &[ConsumedRecord]) -> Option<PgLsn> {
        position(log.iter(), &prefix()).unwrap()
    }

    #[test]
    fn the_witness_is_the_greatest_position_among_the_latest_records_of_all_sessions() {
        assert_eq!(read(&[]), None);
        let log = [
            record("a", Some(10)),
            record("a", Some(20)),
            record("b", Some(30)),
            // From a router that continues late.
            record("a", Some(25)),
        ];
        assert_eq!(read(&log), Some(PgLsn::from(30)));
        let deleted = [record("b", None)];
        assert_eq!(read(&[&log[..], &deleted].concat()), Some(PgLsn::from(25)));
    }

    #[test]
    fn records_of_other_pipelines_are_ignored() {
        let other = ConsumedRecord { key: Some(b"other#a".to_vec()), ..record("a", Some(10)) };
        assert_eq!(read(&[other]), None);
    }
}
