//! One replication connection's life, from the first frame to the last status update. Here: what
//! each frame means. What holds one back is in [`hold`], what was produced by an earlier session in
//! [`covered`], what the server is told in [`status`]. It dies with its connection; the slot
//! remembers.

use pgoutput::{Frame, Insert, Lsn, Message, PgTimestamp, ReplyRequest, XLogData};

use crate::{
    clock::{Moment, Now},
    failpoint::{self, Failpoint},
    failure::{Class, Code, Failure},
    ports::{RecordSink, Refusal, RefusalReason},
    progress::{
        feedback::{Feedback, Timing},
        ledger::{Carried, Evidence, Ledger},
        ticket::SessionId,
        transaction::LastTransaction,
        window::Window,
    },
    protocol::{Pace, Step},
    routing::{
        columns::Event,
        record::{Size, TopicId},
        route::{FormatHeaders, Scratch, described},
        table::Outboxes,
        topic::TopicName,
        topics::{Readiness, TopicFacts, Topics},
    },
    source::TableOids,
};
pub(crate) use covered::Covered;
use pace::Traffic;
use relations::{Binding, Relations};

mod block_reason;
mod blocking;
mod covered;
mod covering;
mod oversized;
mod pace;
mod relations;
mod status;

pub(crate) use block_reason::BlockReason;

/// Where the session is on its way to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// Following the WAL.
    Following,
    /// Stopping: reads on to the commit of the open transaction only.
    Draining,
    /// `CopyDone` was sent: what still arrives is read and dropped, so that the last status is not
    /// lost.
    Finishing,
}

/// The parts of the configuration that a session reads.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) outboxes: Outboxes,
    pub(crate) window: Window,
    pub(crate) row_bytes: usize,
    pub(crate) timing: Timing,
}

pub(crate) struct Session {
    pub(crate) ledger: Ledger,
    /// When it began.
    pub(crate) since: Moment,
    feedback: Feedback,
    relations: Relations,
    scratch: Scratch,
    /// The last position seen on the wire.
    pub(crate) received: Lsn,
    pub(crate) blocked: Option<BlockReason>,
    /// Why the row that is being offered again was held.
    retried_failure: Option<Failure>,
    /// An earlier session failed at the transaction that commits here: it is taken alone, with
    /// everything before it confirmed, so that as long as it fails nothing else is repeated.
    isolate_at: Option<Lsn>,
    pub(crate) course: Course,
    /// What an earlier session's witness covers and the server sends again, until the stream has
    /// passed it.
    covered: Option<Covered>,
    /// The server is stopping: when to let go of it.
    release_at: Option<Moment>,
    /// A topic's partition count changed: nothing more is produced until everything produced so far
    /// is settled.
    repin: Option<(TopicId, TopicFacts)>,
    committed_at: PgTimestamp,
    /// When the last transaction committed here, by the server's own clock, and when it sent what
    /// was last received of it. `None`: the server has nothing more to send.
    lags_behind: Option<PgTimestamp>,
    sent_at: PgTimestamp,
    /// How long after the transaction before it that one committed, by the same clock, in
    /// microseconds.
    apart: i64,
    pub(crate) transactions: u64,
    pub(crate) rows_ignored: u64,
}

/// Where a session begins.
pub(crate) struct Beginning {
    pub(crate) id: SessionId,
    /// Where the slot stood.
    pub(crate) slot_at: Lsn,
    /// Where an earlier session failed.
    pub(crate) isolate_at: Option<Lsn>,
    /// Whose a row is.
    pub(crate) tables: TableOids,
    pub(crate) evidence: Evidence,
    pub(crate) resume: Resume,
}

/// What is known of the events that the server may send first.
pub(crate) enum Resume {
    /// Nothing: all of them are produced.
    AtSlot,
    /// Everything before this position is acknowledged, and the slot stands there.
    At(Lsn, Option<LastTransaction>),
    /// Everything before a position past the slot is acknowledged.
    After(Covered),
}

