//! The events that the slot has still to send: how many, to which topics, and whether `run` would
//! stop at one. They are read from a temporary copy of the slot, which itself stays where it is.

use std::{collections::BTreeSet, num::NonZeroI32, time::Duration};

use pgoutput::Frame;
use relay::{DryFrame, DryRun, Failure, Lsn, TopicFacts, TopicName};

use super::tally::{Delivered, RowKind, Tally};
use crate::{
    cli::connect::Access,
    config::Config,
    prepare,
    shell::{CopyFrame, SlotCopy},
};

/// Someone waits for the count.
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
    let (mut copy, reading) = source.copy_slot().await?;
    let tables = source.table_oids(&reading);
    let mut reader = Reader {
        run: DryRun::new(source.outboxes().clone(), tables, source.row_bytes),
        tally: Tally::new(delivered),
        topics: BTreeSet::new(),
        refused: None,
    };
    let end = reading.slot_reading.current_wal_lsn;
    let mut passed = Lsn::ZERO;
    while passed < end {
        match reader.next(&mut copy)? {
            Next::Passed(position) => {
                passed = position;
                copy.pass(position);
            }
            Next::Read => {}
            Next::Empty => copy.fill(PAUSE).await?,
        }
    }
    let Reader { tally: Tally { all, delivered, .. }, topics, refused, .. } = reader;
    Ok(Waiting { all, delivered, topics, refused })
}

struct Reader {
    run: DryRun,
    tally: Tally,
    topics: BTreeSet<TopicName>,
    refused: Option<Failure>,
}

/// What was read.
enum Next {
    /// Nothing has arrived.
    Empty,
    /// A frame.
    Read,
    /// A frame, and everything before this position.
    Passed(Lsn),
}

impl Reader {
    fn next(&mut self, copy: &mut SlotCopy) -> Result<Next, Failure> {
        let (position, frame) = match copy.peek()? {
            None => return Ok(Next::Empty),
            Some(CopyFrame::Whole(payload)) => {
                (position(payload)?, self.run.frame(payload, |_| ())?)
            }
            Some(CopyFrame::Oversized { announced, prefix }) => {
                (position(prefix)?, self.run.oversized(announced, prefix)?)
            }
        };
        let step = match frame {
            // The same frame is offered again. Its partition does not matter here.
            DryFrame::LookUpTopic(id, name) => {
                let facts = TopicFacts { partitions: NonZeroI32::MIN, max_message_bytes: None };
                self.run.topic(id, facts);
                self.topics.insert(name);
                return Ok(Next::Read);
            }
            DryFrame::Event => self.row(position, RowKind::Event),
            DryFrame::FilteredOut => self.row(position, RowKind::LeftOut),
            DryFrame::Other => {
                self.tally.other(position);
                Next::Read
            }
            DryFrame::Refused(failure, _) => {
                self.refused.get_or_insert(*failure);
                self.row(position, RowKind::Event)
            }
            DryFrame::Passed(position) => {
                self.tally.passed(position);
                Next::Passed(position)
            }
        };
        copy.consume();
        Ok(step)
    }

    fn row(&mut self, position: Lsn, kind: RowKind) -> Next {
        self.tally.row(position, kind);
        Next::Read
    }
}

/// Where the WAL record lies that a frame comes from.
fn position(payload: &[u8]) -> Result<Lsn, Failure> {
    Ok(match Frame::parse(payload)? {
        Frame::XLogData(data) => data.wal_start,
        Frame::Keepalive(_) => Lsn::ZERO,
    })
}
