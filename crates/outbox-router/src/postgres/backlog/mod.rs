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
//! Only the positions that the router confirms move the slot: what is read here moves the copy.

mod batches;
mod row;

use std::io;
use std::task::{Context, Poll};
use std::time::SystemTime;

use pgoutput::{Lsn, PgTimestamp};
use postgres_protocol::message::frontend;

use self::batches::statement;
pub use self::batches::{BatchLimits, CopiedSlot};
use self::row::{NoRow, Row};
use super::frames::Head;
use super::link::{Fill, Link};
use super::reply::Reply;
use super::{ProtocolError, ServerMessage};
use crate::timestamp::timestamp;

const DOING: &str = "reading a backlog by SQL";

/// How many batches are asked for at a time, so that the server decodes one while it is read what
/// it has sent of the other.
const ASKED: usize = 2;

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

/// See the module's header.
#[derive(Debug)]
pub struct Backlog {
    link: Link,
    /// The walsender begins here.
    until: Lsn,
    /// Reads a batch.
    statement: String,
    /// How many batches are asked for, and not complete.
    asked: usize,
    /// Where the copy stands.
    position: Lsn,
    /// Whether everything before `until` was read.
    rest: Rest,
    /// The row at the front of the buffer, once it is rewritten.
    shown: Option<Shown>,
    /// When bytes were last read: a backend does not say when it sent them.
    read_at: PgTimestamp,
}

impl Backlog {
    /// Reads what the slot `copy`, which this session owns, has between its own position and
    /// `until`.
    pub(super) fn new(
        link: Link,
        copy: &CopiedSlot,
        publications: &[&str],
        until: Lsn,
        limits: BatchLimits,
    ) -> Self {
        let mut backlog = Self {
            link,
            until,
            statement: statement(copy, publications, until, limits),
            asked: 0,
            position: copy.begins_at,
            rest: Rest::Some,
            shown: None,
            read_at: PgTimestamp::from_micros(0),
        };
        backlog.ask();
        backlog
    }

    /// The walsender begins here: everything before it is read.
    #[must_use]
    pub fn until(&self) -> Lsn {
        self.until
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    fn ask(&mut self) {
        while self.asked < ASKED {
            // A statement has no zero byte, the one thing that this refuses.
            if frontend::query(&self.statement, &mut self.link.out).is_err() {
                return;
            }
            self.asked += 1;
        }
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
            let announced = match self.link.frames.head()? {
                Some(Head::Whole { tag: b'd' }) => None,
                Some(Head::Oversized { announced }) => Some(announced),
                Some(Head::Whole { tag }) => match self.control(tag)? {
                    Some(next) => return Ok(next),
                    None => {
                        self.link.frames.consume();
                        continue;
                    }
                },
                None if self.link.is_closed() => return Ok(Next::Closed),
                None => return Ok(Next::Nothing),
            };
            let body = self.link.frames.body_mut();
            let length = announced.unwrap_or(body.len());
            match row::rewrite(body, length, self.read_at) {
                Ok(Row::Change { begins_at }) => {
                    self.shown = Some(Shown { begins_at, announced });
                }
                Ok(Row::Trailer) => self.link.frames.consume(),
                Err(NoRow) => return Err(ProtocolError::Malformed { tag: 'd', doing: DOING }),
            }
        }
    }

    /// The frame that [`Self::next`] showed.
    #[inline]
    pub(super) fn frame(&self) -> &[u8] {
        let begins_at = self.shown.map_or(0, |shown| shown.begins_at);
        self.link.frames.body().get(begins_at..).unwrap_or_default()
    }

    /// Steps past what [`Self::next`] showed.
    #[inline]
    pub(super) fn consume(&mut self) {
        self.shown = None;
        self.link.frames.consume();
    }

    /// A message that has no row.
    #[cold]
    fn control(&mut self, tag: u8) -> Result<Option<Next>, ProtocolError> {
        match tag {
            b'E' => Ok(Some(Next::Error(ServerMessage::parse(self.link.frames.body())))),
            b'N' => Ok(Some(Next::Notice(ServerMessage::parse(self.link.frames.body())))),
            b'D' => {
                self.moved_to(self.copy_position()?);
                Ok(None)
            }
            b'Z' if self.rest == Rest::None => Ok(Some(Next::End)),
            b'Z' => {
                self.asked = self.asked.saturating_sub(1);
                self.ask();
                Ok(None)
            }
            // CopyOutResponse, CopyDone, RowDescription, CommandComplete, and what may come at any
            // time.
            b'H' | b'c' | b'T' | b'C' | b'S' | b'A' => Ok(None),
            _ => Err(ProtocolError::Unexpected { tag: char::from(tag), doing: DOING }),
        }
    }

    /// The copy stands at `position` after a batch. Where a batch has not moved it, nothing that is
    /// flushed lies between it and the end.
    fn moved_to(&mut self, position: Lsn) {
        if position >= self.until || position == self.position {
            self.rest = Rest::None;
        }
        self.position = position;
    }

    /// The answer to the second half of the statement.
    fn copy_position(&self) -> Result<Lsn, ProtocolError> {
        let malformed = ProtocolError::Malformed { tag: 'D', doing: DOING };
        let Reply::Row(values) = Reply::parse(self.link.frames.shown_bytes(), DOING)? else {
            return Err(malformed);
        };
        let value = values.into_iter().next().flatten();
        value.and_then(|lsn| lsn.parse().ok()).ok_or(malformed)
    }

    /// Reads what has arrived, and before that sends what is asked.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Fill>> {
        if let Poll::Ready(Err(error)) = self.link.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        self.note_time();
        self.link.poll_fill(cx)
    }

    pub(super) fn fill_now(&mut self) -> usize {
        self.note_time();
        self.link.fill_now()
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_flush(cx)
    }

    fn note_time(&mut self) {
        self.read_at = timestamp(SystemTime::now());
    }
}

#[cfg(test)]
mod tests;