impl Session {
    pub(crate) fn new(beginning: Beginning, terms: &Terms, at: Moment) -> Self {
        let Beginning { id, slot_at, isolate_at, tables, evidence, resume } = beginning;
        let mut ledger = Ledger::new(id, slot_at, evidence);
        let covered = match resume {
            Resume::AtSlot => None,
            Resume::At(position, last) => {
                ledger.resume_at(position, last);
                None
            }
            Resume::After(covered) => Some(covered),
        };
        Self {
            ledger,
            since: at,
            feedback: Feedback::new(terms.timing, at),
            relations: Relations::new(tables),
            scratch: Scratch::default(),
            received: Lsn::ZERO,
            blocked: None,
            retried_failure: None,
            isolate_at,
            course: Course::Following,
            covered,
            release_at: None,
            repin: None,
            committed_at: PgTimestamp::from_micros(0),
            lags_behind: None,
            sent_at: PgTimestamp::from_micros(0),
            apart: i64::MAX,
            transactions: 0,
            rows_ignored: 0,
        }
    }

    /// One `CopyData` payload.
    #[inline]
    pub(crate) fn frame<S: RecordSink>(
        &mut self,
        payload: &[u8],
        now: Now,
        terms: &Terms,
        topics: &mut Topics,
        sink: &mut S,
    ) -> Result<Step, Failure> {
        self.feedback.heard(now.at);
        if self.course == Course::Finishing {
            return Ok(Step::Taken);
        }
        match Frame::parse(payload).as_ref()? {
            Frame::XLogData(data) => {
                self.sent_at = data.sent_at;
                if self.covered.is_some() && self.is_covered(data, terms)? {
                    return Ok(Step::Taken);
                }
                let step = match Insert::parse(data.data) {
                    Some(Ok(insert)) => self.insert(&insert, now, topics, sink)?,
                    Some(Err(error)) => return Err(error.into()),
                    None => self.message(data, terms)?,
                };
                // A position is only ever shown, never confirmed. Relation messages say 0/0 here.
                if step == Step::Taken && data.wal_start > self.received {
                    self.received = data.wal_start;
                }
                Ok(step)
            }
            Frame::Keepalive(keepalive) => {
                self.received = self.received.max(keepalive.wal_end);
                if self.covered.is_none() || self.has_passed_covered(keepalive.wal_end)? {
                    self.ledger.keepalive(keepalive.wal_end);
                }
                failpoint::reached(Failpoint::KeepaliveTaken);
                // The server has nothing more to send at once: what comes next is news.
                self.lags_behind = None;
                if keepalive.reply == ReplyRequest::Requested {
                    self.feedback.owe();
                }
                Ok(Step::Taken)
            }
        }
    }

    /// Everything but an insert.
    fn message(&mut self, frame: &XLogData<'_>, terms: &Terms) -> Result<Step, Failure> {
        match Message::parse(frame.data).as_ref()? {
            Message::Begin(_) if self.course == Course::Draining => {
                return Ok(self.block(BlockReason::Draining));
            }
            Message::Begin(begin) if self.must_isolate(begin.final_lsn) => {
                return Ok(self.block(BlockReason::Isolate));
            }
            Message::Begin(begin) => {
                self.ledger.begin(begin)?;
                self.apart = begin.committed_at.micros_since(self.committed_at);
                self.committed_at = begin.committed_at;
                self.lags_behind = Some(begin.committed_at);
                failpoint::reached(Failpoint::BeginTaken);
            }
            Message::Commit(commit) => {
                let carried = self.ledger.commit(commit.commit_lsn, commit.end_lsn)?;
                self.received = self.received.max(commit.end_lsn);
                if carried == Carried::Events {
                    self.transactions += 1;
                }
                failpoint::reached(Failpoint::CommitTaken);
            }
            Message::Relation(relation) => {
                self.relations.describe(&terms.outboxes, relation);
                failpoint::reached(Failpoint::RelationTaken);
            }
            // The writer replays another server's transaction, and the commit time is that
            // server's: it may lie months back. It stays the record's timestamp, but neither our
            // latency nor this server's backlog is measured by it.
            Message::Origin(_) => {
                self.ledger.measure_from(frame.sent_at);
                self.lags_behind = Some(frame.sent_at);
            }
            // An outbox is append-only: a publication should publish nothing but inserts, and these
            // say nothing to us.
            Message::Update(_) | Message::Delete(_) | Message::Truncate(_) => {
                self.rows_ignored += 1;
            }
            // Rows are taken elsewhere; the rest was not asked for, or has no meaning for an
            // outbox. A stray Stream Abort was seen from PostgreSQL 18.
            Message::Insert(_)
            | Message::Type(_)
            | Message::Logical(_)
            | Message::StreamAbort(_) => {}
        }
        Ok(Step::Taken)
    }

