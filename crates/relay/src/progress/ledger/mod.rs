//! The ledger decides which WAL position may be confirmed.
//!
//! # Why this is right
//!
//! The confirm rule: what may be confirmed is the end of the contiguous prefix of transactions that
//! are complete and whose every record is acknowledged (the last one's `end_lsn`, or the position
//! of a keepalive after it), and, with a state topic, only after the witness with that position is
//! acknowledged.
//!
//! What lies before the confirmed position PostgreSQL need not send again, and may discard once
//! `restart_lsn` is past it. On reconnection it sends a transaction again if and only if the
//! transaction's commit record *starts* at or after that position. So what is confirmed for a
//! transaction is its `end_lsn`. With its `commit_lsn` the transaction would be sent again for
//! ever; a position past its `end_lsn` would skip a commit record that begins exactly there. The
//! next transaction's `commit_lsn`, where its commit record starts, is never before that `end_lsn`;
//! so the confirmed position never passes the `commit_lsn` of a transaction that has an
//! unacknowledged record (I1).
//!
//! Transactions arrive in commit order, their acknowledgements in any order, because partitions
//! answer independently. The ledger keeps one entry per transaction in order of arrival, and moves
//! its position only over the *contiguous prefix* of entries that are complete (commit seen) and
//! acknowledged (every record): everything before the end of that prefix is *settled*.
//!
//! A keepalive carries the position up to which the walsender has decoded and sent. That position
//! may be confirmed exactly when everything received before it is settled, so the last entry's end
//! moves to it; with no entry, it is settled at once. If keepalives were never confirmed, a slot
//! whose outbox is idle would retain the WAL of every other table until the disk is full.
//!
//! A keepalive within an open transaction is ignored: a part of the transaction has been received,
//! but its commit lies ahead. A later keepalive will come. A keepalive below the position at which
//! the slot stood is ignored, too: after a reconnection the walsender decodes from further back,
//! and older servers move a slot back if a status update says so.
//!
//! A transaction without events only moves the position, as a keepalive does, and leaves no entry.
//! Servers before 15 send an empty transaction for every transaction of the database, and during an
//! outage such entries would pile up without limit.
//!
//! With a state topic a settled position is not confirmable yet: first it is written into the
//! witness ([`crate::witness`]), and that write is acknowledged. So a position passes
//! [`Ledger::issue_witness_ticket`] and [`Ledger::witness_acked`] before [`Ledger::confirm`] may
//! name it; the slot's own position needs neither. The window is what lies past the confirmable
//! position. Without a state topic a settled position is confirmable at once, and what lies before
//! it leaves the window when it is confirmed.
//!
//! Memory is one entry per transaction with events in flight, whatever its number of rows, since an
//! entry is a few counters. The window bounds the events in flight.

use std::collections::VecDeque;

use pgoutput::{Begin, Lsn, PgTimestamp};

use crate::{
    failpoint::{self, Failpoint},
    ports::AckRun,
    progress::{
        WitnessStore,
        ticket::{SIZE_UNIT, SessionId, TRANSACTION_MASK, Ticket, TransactionRef},
        transaction::LastTransaction,
        window::Window,
    },
};
pub(crate) use credit::{Credit, LedgerPlace};
pub(crate) use disorder::Disorder;
pub(crate) use entry::Carried;
use entry::{Entry, EntryProgress, Load};
pub(crate) use queries::{NextRow, Unacked};
pub(crate) use witness_ticket::WitnessTicket;

mod credit;
mod disorder;
mod entry;
mod queries;
mod witness_ticket;

/// A position that a status update may name. Only the ledger makes one, and a
/// [`StatusUpdate`](crate::StatusUpdate) accepts nothing else, so no other code of the core can
/// confirm a position. The message on the wire, `pgoutput::StandbyStatusUpdate`, takes a plain LSN.
/// For the configured slot the shell fills it in one place, `shell/translate.rs`, from a
/// `StatusUpdate`; a temporary copy of the slot has positions of its own (`shell/slot_copy.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfirmedLsn(Lsn);

