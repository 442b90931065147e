//! How many rows are settled, from the first on. Acknowledgements arrive in any order among
//! partitions, so rows are counted in batches: a batch is settled when all its records are
//! acknowledged.

use std::collections::VecDeque;

use crate::{
    ports::AckRun,
    progress::ticket::{TRANSACTION_MASK, Ticket},
};

/// Rows of one batch. A batch takes 24 bytes while one of its records, or of a batch before it, is
/// in flight.
const ROWS: u64 = 256;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Rows of the batches before `earlier`.
    settled: u64,
    /// Full batches, up to the one before the present.
    earlier: VecDeque<Batch>,
    /// The number of the present batch.
    number: u64,
    present: Batch,
}

#[derive(Debug, Default)]
struct Batch {
    rows: u64,
    unacked: u64,
    /// Rows from the batch's first on that are settled.
    settled: u64,
}

impl Batch {
    /// Its rows are settled whenever none of its records is in flight.
    fn update(&mut self) {
        if self.unacked == 0 {
            self.settled = self.rows;
        }
    }
}

impl Batches {
    /// A ticket for the record of the next row.
    pub(super) fn issue(&mut self, bytes: usize) -> Ticket {
        self.present.unacked += 1;
        Ticket::of_release(self.number, Ticket::units(bytes))
    }

    /// The record was not produced.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        let (transaction, _) = ticket.redeem();
        self.count_out(transaction.number, 1);
    }

    /// The next row was dealt with.
    pub(super) fn row(&mut self) {
        self.present.rows += 1;
        self.present.update();
        if self.present.rows == ROWS {
            self.earlier.push_back(std::mem::take(&mut self.present));
            self.number += 1;
            self.forget_settled();
        }
    }

    pub(super) fn acknowledged(&mut self, run: &AckRun) {
        if run.transaction.is_release() {
            self.count_out(run.transaction.number, u64::from(run.records));
            self.forget_settled();
        }
    }

    pub(super) fn settled(&self) -> u64 {
        self.settled + self.earlier.front().unwrap_or(&self.present).settled
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.earlier.iter().chain([&self.present]).map(|batch| batch.unacked).sum()
    }

    fn count_out(&mut self, number: u64, records: u64) {
        // Batches are told apart modulo 2³⁶; there are never so many at a time.
        let from_present = self.number.wrapping_sub(number) & TRANSACTION_MASK;
        let batch = match usize::try_from(from_present) {
            Ok(0) => Some(&mut self.present),
            Ok(back) => {
                let place = self.earlier.len().checked_sub(back);
                place.and_then(|place| self.earlier.get_mut(place))
            }
            Err(_) => None,
        };
        if let Some(batch) = batch {
            batch.unacked = batch.unacked.saturating_sub(records);
            batch.update();
        }
    }

    fn forget_settled(&mut self) {
        while let Some(batch) = self.earlier.front()
            && batch.settled == ROWS
        {
            self.settled += batch.settled;
            self.earlier.pop_front();
        }
    }
}