    #[inline]
    fn insert<S: RecordSink>(
        &mut self,
        insert: &Insert<'_>,
        now: Now,
        topics: &mut Topics,
        sink: &mut S,
    ) -> Result<Step, Failure> {
        let router = match self.relations.of_row(insert.relation)? {
            Binding::Ours(router) => router,
            Binding::Foreign => {
                self.rows_ignored += 1;
                return Ok(Step::Taken);
            }
            Binding::Broken(_, failure) => {
                let failure = failure.clone();
                return Ok(self.block_on_row(failure, None, now.at));
            }
        };
        let mut event = Event::default();
        router.columns().read(insert.tuple.iter(), &mut event)?;
        let mut format_headers = FormatHeaders::default();
        let routed = match router.route(&event, topics, &mut self.scratch, &mut format_headers) {
            Ok(routed) => routed,
            Err(failure) => return self.refused(failure, now.at),
        };
        let topic = routed.topic;
        let Readiness::Ready(facts) = topics.readiness(topic) else {
            return Ok(self.block(BlockReason::Topic(topic)));
        };
        let record = routed.record(&format_headers, facts.partitions, self.committed_at);
        let size = record.size();
        if let Some(failure) = too_large(topic, size, &event, facts, topics) {
            return Ok(self.block_on_row(failure, Some(topic), now.at));
        }
        let ticket = self.ledger.issue(size.held_bytes())?;
        failpoint::reached(Failpoint::BeforeEnqueue);
        match sink.produce(&record, ticket) {
            Ok(()) => {
                failpoint::reached(Failpoint::AfterEnqueue);
                topics.produced(topic);
                self.retried_failure = None;
                Ok(Step::Taken)
            }
            Err(Refusal { ticket, reason }) => {
                self.ledger.withdraw(ticket);
                Ok(match reason {
                    RefusalReason::Full => {
                        failpoint::reached(Failpoint::QueueFull);
                        self.block_until_room(now.at)
                    }
                    RefusalReason::Probing => self.block_until_room(now.at),
                    RefusalReason::Closed => self.block(BlockReason::SinkClosed),
                })
            }
        }
    }

    /// A row cannot be routed: it waits for a person, or the session ends, as its code says.
    #[cold]
    fn refused(&mut self, failure: Failure, at: Moment) -> Result<Step, Failure> {
        match failure.class() {
            Class::Mendable => Ok(self.block_on_row(failure, None, at)),
            Class::Transport | Class::Replay | Class::Gap => Err(failure),
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        Pace::of(&Traffic {
            lag_micros: self.lags_behind.map_or(0, |since| self.sent_at.micros_since(since)),
            apart_micros: self.apart,
            is_amid_transaction: self.ledger.is_open(),
        })
    }
}

/// A record that the topic would refuse: better held here than failed there, with its neighbours.
#[inline]
fn too_large(
    topic: TopicId,
    size: Size,
    event: &Event<'_>,
    facts: TopicFacts,
    topics: &Topics,
) -> Option<Failure> {
    let limit = facts.max_message_bytes?;
    let size = size.batch_bytes();
    if size <= limit {
        return None;
    }
    topics.name(topic).map(|name| record_too_large(name, size, limit, event))
}

#[cold]
fn record_too_large(topic: &TopicName, size: usize, limit: usize, event: &Event<'_>) -> Failure {
    Failure::new(
        Code::RecordTooLarge,
        format!("{}: its record of {size} bytes is more than topic {topic} takes (max.message.bytes={limit})", described(event)),
    )
    .hint(format!("kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name {topic} --add-config max.message.bytes={}", size.next_power_of_two()))
}