impl ConfirmedLsn {
    /// The position.
    pub fn lsn(self) -> Lsn {
        self.0
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Ledger {
    session: SessionId,
    entries: VecDeque<Entry>,
    /// Number of the front entry; the numbers of the others follow without a hole.
    front: u64,
    /// Where the slot stood when the session began: keepalives below it are ignored.
    slot_at: Lsn,
    /// End of what was received completely: of the last commit or keepalive.
    received: Lsn,
    /// End of the contiguous settled prefix.
    settled: Lsn,
    /// The last transaction with events in that prefix.
    last: Option<LastTransaction>,
    store: WitnessStore,
    /// Where the window begins: what is before it is in the witness, or, without a state topic,
    /// confirmed.
    window_start: Lsn,
    /// The position that the last status update has named. A session starts with the slot's own
    /// where the witness names that too, else with zero.
    confirmed: Lsn,
    /// Events past `window_start`.
    in_window: Load,
    /// Events past `window_start` that are settled: they leave the window with the next ticket.
    settled_unwritten: Load,
    unacked: Load,
}

impl Ledger {
    /// An empty ledger for one session that reads on from `slot_at` ([`Lsn::ZERO`]: not known).
    pub(crate) fn new(session: SessionId, slot_at: Lsn, store: WitnessStore) -> Self {
        Self {
            session,
            entries: VecDeque::new(),
            front: 0,
            slot_at,
            received: Lsn::ZERO,
            settled: Lsn::ZERO,
            last: None,
            store,
            window_start: Lsn::ZERO,
            confirmed: Lsn::ZERO,
            in_window: Load::default(),
            settled_unwritten: Load::default(),
            unacked: Load::default(),
        }
    }

    /// By the witness of an earlier session everything before `position` is acknowledged, and
    /// `last` is the last transaction with events before it. Only for a ledger that has received
    /// nothing.
    pub(crate) fn start_after(&mut self, position: Lsn, last: Option<LastTransaction>) {
        debug_assert!(self.entries.is_empty(), "nothing was received");
        self.received = self.received.max(position);
        self.settled = self.settled.max(position);
        // The slot's own position needs no witness. A position past the slot is confirmed only when
        // this session's own witness names it: the earlier witness may have been deleted meanwhile.
        if position == self.slot_at {
            self.window_start = self.window_start.max(position);
            self.confirmed = position;
        }
        self.last = last;
    }

    /// A transaction begins.
    ///
    /// # Errors
    /// Another transaction is open.
    pub(crate) fn begin(&mut self, begin: &Begin) -> Result<(), Disorder> {
        if self.is_open() {
            return Err(Disorder::NestedBegin);
        }
        self.entries.push_back(Entry::open(begin));
        Ok(())
    }

    /// Measures the open transaction's latency from `since`, because its commit time is another
    /// server's.
    pub(crate) fn measure_from(&mut self, since: PgTimestamp) {
        if let Some(entry) = open_entry(&mut self.entries) {
            entry.since = since;
        }
    }

    /// Issues the ticket of a record of the open transaction that is about to be produced. From now
    /// on the record counts as unacknowledged.
    ///
    /// # Errors
    /// No transaction is open.
    #[inline]
    pub(crate) fn issue(&mut self, bytes: usize) -> Result<Ticket, Disorder> {
        let units = Ticket::units(bytes);
        let number = self.back_number();
        let entry = open_entry(&mut self.entries).ok_or(Disorder::RowOutsideTransaction)?;
        let load = Load { events: 1, units };
        entry.load.add(load);
        entry.unacked.add(load);
        self.unacked.add(load);
        self.in_window.add(load);
        Ok(Ticket::new(self.session, number, units))
    }

    /// A row of an outbox that becomes no record here: `where` leaves it out, or it is in the table
    /// of held events. It counts as an event that is acknowledged, so that its transaction is
    /// recognised when the server sends it again, whatever the configuration says by then, and so
    /// that the window bounds how many such transactions are remembered.
    ///
    /// # Errors
    /// No transaction is open.
    pub(crate) fn count_without_record(&mut self) -> Result<(), Disorder> {
        let entry = open_entry(&mut self.entries).ok_or(Disorder::RowOutsideTransaction)?;
        let load = Load { events: 1, units: 0 };
        entry.load.add(load);
        self.in_window.add(load);
        Ok(())
    }

    /// The record of this ticket was not enqueued, and counts no more.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let (transaction, units) = ticket.redeem();
        let load = Load { events: 1, units };
        if transaction.session == self.session
            && let Some(entry) = self.entry_mut(transaction.number)
        {
            entry.load.remove(load);
            entry.unacked.remove(load);
            self.unacked.remove(load);
            self.in_window.remove(load);
        }
    }

    /// The open transaction committed; `end_lsn` is the first byte after its commit record. Returns
    /// whether the transaction carried events.
    ///
    /// # Errors
    /// No transaction is open, the open one announced another commit position, or `end_lsn` is not
    /// past `commit_lsn`, or lies before what was received.
    pub(crate) fn commit(&mut self, commit_lsn: Lsn, end_lsn: Lsn) -> Result<Carried, Disorder> {
        let entry = open_entry(&mut self.entries).ok_or(Disorder::CommitWithoutBegin)?;
        if entry.commit_lsn != commit_lsn {
            return Err(Disorder::WrongCommit { begin: entry.commit_lsn, commit: commit_lsn });
        }
        if end_lsn <= commit_lsn || end_lsn < self.received {
            return Err(Disorder::Backwards(end_lsn));
        }
        if entry.load.events == 0 {
            self.entries.pop_back();
            self.advance(end_lsn);
            return Ok(Carried::Nothing);
        }
        entry.progress = EntryProgress::Complete(end_lsn);
        entry.end_lsn = end_lsn;
        self.received = end_lsn;
        self.settle();
        Ok(Carried::Events)
    }

    /// A keepalive: the walsender has sent everything before `position`. Ignored while a
    /// transaction is open.
    pub(crate) fn keepalive(&mut self, position: Lsn) {
        if !self.is_open() && position > self.received && position > self.slot_at {
            self.advance(position);
        }
    }

    /// The broker acknowledged records.
    ///
    /// # Errors
    /// More records were acknowledged than produced.
    pub(crate) fn credit(&mut self, run: &AckRun) -> Result<Credit, Disorder> {
        let load = Load { events: u64::from(run.records), units: run.size };
        self.credit_load(run.transaction, load)
    }

    /// The event of this ticket is in the table of held events, which settles it as an
    /// acknowledgement does.
    ///
    /// # Errors
    /// The ticket was counted before.
    #[cold]
    pub(crate) fn held(&mut self, ticket: Ticket) -> Result<Credit, Disorder> {
        let (transaction, units) = ticket.redeem();
        self.credit_load(transaction, Load { events: 1, units })
    }

    #[inline(always)]
    fn credit_load(&mut self, transaction: TransactionRef, load: Load) -> Result<Credit, Disorder> {
        if transaction.session != self.session {
            return Ok(Credit::Stale);
        }
        let Some(entry) = self.entry_mut(transaction.number) else {
            return Err(Disorder::Overcredit);
        };
        if entry.unacked.events < load.events || entry.unacked.units < load.units {
            return Err(Disorder::Overcredit);
        }
        entry.unacked.remove(load);
        let since = entry.since;
        let place = match self.index(transaction.number) {
            Some(0) => LedgerPlace::Oldest,
            Some(_) | None => LedgerPlace::Behind,
        };
        self.unacked.remove(load);
        self.settle();
        Ok(Credit::Counted(since, place))
    }

    /// The end of the settled prefix: everything before it is acknowledged.
    pub(crate) fn settled(&self) -> Lsn {
        self.settled
    }

    /// The position that a status update may name.
    pub(crate) fn confirmable(&self) -> Lsn {
        match self.store {
            WitnessStore::Kafka => self.window_start,
            WitnessStore::Memory => self.settled,
        }
    }

    /// The settled position, to be written into the witness. It becomes confirmable when it comes
    /// back.
    pub(crate) fn issue_witness_ticket(&self) -> WitnessTicket {
        WitnessTicket::new(self.session, self.settled, self.settled_unwritten)
    }

    /// The witness with this position is acknowledged: the window begins after it. A ticket
    /// of an earlier session is ignored.
    pub(crate) fn witness_acked(&mut self, ticket: WitnessTicket) {
        if let Some((position, load)) = ticket.redeem(self.session) {
            self.window_start = self.window_start.max(position);
            self.in_window.remove(load);
            self.settled_unwritten.remove(load);
        }
    }

    /// The position to put into the status update that is about to be sent.
    pub(crate) fn confirm(&mut self) -> ConfirmedLsn {
        if self.store == WitnessStore::Memory {
            self.witness_acked(self.issue_witness_ticket());
        }
        self.confirmed = self.confirmed.max(self.confirmable());
        ConfirmedLsn(self.confirmed)
    }

    /// The position that the last status update has named. A session starts with the slot's own
    /// where the witness names that too, else with zero.
    pub(crate) fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    /// Whether another record may be read: the window has room, or only the open transaction fills
    /// it. A transaction larger than the window passes through with its *unacknowledged* part
    /// bounded.
    #[inline]
    pub(crate) fn has_room(&self, window: Window) -> bool {
        self.in_window.fits(window)
            || (self.entries.len() == 1
                && self.settled_unwritten.events == 0
                && self.open().is_some()
                && self.unacked.fits(window))
    }

    /// Whether a quarter of the window is settled but not in the witness: then the witness is
    /// written at once.
    pub(crate) fn is_worth_writing(&self, window: Window) -> bool {
        self.settled_unwritten.events >= (window.events / 4).max(1)
            || self.settled_unwritten.units * SIZE_UNIT >= (window.bytes / 4).max(1)
    }

    /// Whether, without a state topic, a quarter of the window is settled but unconfirmed: then a
    /// status update is sent at once.
    pub(crate) fn is_worth_confirming(&self, window: Window) -> bool {
        self.store == WitnessStore::Memory && self.is_worth_writing(window)
    }

    /// No event lies between what was received and `end`, so `end` is settled as soon as what
    /// precedes it is.
    fn advance(&mut self, end: Lsn) {
        self.received = end;
        match self.entries.back_mut() {
            Some(last) => last.progress = EntryProgress::Complete(end),
            None => self.settled = end,
        }
    }

    /// Moves the settled position over the prefix of acknowledged, complete transactions.
    fn settle(&mut self) {
        let moves = self.entries.front().is_some_and(|front| front.settled_end().is_some());
        if moves {
            failpoint::reached(Failpoint::BeforeAdvance);
        }
        while let Some(entry) = self.entries.front()
            && let Some(end) = entry.settled_end()
        {
            self.settled = end;
            self.last = Some(entry.identity());
            self.settled_unwritten.add(entry.load);
            self.entries.pop_front();
            self.front += 1;
        }
        if moves {
            failpoint::reached(Failpoint::AfterAdvance);
        }
        if self.entries.front().is_some_and(Entry::is_acked_but_open) {
            failpoint::reached(Failpoint::AckedButOpen);
        }
    }

    fn open(&self) -> Option<&Entry> {
        self.entries.back().filter(|entry| entry.progress == EntryProgress::Open)
    }

    fn back_number(&self) -> u64 {
        // Meaningful only while there is a back entry; `issue` checks that.
        let length = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        (self.front + length).wrapping_sub(1)
    }

    /// The index of an entry, from its number modulo 2³⁶.
    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.wrapping_sub(self.front) & TRANSACTION_MASK).ok()
    }

    fn entry_mut(&mut self, number: u64) -> Option<&mut Entry> {
        let index = self.index(number)?;
        self.entries.get_mut(index)
    }
}

/// The entry of the open transaction: not a method, so that the ledger's counters can be changed
/// beside it.
#[inline]
fn open_entry(entries: &mut VecDeque<Entry>) -> Option<&mut Entry> {
    entries.back_mut().filter(|entry| entry.progress == EntryProgress::Open)
}

#[cfg(test)]
mod tests;
