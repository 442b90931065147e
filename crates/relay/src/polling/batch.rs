//! The rows that were read last, and what has become of each.

use std::collections::HashSet;

use super::{
    pending_row::{PendingRow, RowKey},
    protocol::{Claimed, FetchRequest, Fetched, RequestNumber, TableIndex},
    row_id::RowId,
    shards::ShardSet,
};
use crate::{
    clock::Moment,
    delivered::{InFlight, RowAt, SentVersion, ServerSession},
    failure::Failure,
    ports::AckRun,
    progress::ticket::{SessionId, TRANSACTION_MASK, TransactionRef},
    source::Oid,
};

/// See the module's header.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) table: TableIndex,
    /// The shards that its keys belong to.
    pub(super) shards: ShardSet,
    pub(super) asked: Asked,
    pub(super) claimed: Claimed,
    /// The connection that its rows were read on.
    pub(super) session: ServerSession,
    rows: Vec<BatchRow>,
    /// The next row to offer.
    next: usize,
    unacked: usize,
    /// How many records were produced.
    produced: usize,
    /// The first row whose record may be in flight.
    oldest: usize,
    /// The number of the first row's ticket.
    first: u64,
    producer: SessionId,
    /// Keys of which no further row of this batch is produced.
    stopped: HashSet<RowKey>,
    extent: Extent,
    claim: Claim,
}

/// The circumstances in which a batch was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// When: what it says of claims counts from here.
    pub(super) at: Moment,
    /// The lease request whose answer said which shards this worker has.
    pub(super) as_of: RequestNumber,
    /// The table that it was read of.
    pub(super) relation: Oid,
}

/// Whether a batch came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// Rows were left for a reason that is not their own: they are read again at once.
    CutShort,
}

/// Whether its rows are still this worker's to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// As far as is known.
    Held,
    /// It was given up, since another worker has its shards, or since the lease has ended.
    Lost,
}

/// A row of a batch.
#[derive(Debug)]
pub(super) struct BatchRow {
    pub(super) row: PendingRow,
    pub(super) fate: Fate,
    /// When its record was produced, if it was.
    sent_at: Moment,
}

/// What has become of a row.
#[derive(Debug)]
pub(super) enum Fate {
    /// It was not produced, or nothing is known of its record.
    Open,
    /// Its record is in flight.
    Sent(InFlight),
    /// Its record is acknowledged.
    Acked(SentVersion),
    /// The mark of its version is asked for.
    Settled,
    /// It cannot be delivered, for a reason that lies in the row.
    Failed(Box<Failure>),
}

impl BatchRow {
    fn new(row: PendingRow) -> Self {
        Self { row, fate: Fate::Open, sent_at: Moment::default() }
    }

    const fn is_in_flight(&self) -> bool {
        matches!(self.fate, Fate::Sent(_))
    }
}

