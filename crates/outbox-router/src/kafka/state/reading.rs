//! Reading the state topic from its beginning to its end.

use std::{collections::HashMap, thread, time::Duration};

use rdkafka::{types::RDKafkaErrorCode as E, util::Timeout};
use relay::{Code, Failure};
use tokio::time::Instant;

use super::{PARTITION, StateTopic};
use crate::kafka::{
    ffi::{Fetched, Reader},
    health::{Complaints, Health},
    topics::code_of,
};

/// What the state topic holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRead {
    /// The id that the cluster gave itself; empty where the brokers do not tell any.
    pub cluster_id: String,
    /// The offset after the last record at the time of the call.
    pub end: i64,
    /// The latest record of each key, in the order of the topic.
    pub records: Vec<StateRecord>,
}

/// The latest record of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRecord {
    /// As written.
    pub key: Vec<u8>,
    /// As written.
    pub value: Vec<u8>,
    /// Where in the topic.
    pub offset: i64,
}

/// How long the cluster may be silent while it is read: as long as any other question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// For some 100 ms a topic that was made a moment ago has no leader, or the broker that is asked
/// has not heard of it.
const APPEARS_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl StateTopic {
    /// The latest record of each key that begins with `prefix`, between the beginning and the end
    /// that the topic has now. A key whose latest record has no value is not there.
    ///
    /// It connects anew, so the cluster's id is that of the cluster which answers now: a producer's
    /// client keeps the id of the first one that it met.
    ///
    /// # Errors
    /// [`Code::KafkaUnreachable`] when nothing comes for some seconds; or the topic is missing or
    /// forbidden.
    pub fn read(&self, prefix: &[u8]) -> Result<StateRead, Failure> {
        let config = self
            .settings
            .reader_config()
            .map_err(|refused| Failure::new(Code::ProducerFatal, refused.to_string()))?;
        let mut reader = Reader::open(&config, &self.name, PARTITION)
            .map_err(|error| self.failure(code_of(&error), &error.to_string()))?;
        let (low, high) = self.watermarks(&reader)?;
        let cluster_id =
            reader.client().fetch_cluster_id(Timeout::After(PATIENCE)).unwrap_or_default();
        let mut latest = Latest { prefix, by_key: HashMap::new() };
        if low < high {
            reader.start(low).map_err(|error| self.failure(error, ""))?;
            self.fetch(&reader, high, &mut latest)?;
        }
        Ok(StateRead { cluster_id, end: high, records: latest.records() })
    }

    fn watermarks(&self, reader: &Reader) -> Result<(i64, i64), Failure> {
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            let answer = reader.client().fetch_watermarks(
                self.name.as_str(),
                PARTITION,
                Timeout::After(left),
            );
            let error = match answer {
                Ok(watermarks) => return Ok(watermarks),
                Err(error) => code_of(&error),
            };
            let patience = if is_passing(error) {
                PATIENCE
            } else if self.failure(error, "").code == Code::TopicMissing {
                APPEARS_WITHIN
            } else {
                Duration::ZERO
            };
            if started.elapsed() + LOOK_EVERY >= patience {
                return Err(self.silence(reader, Complaints::default(), error));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn fetch(&self, reader: &Reader, end: i64, latest: &mut Latest<'_>) -> Result<(), Failure> {
        let mut complaints = Complaints::default();
        let mut deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match reader.next(left) {
                Some(Fetched::Record { offset, key, value }) => {
                    if offset < end {
                        latest.add(offset, key, value);
                    }
                    if offset + 1 >= end {
                        return Ok(());
                    }
                    deadline = Instant::now() + PATIENCE;
                }
                Some(Fetched::End) => return Ok(()),
                Some(Fetched::Complaint(error)) => {
                    let failure = self.failure(error.code, &error.text);
                    if let Code::TopicForbidden | Code::TopicMissing = failure.code {
                        return Err(failure);
                    }
                    complaints.add(error.code, failure);
                }
                None if left.is_zero() => {
                    return Err(self.silence(reader, complaints, E::OperationTimedOut));
                }
                None => {}
            }
        }
    }

    /// Why nothing comes: what the client complained of last, if it did.
    fn silence(&self, reader: &Reader, mut complaints: Complaints, error: E) -> Failure {
        let failure = self.failure(error, "");
        if failure.code != Code::KafkaUnreachable {
            return failure;
        }
        while let Some(fetched) = reader.next(Duration::ZERO) {
            if let Fetched::Complaint(error) = fetched {
                complaints.add(error.code, self.failure(error.code, &error.text));
            }
        }
        if complaints.health() == Health::Well {
            return failure;
        }
        complaints.unanswered(failure.clone());
        match complaints.health() {
            Health::Down(reason) => reason.clone(),
            Health::Well | Health::Suspect => failure,
        }
    }
}

/// The latest record of each key.
struct Latest<'p> {
    prefix: &'p [u8],
    by_key: HashMap<Vec<u8>, (i64, Vec<u8>)>,
}

impl Latest<'_> {
    fn add(&mut self, offset: i64, key: Option<Vec<u8>>, value: Option<Vec<u8>>) {
        let Some(key) = key.filter(|key| key.starts_with(self.prefix)) else { return };
        match value {
            Some(value) => drop(self.by_key.insert(key, (offset, value))),
            None => drop(self.by_key.remove(&key)),
        }
    }

    fn records(self) -> Vec<StateRecord> {
        let record = |(key, (offset, value))| StateRecord { key, value, offset };
        let mut records: Vec<_> = self.by_key.into_iter().map(record).collect();
        records.sort_unstable_by_key(|record| record.offset);
        records
    }
}

/// What a question about a partition's offsets meets while its leader is being found.
fn is_passing(error: E) -> bool {
    matches!(
        error,
        E::NotLeaderForPartition
            | E::LeaderNotAvailable
            | E::ReplicaNotAvailable
            | E::OffsetNotAvailable
            | E::FencedLeaderEpoch
            | E::UnknownLeaderEpoch
            | E::KafkaStorageError
    )
}
