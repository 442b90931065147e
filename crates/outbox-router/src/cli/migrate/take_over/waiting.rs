//! The events that the slot has still to send: how many, to which topics, and whether `run` would
//! stop at one. They are read from a temporary copy of the slot, which itself stays where it is.

use std::{collections::BTreeSet, time::Duration};

use relay::{DryFrame, Failure, TopicFacts, TopicName};

use super::tally::{Delivered, RowKind, Tally};
use crate::{
    cli::{connect::Access, topic_lookups::TopicLookups},
    config::Config,
    prepare,
    republish::sender::UNKNOWN,
    shell::DryStream,
};

/// A person waits for the command.
const TIMEOUT: Duration = Duration::from_mins(2);

/// How long to wait for more to arrive before looking again.
const PAUSE: Duration = Duration::from_millis(100);

/// What waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Events that the slot has still to send.
    pub(super) all: u64,
    /// Those of them that were delivered.
    pub(super) delivered: u64,
    /// The topics that they go to.
    pub(super) topics: BTreeSet<TopicName>,
    /// The first row at which `run` would stop.
    pub(super) refused: Option<Failure>,
}

/// Reads what the slot has still to send, up to the present end of WAL.
///
/// # Errors
/// The slot cannot be copied, or there is too much to read.
pub(super) async fn read(
    config: &Config,
    access: Access<'_>,
    delivered: Delivered,
) -> Result<Waiting, String> {
    match tokio::time::timeout(TIMEOUT, Box::pin(read_all(config, access, delivered))).await {
        Ok(read) => read.map_err(|failure| format!("{failure:#}")),
        Err(_) => Err(format!("not all of it was read within {} s", TIMEOUT.as_secs())),
    }
}

async fn read_all(
    config: &Config,
    access: Access<'_>,
    delivered: Delivered,
) -> Result<Waiting, Failure> {
    let source = prepare::source(config, access.endpoint("migrate")?);
    let (stream, reading) = source.dry_stream().await?;
    let end = reading.server.wal_end;
    let mut reader = Reader {
        stream,
        tally: Tally::new(delivered),
        lookups: TopicLookups::open(config).ok(),
        topics: BTreeSet::new(),
        refused: None,
    };
    while reader.stream.passed() < end && !reader.stream.is_at_end() {
        if !reader.read_frame()? {
            reader.stream.fill(PAUSE).await?;
        }
    }
    let Reader { tally: Tally { all, delivered, .. }, topics, refused, .. } = reader;
    Ok(Waiting { all, delivered, topics, refused })
}

struct Reader {
    stream: DryStream,
    tally: Tally,
    /// `None` where Kafka does not answer: it is not waited for again.
    lookups: Option<TopicLookups>,
    topics: BTreeSet<TopicName>,
    refused: Option<Failure>,
}

impl Reader {
    /// Reads the next frame. Returns whether one has arrived.
    fn read_frame(&mut self) -> Result<bool, Failure> {
        let Some(frame) = self.stream.next(|_| ())? else { return Ok(false) };
        let lsn = self.stream.lsn();
        match frame {
            // The same frame comes again.
            DryFrame::LookUpTopic(id, name) => {
                let facts = self.facts(&name);
                self.stream.topic(id, facts);
                self.topics.insert(name);
            }
            DryFrame::Event => self.tally.row(lsn, RowKind::Event),
            DryFrame::FilteredOut => self.tally.row(lsn, RowKind::FilteredOut),
            DryFrame::Other => self.tally.other(lsn),
            DryFrame::Refused(failure, _) => {
                self.refused.get_or_insert(*failure);
                self.tally.row(lsn, RowKind::Event);
            }
            DryFrame::Passed(position) => self.tally.passed(position),
        }
        Ok(true)
    }

    /// Kafka is asked until it does not answer; the step of the topics says why.
    fn facts(&mut self, name: &TopicName) -> TopicFacts {
        let Some(lookups) = &self.lookups else { return UNKNOWN };
        let Ok(topic) = lookups.look_up(name) else {
            self.lookups = None;
            return UNKNOWN;
        };
        topic.facts()
    }
}
