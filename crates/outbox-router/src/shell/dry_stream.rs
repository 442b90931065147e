//! What the slot holds, as records that are shown instead of produced: a [`DryRun`] over a
//! temporary copy of the slot. Commands use [`DryStream`]; `slot_copy` is its connection.

use relay::{
    DryFrame, DryRun, Failure, Lsn, Record, TopicFacts, TopicId, TopicName, Transaction,
    source::TableOids,
};
use tokio::time::{Duration, Instant};

use super::{
    command_stream::CommandFrame,
    connect::{Source, SourceReading},
    slot_copy::SlotCopy,
};

/// The server has decoded everything if it answers for so long that it is no further. Its answer
/// names the end of the last record that it has decoded (`sentPtr`, set by `XLogSendLogical` in
/// PostgreSQL's walsender.c). WAL may end past that, in the middle of a record or in padding, and
/// no frame names such an end.
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
    no_further_since: Instant,
    answers: u32,
}

impl Source {
    /// Reads slot, publication and tables, and opens a dry run over a copy of the slot.
    ///
    /// # Errors
    /// Those of [`Source::copy_slot`].
    pub(crate) async fn dry_stream(&self) -> Result<(DryStream, SourceReading), Failure> {
        let (copy, reading) = self.copy_slot().await?;
        let tables = TableOids::of(&self.outboxes, &reading.catalog, None);
        let stream = DryStream {
            copy,
            run: DryRun::new(self.outboxes.clone(), tables, self.row_bytes),
            passed: Lsn::ZERO,
            no_further_since: Instant::now(),
            answers: 0,
        };
        Ok((stream, reading))
    }
}

impl DryStream {
    /// The slot's `confirmed_flush_lsn` when it was read, shortly before it was copied; the copy
    /// may begin later. Nothing that was committed before it comes.
    pub fn begins_at(&self) -> Lsn {
        self.copy.begins_at
    }

    /// Everything before this position was read.
    pub fn passed(&self) -> Lsn {
        self.passed
    }

    /// Sends what is due, and waits up to `limit` for the next bytes. To be called within an hour,
    /// also while nothing is to be read: otherwise the server ends the connection.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn fill(&mut self, limit: Duration) -> Result<(), Failure> {
        self.copy.stream.fill(limit).await
    }

    /// The next frame that has arrived, or `None` until more arrives. After
    /// [`DryFrame::LookUpTopic`] the same frame comes again.
    ///
    /// # Errors
    /// The server ended the stream or violates the protocol.
    pub fn next(&mut self, take: impl FnOnce(&Record<'_>)) -> Result<Option<DryFrame>, Failure> {
        let frame = match self.copy.stream.peek()? {
            None => return Ok(None),
            Some(CommandFrame::Whole(payload)) => self.run.frame(payload, take)?,
            Some(CommandFrame::Oversized { announced, prefix }) => {
                self.run.oversized(announced, prefix)?
            }
        };
        match frame {
            DryFrame::LookUpTopic(..) => return Ok(Some(frame)),
            DryFrame::Passed(position) if position <= self.passed => self.answers += 1,
            DryFrame::Passed(position) => {
                self.passed = position;
                self.copy.stream.pass(position);
                self.restart_wait();
            }
            DryFrame::Event | DryFrame::FilteredOut | DryFrame::Refused(..) | DryFrame::Other => {
                self.restart_wait();
            }
        }
        self.copy.stream.consume();
        Ok(Some(frame))
    }

    /// Begins anew to count the answers that tell of [the end](Self::is_at_end). To be called when
    /// the end of WAL was read up to which the stream is to be followed.
    pub fn restart_wait(&mut self) {
        (self.no_further_since, self.answers) = (Instant::now(), 0);
    }

    /// Whether the server says again and again that it has decoded everything, although it is not
    /// where WAL ends.
    pub fn is_at_end(&self) -> bool {
        self.answers >= ANSWERS && self.no_further_since.elapsed() > AT_END_AFTER
    }

    /// The answer to [`DryFrame::LookUpTopic`].
    pub fn topic(&mut self, id: TopicId, facts: TopicFacts) {
        self.run.topic(id, facts);
    }

    /// The name of a topic, by the number in a record.
    pub fn topic_name(&self, id: TopicId) -> Option<&TopicName> {
        self.run.topic_name(id)
    }

    /// The transaction that is open.
    pub fn transaction(&self) -> Option<Transaction> {
        self.run.transaction()
    }

    /// Where the last frame lies in WAL.
    pub fn lsn(&self) -> Lsn {
        self.run.lsn()
    }
}
