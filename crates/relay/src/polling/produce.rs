//! From a row to a record.

use pgoutput::{Insert, parse_insert_prefix};

use super::{Poller, Work, pending_row::PendingRow, polled_row::PolledRow};
use crate::{
    clock::{Moment, Now},
    failure::{Code, Failure, Name},
    held::ErrorClass,
    ports::{RecordSink, Refusal, RefusalReason},
    progress::ticket::{Ticket, TransactionRef},
    routing::{record::TopicId, table::TableName, topics::Topics},
    session::{Row, Rows},
    source::quote_table,
};

/// How many rows are offered before acknowledgements have their turn.
const ROWS_PER_PASS: usize = 256;

/// Whether there is more to offer at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Produced {
    /// Rows are left, and the producer may take them.
    More,
    /// Nothing is left, or something is waited for.
    AllForNow,
}

/// What became of a row that was offered.
enum Offer {
    Produced,
    /// It is left for another time.
    PassedOver,
    Failed(Box<Failure>),
    /// No row of the table can be produced.
    TableUnfit(Box<Failure>),
    LookUp(TopicId),
    /// By what is known of this topic since before the row was read, its record is too large.
    LimitMayBeOld(TopicId),
    /// The producer takes nothing before the next acknowledgements.
    Full,
}

impl Poller {
    /// Offers some rows to the producer. The clock is read before each: a process that is stopped
    /// amid a pass, and goes on after its lease, must not produce the rest of it. The producer
    /// would count the age of those records from then.
    pub fn produce<S: RecordSink>(
        &mut self,
        sink: &mut S,
        mut clock: impl FnMut() -> Now,
    ) -> Produced {
        let mut produced = Produced::AllForNow;
        for _ in 0..ROWS_PER_PASS {
            produced = self.offer_next(sink, clock().at);
            if produced == Produced::AllForNow {
                break;
            }
        }
        self.proceed(clock().at);
        produced
    }

    /// Whether there are rows that may be produced now.
    pub(super) fn may_produce(&mut self, at: Moment) -> bool {
        let Work::Producing(batch) = &self.work else { return false };
        // What reading a row has said of others' claims counts for as long as a lease does. Nothing
        // follows what is about to be given up.
        let is_in_time =
            at < self.stale_at(batch.asked) && self.purge_at(batch).is_none_or(|due| at < due);
        let Self { work: Work::Producing(batch), lease, sink, .. } = self else { return false };
        sink.is_ready() && is_in_time && lease.covers_batch(batch, at) && batch.has_next()
    }

    fn offer_next<S: RecordSink>(&mut self, sink: &mut S, at: Moment) -> Produced {
        if !self.may_produce(at) {
            return Produced::AllForNow;
        }
        let stops = self.key_stops();
        let Self { work: Work::Producing(batch), rows, topics, tables, settings, .. } = self else {
            return Produced::AllForNow;
        };
        let index = batch.table;
        let (ticket, read_at) = (batch.next_ref(), batch.asked.at);
        let Some(table) = tables.get(index.0) else { return Produced::AllForNow };
        let Some(row) = batch.next() else { return Produced::AllForNow };
        let (name, row_bytes) = (&table.name, settings.row_bytes);
        let mut produced_by = ProducedBy { table: name, rows, topics, row_bytes, read_at };
        let offer = produced_by.offer(row, ticket, sink);
        if let (Offer::Produced | Offer::PassedOver | Offer::Failed(_), Some(table)) =
            (&offer, tables.get_mut(index.0))
        {
            table.awaited = None;
        }
        match offer {
            Offer::Produced => batch.sent(at),
            Offer::PassedOver => batch.pass_over(),
            Offer::Failed(failure) => {
                sink.unfit(failure.code);
                *self.totals.errors.entry(failure.code).or_default() += 1;
                batch.failed(*failure, stops);
            }
            Offer::TableUnfit(failure) => {
                batch.stop();
                self.table_failed(index, *failure, at);
                return Produced::AllForNow;
            }
            Offer::LookUp(topic) => {
                self.look_up(index, topic, at);
                return Produced::AllForNow;
            }
            // The topic may have more partitions by now, too, so nothing may be in flight.
            Offer::LimitMayBeOld(topic) if batch.unacked() == 0 => {
                self.topics.gone(topic);
                self.look_up(index, topic, at);
                return Produced::AllForNow;
            }
            Offer::LimitMayBeOld(_) | Offer::Full => return Produced::AllForNow,
        }
        Produced::More
    }
}

/// What it takes to make a record of a row.
struct ProducedBy<'a> {
    table: &'a TableName,
    rows: &'a mut Rows,
    topics: &'a mut Topics,
    row_bytes: usize,
    /// When its row was asked for.
    read_at: Moment,
}

impl ProducedBy<'_> {
    fn offer<S: RecordSink>(
        &mut self,
        row: &PendingRow,
        ticket: TransactionRef,
        sink: &mut S,
    ) -> Offer {
        if row.bytes > self.row_bytes {
            self.show(row, None, sink);
            return self.too_large(row);
        }
        let insert = match Insert::parse(&row.insert) {
            Some(Ok(insert)) => insert,
            Some(Err(error)) => return unfit(Failure::from(error)),
            None => return unfit(Failure::new(Code::Protocol, "a message of no row")),
        };
        self.show(row, Some(&insert), sink);
        let routed = self.rows.route(&insert, row.at, self.topics, |record, _| {
            let units = Ticket::units(record.held_bytes());
            sink.produce(record, Ticket::new(ticket.session, ticket.number, units))
        });
        match routed {
            Row::Event(Ok(())) => Offer::Produced,
            Row::Event(Err(Refusal { reason, .. })) => match reason {
                RefusalReason::Full | RefusalReason::PartitionWaits | RefusalReason::Closed => {
                    Offer::Full
                }
            },
            // The statement that reads rows leaves these out.
            Row::NotOutbox | Row::FilteredOut => Offer::PassedOver,
            Row::TopicPending(topic) => Offer::LookUp(topic),
            Row::Refused(refused) => match refused.topic {
                Some(topic)
                    if matches!(
                        refused.failure.code,
                        Code::RecordTooLarge | Code::TopicIllegal
                    ) && self.topics.was_answered_before(topic, self.read_at) =>
                {
                    Offer::LimitMayBeOld(topic)
                }
                Some(_) | None => self.of_row(refused.failure),
            },
        }
    }

    fn show<S: RecordSink>(&self, row: &PendingRow, insert: Option<&Insert<'_>>, sink: &mut S) {
        sink.polled(&PolledRow { table: self.table, row, insert, rows: self.rows });
    }

    fn too_large(&mut self, row: &PendingRow) -> Offer {
        let refused = parse_insert_prefix(&row.insert)
            .map_err(Failure::from)
            .and_then(|prefix| self.rows.refuse_oversized(row.bytes, &prefix, self.row_bytes));
        match refused {
            Ok(Some(failure)) => self.of_row(failure),
            Ok(None) => Offer::PassedOver,
            Err(failure) => unfit(failure),
        }
    }

    /// A failure that lies in the row, or in its table. A row can be corrected where it is.
    fn of_row(&self, failure: Failure) -> Offer {
        match ErrorClass::of(failure.code) {
            Some(_) => {
                let failure = failure.naming(Name::QuotedTable, quote_table(self.table));
                Offer::Failed(Box::new(failure))
            }
            None => unfit(failure),
        }
    }
}

fn unfit(failure: Failure) -> Offer {
    Offer::TableUnfit(Box::new(failure))
}
