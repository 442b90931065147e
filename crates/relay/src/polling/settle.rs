//! From what became of a batch to what is written into the table.

use std::time::Duration;

use super::{
    Poller, Settling, Work,
    batch::{Batch, Claim, Extent, Fate},
    protocol::{
        Claimed, FailedRow, PollAction, RowOutcome, SettleRequest, Settled, WaitsKept, Written,
    },
    table::Description,
    waits::Wait,
};
use crate::{
    clock::Moment,
    delivered::RowAt,
    failpoint::{self, Failpoint},
    failure::Code,
    held::OnError,
    protocol::ExitReason,
};

/// The longest wait of a row that halts its key since its topic takes no record of its size:
/// whether the limit was raised is asked before each attempt.
const LIMIT_AGAIN: Duration = Duration::from_secs(30);

impl Poller {
    /// Once nothing of the batch is in flight, writes what became of its rows.
    pub(super) fn settle_if_done(&mut self, at: Moment) {
        let Work::Producing(batch) = &mut self.work else { return };
        if batch.has_next() || batch.unacked() > 0 {
            return;
        }
        let Work::Producing(mut batch) = std::mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        if batch.is_acked_whole()
            && let Some(table) = self.tables.get_mut(batch.table.0)
        {
            table.unanswered.end();
        }
        let request = self.settlement(&mut batch);
        if request.is_empty() {
            return self.note_settled(&batch, &request, Settled::default(), at);
        }
        failpoint::reached(Failpoint::AfterAcks);
        self.actions.push_back(PollAction::Settle(request.clone()));
        let settling = Settling { batch, request, failure: None, retry_at: None };
        self.work = Work::Settling(Box::new(settling));
    }

    /// Writes again what could not be written.
    pub(super) fn write_again_if_due(&mut self, at: Moment) {
        if let Work::Settling(settling) = &mut self.work
            && settling.retry_at.take_if(|due| *due <= at).is_some()
        {
            self.actions.push_back(PollAction::Settle(settling.request.clone()));
        }
    }

    /// Everything in `request` is committed.
    pub(super) fn note_settled(
        &mut self,
        batch: &Batch,
        request: &SettleRequest,
        settled: Settled,
        at: Moment,
    ) {
        let Some(table) = self.tables.get_mut(batch.table.0) else { return };
        if batch.len() > 0 {
            let micros = at.since(batch.asked.at).as_micros();
            self.totals.batch_times.count(i64::try_from(micros).unwrap_or(i64::MAX), 1);
        }
        if batch.extent() == Extent::CutShort {
            table.fetch_at = at;
        }
        // A batch that was given up may also come back without its marks, and counts once.
        if batch.claim() == Claim::Lost || settled.written == Written::NotOurs {
            self.totals.claims_lost += 1;
        }
        if settled.written == Written::SessionLost {
            // Another content may have the version of a row that was sent, so its rows are read
            // and sent again, unless they were marked before the connection was lost.
            table.fetch_at = at;
            if self.drain_by.is_some() {
                self.drained = ExitReason::EventsUnconfirmed;
            }
            return;
        }
        // Once as many rows are done with as there were, the one that was refused is among them.
        let done = request.published.len() + request.failed.len();
        table.one_by_one = table.one_by_one.saturating_sub(done);
        if settled.written == Written::NotOurs {
            // Who has the keys now delivers these rows. To read on would produce them again and
            // again, until the leases are renewed. Or another table has the name: so it is
            // described before it is read.
            table.fetch_at = at;
            table.description = Description::Unknown(at);
            self.lease.refuted(batch.table.0, batch.asked.as_of, at);
            return;
        }
        table.has_marked(&request.published, settled.published);
        let kept = table.waits_kept();
        request.published.iter().for_each(|sent| table.waits.remove(&sent.row().id));
        for row in &request.failed {
            table.totals.failed += 1;
            match row.outcome {
                RowOutcome::Abandon => {
                    table.totals.abandoned += 1;
                    table.waits.remove(&row.id);
                }
                RowOutcome::Retry(after) => {
                    // Where the server keeps the time, its clock may go a little differently.
                    let slack = match kept {
                        Some(WaitsKept::InTable) => after / 1_000,
                        Some(WaitsKept::InMemory) | None => Duration::ZERO,
                    };
                    let until = at + after + slack;
                    let key = batch.key_of(&row.id);
                    let (attempts, failure) = (row.attempts, row.error.clone());
                    table.waits.insert(row.id.clone(), Wait { key, attempts, until, failure });
                    table.is_due_at(until);
                }
            }
        }
    }

    fn settlement(&mut self, batch: &mut Batch) -> SettleRequest {
        let mut failed = Vec::new();
        let waits = self.tables.get(batch.table.0).map(|table| &table.waits);
        for row in batch.rows() {
            let Fate::Failed(failure) = &row.fate else { continue };
            let known = waits.map_or(0, |waits| waits.attempts(&row.row.id));
            let attempts = row.row.attempts.max(known).saturating_add(1);
            let retry = &self.settings.retry;
            let is_last = attempts >= retry.max_attempts;
            let wait = retry.wait(attempts, self.backoff.random());
            let outcome = match self.settings.on_error.of(failure.code) {
                OnError::DeadLetter if is_last => RowOutcome::Abandon,
                OnError::Halt if failure.code == Code::RecordTooLarge => {
                    RowOutcome::Retry(wait.min(LIMIT_AGAIN))
                }
                OnError::DeadLetter | OnError::Halt => RowOutcome::Retry(wait),
            };
            let RowAt { id, version } = row.row.row_at();
            let error = (**failure).clone();
            failed.push(FailedRow { id, version, attempts, error, outcome });
        }
        SettleRequest {
            table: batch.table,
            shards: batch.shards,
            as_of: batch.asked.as_of,
            session: batch.session,
            published: batch.take_sent(),
            failed,
            released: match batch.claimed {
                Claimed::Yes => batch.open(),
                Claimed::No => Vec::new(),
            },
        }
    }
}

impl SettleRequest {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.published.is_empty() && self.failed.is_empty() && self.released.is_empty()
    }
}
