//! Reads the state topic from its beginning to its end, or on from where an earlier read ended.

use std::{thread, time::Duration};

use rdkafka::{types::RDKafkaErrorCode as E, util::Timeout};
use relay::{Case, Code, Failure};
use tokio::time::Instant;

use super::{
    PARTITION, StateTopic,
    content::StateLog,
    records::{Progress, Reading},
};
use crate::kafka::{
    ffi::{Fetched, Reader},
    health::{ClientErrors, Health},
    topics::code_of,
};

/// How long the cluster may be silent during a read: as long as any other request may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a missing topic is asked for again after the first answer that it is missing. For some
/// 100 ms after its creation a topic has no leader, or is unknown to the broker that is asked.
const APPEARS_WITHIN: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The result of fetching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchOutcome {
    Whole,
    AnotherLog,
}

impl StateTopic {
    /// Reads the latest record of each key that begins with `prefix`, between the present beginning
    /// and end of the topic. A key whose latest record has no value is left out.
    ///
    /// Each call makes a new connection, so the cluster's id is that of the cluster that answers
    /// now. A producer's client keeps the id of its latest metadata, and its connections to a
    /// former cluster for as long as they last.
    ///
    /// # Errors
    /// [`Code::KafkaUnreachable`] when no broker answers for some seconds, or the log changes
    /// during the read; or the topic is missing or forbidden.
    pub fn read(&self, prefix: &[u8]) -> Result<StateLog, Failure> {
        let reader = self.reader()?;
        let (begin, end) = self.watermarks(&reader)?;
        let cluster_id = cluster_id(&reader);
        let mut reading = Reading::from_start(prefix, end);
        if begin < end && self.fetch(reader, begin, end, &mut reading)? == FetchOutcome::AnotherLog
        {
            let name = &self.name;
            let what =
                format!("the state topic {name} was truncated or re-created while it was read");
            return Err(Failure::of(Case::StateTopicUnread, what));
        }
        let (records, last) = reading.found();
        Ok(StateLog { cluster_id, begin, end, records, last })
    }

    /// The id of the cluster that answers now, by a new connection, as [`StateTopic::read`] finds
    /// it; empty where the brokers do not report one.
    ///
    /// # Errors
    /// The settings are refused.
    pub fn cluster_id(&self) -> Result<String, Failure> {
        Ok(cluster_id(&self.reader()?))
    }

    /// As [`StateTopic::read`], given `known`, an earlier result for the same prefix: reads only
    /// what is new, or everything where the log may not be the one that was read then.
    ///
    /// # Errors
    /// As [`StateTopic::read`].
    pub fn read_on(&self, prefix: &[u8], known: &StateLog) -> Result<StateLog, Failure> {
        let Some(anchor) = known.last else { return self.read(prefix) };
        let reader = self.reader()?;
        let (begin, end) = self.watermarks(&reader)?;
        let cluster_id = cluster_id(&reader);
        // A moved beginning means that records were deleted there, and `known` may still hold them.
        if begin == known.begin && end >= known.end && cluster_id == known.cluster_id {
            let mut reading = Reading::on(prefix, end, &known.records, anchor);
            if self.fetch(reader, anchor.offset, end, &mut reading)? == FetchOutcome::Whole {
                let (records, last) = reading.found();
                return Ok(StateLog { cluster_id, begin, end, records, last });
            }
        }
        tracing::debug!(topic = %self.name, "the state topic is not what it was, or has holes: it is read from its beginning");
        self.read(prefix)
    }

    fn reader(&self) -> Result<Reader, Failure> {
        let config = self
            .settings
            .reader_config()
            .map_err(|refused| Failure::of(Case::ProducerSettings, refused.to_string()))?;
        Reader::open(&config).map_err(|error| self.failure(code_of(&error), &error.to_string()))
    }

    fn watermarks(&self, reader: &Reader) -> Result<(i64, i64), Failure> {
        let started = Instant::now();
        let mut missing_since = None;
        loop {
            let left = READ_TIMEOUT.saturating_sub(started.elapsed());
            let answer = reader.client().fetch_watermarks(
                self.name.as_str(),
                PARTITION,
                Timeout::After(left),
            );
            let error = match answer {
                Ok(watermarks) => return Ok(watermarks),
                Err(error) => self.offsets_error(reader.client(), &error),
            };
            let left = if is_passing(error) {
                READ_TIMEOUT.saturating_sub(started.elapsed())
            } else if self.failure(error, "").code == Code::TopicMissing {
                let since = missing_since.get_or_insert_with(Instant::now);
                APPEARS_WITHIN.saturating_sub(since.elapsed())
            } else {
                Duration::ZERO
            };
            if left <= POLL_INTERVAL {
                return Err(self.silence(reader, ClientErrors::default(), error));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn fetch(
        &self,
        mut reader: Reader,
        from: i64,
        end: i64,
        reading: &mut Reading<'_>,
    ) -> Result<FetchOutcome, Failure> {
        let topic = reader
            .add(&self.name)
            .map_err(|error| self.failure(code_of(&error), &error.to_string()))?;
        reader.start(topic, PARTITION, from).map_err(|error| self.failure(error, ""))?;
        let mut client_errors = ClientErrors::default();
        let mut deadline = Instant::now() + READ_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let progress = match reader.next(left) {
                Some(Fetched::Record(record)) => {
                    deadline = Instant::now() + READ_TIMEOUT;
                    reading.record(record)
                }
                Some(Fetched::End { offset, .. }) => reading.ends(offset),
                Some(Fetched::Error(error)) => {
                    let failure = self.failure(error.code, &error.text);
                    if let Code::TopicForbidden | Code::TopicMissing = failure.code {
                        return Err(failure);
                    }
                    client_errors.add(error.code, failure);
                    Progress::More
                }
                None if left.is_zero() => {
                    return Err(self.silence(&reader, client_errors, E::OperationTimedOut));
                }
                None => Progress::More,
            };
            match progress {
                Progress::More => {}
                Progress::Done => return Ok(FetchOutcome::Whole),
                Progress::AnotherLog => return Ok(FetchOutcome::AnotherLog),
                // A leader that was just elected may not know yet that its last records are
                // committed, and sends them as soon as it does. To accept its end of the log would
                // miss them.
                Progress::EndsEarly if self.watermarks(&reader)?.1 >= end => {}
                Progress::EndsEarly => return Ok(FetchOutcome::AnotherLog),
            }
        }
    }

    /// Why no broker answers: the client's most informative error, if there is one.
    fn silence(&self, reader: &Reader, mut client_errors: ClientErrors, error: E) -> Failure {
        let failure = self.failure(error, "");
        if failure.code != Code::KafkaUnreachable {
            return failure;
        }
        while let Some(fetched) = reader.next(Duration::ZERO) {
            if let Fetched::Error(error) = fetched {
                client_errors.add(error.code, self.failure(error.code, &error.text));
            }
        }
        if client_errors.health() == Health::Well {
            return failure;
        }
        client_errors.unanswered(failure.clone());
        match client_errors.health() {
            Health::Down(reason) => reason.clone(),
            Health::Well | Health::Suspect => failure,
        }
    }
}

/// The id of the cluster that answers now; empty where the brokers do not report one.
fn cluster_id(reader: &Reader) -> String {
    reader.client().fetch_cluster_id(Timeout::After(READ_TIMEOUT)).unwrap_or_default()
}

/// Whether the error is one that a request for offsets gets while the partition's leader is being
/// found.
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
