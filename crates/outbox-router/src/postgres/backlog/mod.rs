//! Reads a backlog by SQL, in place of the walsender.
//!
//! A walsender sends each message by itself, so a backlog of small transactions costs it, and us,
//! a packet for each. A backend that answers COPY fills its buffer first, and needs less time for
//! the same messages (docs/performance-log.md has the figures). They come from
//! `pg_logical_slot_get_binary_changes` on a temporary copy of the slot, in batches, up to a
//! position at which the walsender, which holds the slot meanwhile, has begun: START_REPLICATION
//! with a position past the slot's own sends the transactions whose commit record starts at it or
//! after it, and leaves the slot where it is (`SnapBuildXactNeedsSkip` in PostgreSQL's snapbuild.c,
//! `CreateDecodingContext` in logical.c). So the two parts are the whole, and share nothing.
//!
//! A backend decodes a whole batch before it sends the first row of it. So there are two, of which
//! one decodes a batch while the other sends the one before; where the server has no second
//! connection or slot, there is one, which does the one after the other.
//!
//! Only the positions that the router confirms move the slot: what is read here moves the copies.

mod batches;
mod reader;
mod row;

use std::io;
use std::task::{Context, Poll};
use std::time::SystemTime;

use pgoutput::{Lsn, PgTimestamp};

pub use self::batches::{BatchLimits, CopiedSlot};
use self::reader::Reader;
pub use self::reader::SlotCopyOwner;
use self::row::{NoRow, Row};
use super::frames::Head;
use super::link::{Fill, Link};
use super::reply::Reply;
use super::{ProtocolError, ServerMessage};
use crate::timestamp::timestamp;

const DOING: &str = "reading a backlog by SQL";

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A frame: [`Backlog::frame`].
    Frame,
    /// The beginning of a frame larger than `row_bytes`: [`Backlog::frame`]; with the length of the
    /// whole.
    Oversized { announced: usize },
    /// Nothing until more was read.
    Nothing,
    /// Everything before the position was read.
    End,
    /// A notice or warning, to be consumed as a frame is.
    Notice(ServerMessage),
    /// The server refused.
    Error(ServerMessage),
    /// The server closed the connection.
    Closed,
}

/// A rewritten row.
#[derive(Debug, Clone, Copy)]
struct Shown {
    /// Where its frame begins in the body of the message.
    begins_at: usize,
    /// The length of the message, if it is larger than `row_bytes`.
    announced: Option<usize>,
}

impl Shown {
    fn next(self) -> Next {
        match self.announced {
            None => Next::Frame,
            Some(announced) => Next::Oversized { announced: announced - self.begins_at },
        }
    }
}

/// What is left of the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Some,
    None,
}

/// How far the answer to a batch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The server decodes, and before that makes a copy.
    Awaited,
    /// It has decoded: the copy stands at the end of the batch.
    Begun,
}

/// See the module's header.
#[derive(Debug)]
pub struct Backlog {
    /// Whose batch is read.
    reader: Reader,
    /// Whose batch is the next, if there are two.
    other: Option<Reader>,
    /// The walsender begins here.
    until: Lsn,
    /// How far the present batch has come.
    answer: Answer,
    /// Where the copies stand: behind the last batch that was read.
    position: Lsn,
    /// Whether everything before `until` was read.
    rest: Rest,
    /// The row at the front of the buffer, once it is rewritten.
    shown: Option<Shown>,
    /// When bytes were last read: a backend does not say when it sent them.
    read_at: PgTimestamp,
}

impl Backlog {
    /// Reads what the copy of the slot has that `owner` made, between its own position and `until`;
    /// in turns with `other`.
    #[must_use]
    pub fn new(
        owner: SlotCopyOwner,
        other: Option<SlotCopyOwner>,
        publications: &[&str],
        until: Lsn,
        limits: BatchLimits,
    ) -> Self {
        let position = owner.copy.begins_at;
        let statement = |copy: &CopiedSlot, from: Option<&CopiedSlot>| {
            let from = from.map(|copy| copy.name.as_str());
            batches::statement(&copy.name, from, publications, until, limits)
        };
        let first = statement(&owner.copy, None);
        let (mut reader, other) = match other {
            None => (Reader::new(owner, first.clone()), None),
            Some(other) => {
                let own = statement(&owner.copy, Some(&other.copy));
                let others = statement(&other.copy, Some(&owner.copy));
                (Reader::new(owner, own), Some(Reader::new(other, others)))
            }
        };
        reader.ask(&first);
        let mut backlog = Self {
            reader,
            other,
            until,
            answer: Answer::Awaited,
            position,
            rest: Rest::Some,
            shown: None,
            read_at: PgTimestamp::from_micros(0),
        };
        if backlog.other.is_none() {
            backlog.reader.ask_next();
        }
        backlog
    }

    /// The walsender begins here: everything before it is read.
    #[must_use]
    pub fn until(&self) -> Lsn {
        self.until
    }

    pub(super) fn link(&self) -> &Link {
        &self.reader.link
    }