impl Batch {
    /// The rows of an answer to `request`. Tickets are numbered from `first` on.
    pub(super) fn new(
        request: &FetchRequest,
        asked: Asked,
        fetched: Fetched,
        producer: SessionId,
        first: u64,
    ) -> Self {
        let Fetched { rows, claimed, session, .. } = fetched;
        let rows = rows.into_iter().map(BatchRow::new).collect();
        Self {
            table: request.table,
            shards: request.shards,
            asked,
            claimed,
            session,
            rows,
            next: 0,
            unacked: 0,
            produced: 0,
            oldest: 0,
            first,
            producer,
            stopped: HashSet::new(),
            extent: Extent::Whole,
            claim: Claim::Held,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn rows(&self) -> &[BatchRow] {
        &self.rows
    }

    /// The next row to be offered, past those whose key has stopped.
    pub(super) fn next(&mut self) -> Option<&PendingRow> {
        while let Some(row) = self.rows.get(self.next)
            && self.stopped.contains(&row.row.key)
        {
            self.next += 1;
        }
        self.rows.get(self.next).map(|row| &row.row)
    }

    /// What the ticket of the next row's record names.
    pub(super) fn next_ref(&self) -> TransactionRef {
        let place = u64::try_from(self.next).unwrap_or(u64::MAX);
        let number = self.first.wrapping_add(place) & TRANSACTION_MASK;
        TransactionRef { session: self.producer, number }
    }

    /// The record of the next row was produced.
    pub(super) fn sent(&mut self, at: Moment) {
        let record = self.next_ref();
        if let Some(row) = self.rows.get_mut(self.next) {
            row.fate = Fate::Sent(row.row.row_at().sent_as(record));
            row.sent_at = at;
            // The producer has a copy.
            row.row.insert = Vec::new();
            self.unacked += 1;
            self.produced += 1;
        }
        self.next += 1;
    }

    /// The next row is left as it is.
    pub(super) fn pass_over(&mut self) {
        self.next += 1;
    }

    /// The next row cannot be delivered.
    pub(super) fn failed(&mut self, failure: Failure, stops: KeyStops) {
        self.fail_at(self.next, failure, stops);
        self.next += 1;
    }

    /// Whether the row is of this batch, and the producer was given no other record of it. The
    /// record itself may have been produced, or the producer may not have taken it.
    pub(super) fn is_alone(&self, row: TransactionRef) -> bool {
        let row = self.place(row).and_then(|place| self.rows.get(place));
        row.is_some_and(|row| self.produced == usize::from(row.is_in_flight()))
    }

    /// The record of this row was refused, by a broker or by the producer.
    pub(super) fn refused(&mut self, row: TransactionRef, failure: Failure, stops: KeyStops) {
        if let Some(place) = self.place(row) {
            self.fail_at(place, failure, stops);
        }
    }

    /// A record was acknowledged. Returns its row, if it is of this batch and was in flight.
    pub(super) fn acked(&mut self, run: &AckRun) -> Option<&PendingRow> {
        let place = self.place(run.transaction)?;
        let row = self.rows.get_mut(place)?;
        row.fate = match std::mem::replace(&mut row.fate, Fate::Open) {
            Fate::Sent(version) => match version.acked(run) {
                Ok(sent) => Fate::Acked(sent),
                Err(version) => {
                    row.fate = Fate::Sent(version);
                    return None;
                }
            },
            other @ (Fate::Open | Fate::Acked(_) | Fate::Settled | Fate::Failed(_)) => {
                row.fate = other;
                return None;
            }
        };
        self.unacked -= 1;
        while let Some(BatchRow { fate: Fate::Acked(_) | Fate::Failed(_), .. }) =
            self.rows.get(self.oldest)
        {
            self.oldest += 1;
        }
        self.rows.get(place).map(|row| &row.row)
    }

    /// When the oldest of the records that are in flight was produced.
    pub(super) fn oldest_unacked(&self) -> Option<Moment> {
        let rows = self.rows.iter().skip(self.oldest);
        rows.take(self.next).find(|row| row.is_in_flight()).map(|row| row.sent_at)
    }

    /// Nothing more is produced of it.
    pub(super) fn stop(&mut self) {
        if self.has_next() {
            self.extent = Extent::CutShort;
        }
        self.next = self.rows.len();
    }

    /// Nothing more is produced of it, since its rows are not this worker's any more.
    pub(super) fn lose_claim(&mut self) {
        self.stop();
        self.claim = Claim::Lost;
    }

    /// Whether its rows are still this worker's.
    pub(super) fn claim(&self) -> Claim {
        self.claim
    }

    /// Whether it came to its end.
    pub(super) fn extent(&self) -> Extent {
        self.extent
    }

    /// No further acknowledgement will come: nothing is known of what is in flight.
    pub(super) fn lose_flight(&mut self) {
        self.stop();
        for row in &mut self.rows {
            if row.is_in_flight() {
                row.fate = Fate::Open;
                self.extent = Extent::CutShort;
            }
        }
        self.unacked = 0;
    }

    /// Whether rows are left to be offered.
    pub(super) fn has_next(&mut self) -> bool {
        self.next().is_some()
    }

    /// Records that are not acknowledged.
    pub(super) fn unacked(&self) -> usize {
        self.unacked
    }

    /// Whether something was produced of it, and all of that is acknowledged. While one partition
    /// acknowledges nothing, others may.
    pub(super) fn is_acked_whole(&self) -> bool {
        let acked = self.rows.iter().filter(|row| matches!(row.fate, Fate::Acked(_))).count();
        self.produced > 0 && acked == self.produced
    }

    /// The key of a row of this batch.
    pub(super) fn key_of(&self, id: &RowId) -> RowKey {
        let row = self.rows.iter().find(|row| row.row.id == *id);
        row.and_then(|row| row.row.key.clone())
    }

    /// The versions that are acknowledged; each is given once.
    pub(super) fn take_sent(&mut self) -> Vec<SentVersion> {
        let take = |row: &mut BatchRow| match std::mem::replace(&mut row.fate, Fate::Settled) {
            Fate::Acked(sent) => Some(sent),
            other @ (Fate::Open | Fate::Sent(_) | Fate::Settled | Fate::Failed(_)) => {
                row.fate = other;
                None
            }
        };
        self.rows.iter_mut().filter_map(take).collect()
    }

    /// The rows that were not produced, or of whose records nothing is known.
    pub(super) fn open(&self) -> Vec<RowAt> {
        let open = self.rows.iter().filter(|row| matches!(row.fate, Fate::Open));
        open.map(|row| row.row.row_at()).collect()
    }

    fn fail_at(&mut self, place: usize, failure: Failure, stops: KeyStops) {
        let Some(row) = self.rows.get_mut(place) else { return };
        if row.is_in_flight() {
            self.unacked -= 1;
        }
        row.fate = Fate::Failed(Box::new(failure));
        if stops == KeyStops::Yes {
            self.stopped.insert(row.row.key.clone());
        }
    }

    fn place(&self, row: TransactionRef) -> Option<usize> {
        if row.session != self.producer {
            return None;
        }
        let place = row.number.wrapping_sub(self.first) & TRANSACTION_MASK;
        usize::try_from(place).ok().filter(|place| *place < self.rows.len())
    }
}

/// Whether later rows of the key wait for a row that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyStops {
    Yes,
    No,
}
