//! Reads a backlog by SQL, in place of the walsender.
//!
//! A walsender sends each message by itself, so a backlog of small transactions costs it, and us,
//! a packet for each. A backend that answers COPY fills its buffer first, and needs a third of the
//! time for the same messages (docs/performance-log.md has the figures). They come from
//! `pg_logical_slot_get_binary_changes` on a temporary copy of the slot, in batches, up to a
//! position at which the walsender, which holds the slot meanwhile, has begun: START_REPLICATION
//! with a position past the slot's own sends the transactions whose commit record starts at it or
//! after it, and leaves the slot where it is (`SnapBuildXactNeedsSkip` in PostgreSQL's snapbuild.c,
//! `CreateDecodingContext` in logical.c). So the two parts are the whole, and share nothing.
//!
//! Only the positions that the router confirms move the slot: what is read here moves the copy.
//! Two batches are asked for at a time, so that the server decodes one while it is read what it has
//! sent of the other.

mod row;

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};
use std::time::SystemTime;

use pgoutput::{Lsn, PgTimestamp};
use postgres_protocol::message::frontend;

use self::row::{NoRow, Row};
use super::frames::Head;
use super::link::{Fill, Link};
use super::quote::{publication_names_literal, quote_literal};
use super::{ProtocolError, ServerMessage};

const DOING: &str = "reading a backlog by SQL";

/// How many batches are asked for at a time.
const BATCHES: usize = 2;

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

/// See the module's header.
#[derive(Debug)]
pub struct Backlog {
    link: Link,
    /// The walsender begins here.
    until: Lsn,
    /// How many changes a batch has.
    changes: u32,
    statement: String,
    /// How many rows of each batch that was asked for have come, the batch that is being read first.
    asked: VecDeque<u32>,
    /// The row at the front of the buffer, once it is rewritten.
    shown: Option<Shown>,
    /// When bytes were last read: a backend does not say when it sent them.
    read_at: PgTimestamp,
}

impl Backlog {
    /// Reads what the slot `copy`, which this session owns, has before `until`.
    pub(super) fn new(
        link: Link,
        copy: &str,
        publications: &[&str],
        until: Lsn,
        changes: u32,
    ) -> Self {
        let statement = format!(
            "copy (select lsn, xid, data from pg_catalog.pg_logical_slot_get_binary_changes( \
               {}, {}, {changes}, 'proto_version', '1', 'publication_names', {})) \
             to stdout (format binary)",
            quote_literal(copy),
            quote_literal(&until.to_string()),
            publication_names_literal(publications)
        );
        let mut backlog = Self {
            link,
            until,
            changes,
            statement,
            asked: VecDeque::new(),
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
        while self.asked.len() < BATCHES {
            // A statement has no zero byte, the one thing that this refuses.
            if frontend::query(&self.statement, &mut self.link.out).is_err() {
                return;
            }
            self.asked.push_back(0);
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
                    if let Some(rows) = self.asked.front_mut() {
                        *rows = rows.saturating_add(1);
                    }
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

    /// A message that has no row. A batch with fewer changes than were asked for is the last: the
    /// server stops at so many, or at the position.
    #[cold]
    fn control(&mut self, tag: u8) -> Result<Option<Next>, ProtocolError> {
        match tag {
            b'E' => Ok(Some(Next::Error(ServerMessage::parse(self.link.frames.body())))),
            b'Z' => {
                let rows = self.asked.pop_front().unwrap_or_default();
                if rows < self.changes {
                    return Ok(Some(Next::End));
                }
                self.ask();
                Ok(None)
            }
            // CopyOutResponse, CopyDone, CommandComplete, and what may come at any time.
            b'H' | b'c' | b'C' | b'N' | b'S' | b'A' => Ok(None),
            _ => Err(ProtocolError::Unexpected { tag: char::from(tag), doing: DOING }),
        }
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
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        self.read_at = PgTimestamp::from_unix_micros(micros);
    }
}