    /// What comes next, without any I/O. Shows the same again until [`Self::consume`].
    ///
    /// # Errors
    /// The server violates the protocol.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Next, ProtocolError> {
        loop {
            if let Some(shown) = self.shown {
                return Ok(shown.next());
            }
            let announced = match self.reader.link.frames.head()? {
                Some(Head::Whole { tag: b'd' }) => None,
                Some(Head::Oversized { announced }) => Some(announced),
                Some(Head::Whole { tag }) => match self.control(tag)? {
                    Some(next) => return Ok(next),
                    None => continue,
                },
                None if self.reader.link.is_closed() => return Ok(Next::Closed),
                None => return Ok(Next::Nothing),
            };
            self.begin_answer();
            let body = self.reader.link.frames.body_mut();
            let length = announced.unwrap_or(body.len());
            match row::rewrite(body, length, self.read_at) {
                Ok(Row::Change { begins_at }) => {
                    self.shown = Some(Shown { begins_at, announced });
                }
                Ok(Row::Trailer) => self.reader.link.frames.consume(),
                Err(NoRow) => return Err(ProtocolError::Malformed { tag: 'd', doing: DOING }),
            }
        }
    }

    /// The frame that [`Self::next`] showed.
    #[inline]
    pub(super) fn frame(&self) -> &[u8] {
        let begins_at = self.shown.map_or(0, |shown| shown.begins_at);
        self.reader.link.frames.body().get(begins_at..).unwrap_or_default()
    }

    /// Steps past what [`Self::next`] showed.
    #[inline]
    pub(super) fn consume(&mut self) {
        self.shown = None;
        self.reader.link.frames.consume();
    }

    /// A row has come, or the end of the rows: so the copy stands at the end of the batch, and the
    /// other backend can go on from there.
    #[inline]
    fn begin_answer(&mut self) {
        if self.answer == Answer::Awaited {
            self.answer = Answer::Begun;
            if let Some(other) = &mut self.other {
                other.ask_next();
            }
        }
    }

    /// A message that has no row: shows it, or steps past it.
    #[cold]
    fn control(&mut self, tag: u8) -> Result<Option<Next>, ProtocolError> {
        match tag {
            b'E' => return Ok(Some(Next::Error(self.message()))),
            b'N' => return Ok(Some(Next::Notice(self.message()))),
            b'D' => self.take_position()?,
            b'Z' if self.rest == Rest::None => return Ok(Some(Next::End)),
            b'Z' => {
                self.reader.link.frames.consume();
                self.take_turns();
                return Ok(None);
            }
            // CopyOutResponse, CopyDone, RowDescription, CommandComplete, and what may come at any
            // time.
            b'H' | b'c' | b'T' | b'C' | b'S' | b'A' => {}
            _ => return Err(ProtocolError::Unexpected { tag: char::from(tag), doing: DOING }),
        }
        self.reader.link.frames.consume();
        Ok(None)
    }

    fn message(&self) -> ServerMessage {
        ServerMessage::parse(self.reader.link.frames.body())
    }

    /// A batch was read: the next is the other's.
    fn take_turns(&mut self) {
        self.answer = Answer::Awaited;
        match &mut self.other {
            Some(other) => std::mem::swap(&mut self.reader, other),
            None => self.reader.ask_next(),
        }
    }

    /// Takes a value that is no row of the backlog: where a new copy begins, or where a copy stands
    /// after a batch. Dropping the former copy has an empty one.
    fn take_position(&mut self) -> Result<(), ProtocolError> {
        let malformed = ProtocolError::Malformed { tag: 'D', doing: DOING };
        let shown = self.reader.link.frames.shown_bytes();
        let Reply::Row(values) = Reply::parse(shown, DOING)? else { return Err(malformed) };
        let value = values.into_iter().next().flatten();
        if value.as_deref() == Some("") && self.answer == Answer::Awaited {
            return Ok(());
        }
        let position: Lsn = value.and_then(|lsn| lsn.parse().ok()).ok_or(malformed)?;
        match self.answer {
            Answer::Begun => self.moved_to(position),
            // Elsewhere, transactions would be missing, or come twice.
            Answer::Awaited if position != self.position => {
                return Err(ProtocolError::Malformed { tag: 'D', doing: DOING });
            }
            Answer::Awaited => {}
        }
        Ok(())
    }

    /// The copy stands at `position` after a batch. Where a batch has not moved it, nothing that is
    /// flushed lies between it and the end.
    fn moved_to(&mut self, position: Lsn) {
        if position >= self.until || position == self.position {
            self.rest = Rest::None;
        }
        self.position = position;
    }

    /// Reads what has arrived, and before that sends what is asked.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Fill>> {
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        self.note_time();
        self.reader.link.poll_fill(cx)
    }

    pub(super) fn fill_now(&mut self) -> usize {
        self.note_time();
        self.reader.link.fill_now()
    }

    /// Sends what is asked, on both connections.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let others = match &mut self.other {
            Some(other) => other.link.poll_flush(cx)?,
            None => Poll::Ready(()),
        };
        let own = self.reader.link.poll_flush(cx)?;
        if own.is_ready() && others.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn note_time(&mut self) {
        self.read_at = timestamp(SystemTime::now());
    }
}

#[cfg(test)]
mod tests;
