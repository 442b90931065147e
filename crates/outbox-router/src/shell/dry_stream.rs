//! What the slot holds, as records that are shown instead of produced: a dry run over a temporary
//! copy of the slot.

use relay::{
    DryFrame, DryRun, Failure, Lsn, Record, TopicFacts, TopicId, TopicName, Transaction,
    source::TableOids,
};
use tokio::time::{Duration, Instant};

use super::{
    connect::{Source, SourceReading},
    slot_copy::{CopyFrame, SlotCopy},
};

/// WAL may end in the middle of a record, whose end no position of a frame names. The server has
/// decoded everything if it answers for so long that it is no further.
const AT_END_AFTER: Duration = Duration::from_secs(10);
/// So many answers are needed, since a server that is busy gives none.
const ANSWERS: u32 = 2;

/// See the module's header.
pub struct DryStream {
    copy: SlotCopy,
    run: DryRun,
    /// Everything before it was read.
    passed: Lsn,
    /// When the server began to say that it is no further, and how often it has said so.
    standstill: Instant,
    answers: u32,
}

impl Source {
    /// Reads slot, publication and tables, and opens a dry run over a copy of the slot.
    ///
    /// # Errors
    /// Those of [`Source::copy_slot`].
    pub(crate) async fn dry_stream(&self) -> Result<(DryStream, SourceReading), Failure> {
        let (copy, reading) = self.copy_slot().await?;
        let tables = TableOids::of(self.outboxes(), &reading.catalog, None);
        let stream = DryStream {
            copy,
            run: DryRun::new(self.outboxes().clone(), tables, self.row_bytes),
            passed: Lsn::ZERO,
            standstill: Instant::now(),
            answers: 0,
        };
        Ok((stream, reading))
    }
}

impl DryStream {
    /// The slot's `confirmed_flush_lsn` when it was copied; nothing that was committed before it
    /// comes.
    pub fn begins_at(&self) -> Lsn {
        self.copy.begins_at()
    }

    /// Everything before this position was read.
    pub fn passed(&self) -> Lsn {
        self.passed
    }

    /// Sends what is due, and waits up to `limit` for the next bytes. To be called at least every
    /// few seconds, also while nothing is to be read: otherwise the server ends the connection.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn fill(&mut self, limit: Duration) -> Result<(), Failure> {
        self.copy.fill(limit).await
    }

    /// The next frame that has arrived, or `None` until more arrives. After
    /// [`DryFrame::LookUpTopic`] the same frame comes again.
    ///
    /// # Errors
    /// The server ended the stream or violates the protocol.
    pub fn next(&mut self, take: impl FnOnce(&Record<'_>)) -> Result<Option<DryFrame>, Failure> {
        let frame = match self.copy.peek()? {
            None => return Ok(None),
            Some(CopyFrame::Whole(payload)) => self.run.frame(payload, take)?,
            Some(CopyFrame::Oversized { announced, prefix }) => {
                self.run.oversized(announced, prefix)?
            }
        };
        match frame {
            DryFrame::LookUpTopic(..) => return Ok(Some(frame)),
            DryFrame::Passed(position) if position <= self.passed => self.answers += 1,
            DryFrame::Passed(position) => {
                self.passed = position;
                self.copy.pass(position);
                self.expect_end();
            }
            DryFrame::Event | DryFrame::FilteredOut | DryFrame::Refused(..) | DryFrame::Other => {
                self.expect_end();
            }
        }
        self.copy.consume();
        Ok(Some(frame))
    }

    /// From now on it is observed anew whether the server is [at the end](Self::is_at_end). To be
    /// called after the end of WAL was asked for that is to be reached.
    pub fn expect_end(&mut self) {
        (self.standstill, self.answers) = (Instant::now(), 0);
    }

    /// Whether the server says again and again that it has decoded everything, although it is not
    /// where WAL ends.
    pub fn is_at_end(&self) -> bool {
        self.answers >= ANSWERS && self.standstill.elapsed() > AT_END_AFTER
    }

    /// The answer to [`DryFrame::LookUpTopic`].
    pub fn topic(&mut self, id: TopicId, facts: TopicFacts) {
        self.run.topic(id, facts);
    }

    /// The name of a topic, by the number in a record.
    pub fn topic_name(&self, id: TopicId) -> Option<&TopicName> {
        self.run.topic_name(id)
    }

    /// The transaction of the last frame.
    pub fn transaction(&self) -> Option<Transaction> {
        self.run.transaction()
    }

    /// Where the last frame lies in WAL.
    pub fn lsn(&self) -> Lsn {
        self.run.lsn()
    }
}
