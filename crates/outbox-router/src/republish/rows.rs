//! Rows of a table, read by COPY.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use futures_core::Stream as _;
use pgoutput::PgTimestamp;
use relay::{Code, Failure};
use tokio_postgres::{Client, CopyOutStream};

use super::copy_text::InsertBuffer;
use crate::postgres::sql_failure;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// A row, which is the present one from now on.
    Row,
    /// There are no more; the last row stays the present one.
    End,
}

/// The rows of a [`Query`](super::selection::Query), one at a time. The server sends them as they
/// are taken, so no more than a few are in memory.
pub(crate) struct Rows {
    stream: Pin<Box<CopyOutStream>>,
    relation: u32,
    row: InsertBuffer,
    /// What comes before the columns of the present row.
    first: String,
}

impl Rows {
    /// Begins to read. `copy` is a COPY statement whose first column is a time in microseconds
    /// since 1970, or a text without escapes, and whose others are those of the table.
    ///
    /// # Errors
    /// The server refuses it.
    pub(crate) async fn begin(client: &Client, copy: &str, relation: u32) -> Result<Self, Failure> {
        let stream = Box::pin(client.copy_out(copy).await.map_err(sql_failure)?);
        Ok(Self { stream, relation, row: InsertBuffer::default(), first: String::new() })
    }

    /// Takes the next row. Cancel-safe.
    ///
    /// # Errors
    /// The server ends the statement with an error, or the connection breaks.
    pub(crate) async fn advance(&mut self) -> Result<Next, Failure> {
        let next = poll_fn(|context| self.stream.as_mut().poll_next(context)).await;
        self.take(next)
    }

    /// The same for a row that has arrived; `None` where none has.
    ///
    /// # Errors
    /// As [`Rows::advance`].
    pub(crate) fn advance_now(&mut self) -> Option<Result<Next, Failure>> {
        let mut context = Context::from_waker(Waker::noop());
        match self.stream.as_mut().poll_next(&mut context) {
            Poll::Ready(next) => Some(self.take(next)),
            Poll::Pending => None,
        }
    }

    /// The present row as an Insert message.
    pub(crate) fn message(&self) -> &[u8] {
        self.row.message()
    }

    /// The table's OID.
    pub(crate) const fn relation(&self) -> u32 {
        self.relation
    }

    /// What stands in the place of the commit's time of the present row, where that is known.
    pub(crate) fn at(&self) -> Option<PgTimestamp> {
        self.first.parse().ok().map(PgTimestamp::from_unix_micros)
    }

    /// What comes before the columns of the present row.
    pub(crate) fn first(&self) -> &str {
        &self.first
    }

    /// The text of a column of the present row; `None` is NULL.
    pub(crate) fn text(&self, column: usize) -> Option<String> {
        self.row.value(column).map(|text| String::from_utf8_lossy(text).into_owned())
    }

    fn take(
        &mut self,
        next: Option<Result<Bytes, tokio_postgres::Error>>,
    ) -> Result<Next, Failure> {
        let Some(next) = next else { return Ok(Next::End) };
        // One message of CopyData is one row (manual, "COPY Operations").
        let line = next.map_err(sql_failure)?;
        let (first, columns) = match line.iter().position(|byte| *byte == b'\t') {
            Some(tab) => (line.get(..tab), line.get(tab + 1..)),
            None => (None, None),
        };
        let (Some(first), Some(columns)) = (first, columns) else { return Err(malformed()) };
        let first = str::from_utf8(first).map_err(|_| malformed())?;
        self.first.clear();
        self.first.push_str(first);
        if self.row.fill(self.relation, columns) { Ok(Next::Row) } else { Err(malformed()) }
    }
}

fn malformed() -> Failure {
    Failure::new(Code::Protocol, "a row of COPY is not in its text format")
}
