//! One replication connection, from its first frame to its last status update. This file says what
//! each frame means. What the session waits for is in [`waiting`], what an earlier session has
//! produced in [`covered`], and what a status update says in [`status`].
//!
//! A session ends with its connection; the next session resumes from the slot.

use std::time::Duration;

use pgoutput::{Frame, Insert, Lsn, Message, Oid, PgTimestamp, ReplyRequest, XLogData};

use crate::{
    clock::{Moment, Now},
    failpoint::{self, Failpoint},
    failure::{Class, Failure},
    notice::ServerNotice,
    ports::{RecordSink, Refusal, RefusalReason},
    progress::{
        WitnessStore,
        feedback::{Feedback, Timing},
        ledger::{Carried, Disorder, Ledger},
        ticket::SessionId,
        transaction::LastTransaction,
        window::Window,
    },
    protocol::{FrameOutcome, ReadPace},
    routing::{
        record::TopicId,
        table::Outboxes,
        topics::{TopicFacts, Topics},
    },
    source::{FilterLabels, TableOids},
    telemetry::RowsIgnored,
};
pub(crate) use covered::Covered;
pub use covered::HasEvents;
pub(crate) use held::Surroundings;
pub(crate) use held_row::HeldRow;
pub use last_row::{Fate, LastRow, Onlooker, Reason, Unsent};
pub(crate) use letters::LetterRecord;
use pace::Traffic;
use rows::RefusedRow;
pub(crate) use rows::{Row, Rows};

mod covered;
mod covered_frames;
mod held;
mod held_row;
mod last_row;
mod letters;
mod oversized;
mod pace;
mod relations;
mod rows;
mod status;
mod wait_reason;
mod waiting;

pub(crate) use wait_reason::WaitReason;

/// For how long a warning of the server is shown.
const WARNING_LASTS: Duration = Duration::from_secs(60);

/// Whether the session follows the WAL or is stopping, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionPhase {
    /// Following the WAL.
    Following,
    /// Stopping: reads to the commit of the open transaction, and no further.
    Draining,
    /// `CopyDone` was sent. What still arrives is read and dropped: closing a socket with unread
    /// bytes could lose the last status update.
    Finishing,
}

/// The parts of the configuration that a session reads.
#[derive(Debug, Clone)]
pub(crate) struct SessionSettings {
    pub(crate) outboxes: Outboxes,
    pub(crate) window: Window,
    pub(crate) row_bytes: usize,
    pub(crate) timing: Timing,
}

pub(crate) struct Session {
    pub(crate) ledger: Ledger,
    /// When the session began; one that lasts resets the back-off.
    pub(crate) since: Moment,
    /// Where the slot stood then.
    slot_at: Lsn,
    feedback: Feedback,
    rows: Rows,
    /// The relations of events that are released: their messages are older than the stream's.
    pub(crate) held_rows: Rows,
    /// The last position received; only reported, never confirmed.
    pub(crate) received: Lsn,
    pub(crate) wait_reason: Option<WaitReason>,
    /// Why the session waited at the row that is now offered again.
    retried_failure: Option<Failure>,
    /// The commit LSN of the transaction at which an earlier session failed. It is taken alone,
    /// after everything before it is confirmed, so that nothing else is repeated if it fails again.
    isolate_at: Option<Lsn>,
    pub(crate) phase: SessionPhase,
    /// What the server sends again although an earlier session's witness covers it; `None` once the
    /// stream has passed it.
    covered: Option<Covered>,
    /// When to release the server, if it is stopping.
    release_at: Option<Moment>,
    /// A topic's partition count has grown. Nothing more is produced until everything produced so
    /// far is acknowledged.
    repin: Option<(TopicId, TopicFacts)>,
    /// The commit time of the open transaction, by the clock of the server where it was committed.
    committed_at: PgTimestamp,
    /// When the last transaction was committed, by the clock of the server that sends it. `None`:
    /// the server has nothing more to send.
    last_commit_at: Option<PgTimestamp>,
    /// When the last frame was sent, by the server's clock.
    sent_at: PgTimestamp,
    /// The time between the commits of the last two transactions, in microseconds, by the server's
    /// clock.
    commit_interval_micros: i64,
    /// What the server has warned of last, and when.
    warning: Option<(ServerNotice, Moment)>,
    pub(crate) transactions: u64,
    /// Insert messages of the open transaction that were taken.
    inserts: u32,
    pub(crate) rows_ignored: RowsIgnored,
    /// Rows of outbox tables that `where` leaves out.
    pub(crate) rows_filtered: u64,
}

/// What a session begins with.
pub(crate) struct SessionStart {
    pub(crate) id: SessionId,
    /// Where the slot stood when it was checked.
    pub(crate) slot_at: Lsn,
    /// The commit at which an earlier session failed.
    pub(crate) isolate_at: Option<Lsn>,
    /// For how long the walsender may be silent.
    pub(crate) silence_limit: Duration,
    /// Which tables are outboxes, by OID.
    pub(crate) tables: TableOids,
    /// The labels of enums that a `where` reads, as they were read before the stream began.
    pub(crate) labels: FilterLabels,
    pub(crate) store: WitnessStore,
    pub(crate) resume: Resume,
}

/// What is known of the events that the server may send first.
pub(crate) enum Resume {
    /// Nothing: all of them are produced.
    AtSlot,
    /// Everything before this position is acknowledged, and the slot stands there.
    At(Lsn, Option<LastTransaction>),
    /// Everything before a position past the slot is acknowledged; the server sends a part of it
    /// again.
    After(Covered),
}

/// Why a record was not enqueued.
enum NotProduced {
    /// No transaction is open.
    Disorder(Disorder),
    /// The sink refused it; the ledger has its ticket back.
    Refused(RefusalReason),
}

impl Session {
    pub(crate) fn new(start: SessionStart, settings: &SessionSettings, at: Moment) -> Self {
        let SessionStart { id, slot_at, isolate_at, silence_limit, .. } = start;
        let SessionStart { tables, labels, store, resume, .. } = start;
        let timing = Timing { silence_limit, ..settings.timing };
        let mut ledger = Ledger::new(id, slot_at, store);
        let covered = match resume {
            Resume::AtSlot => None,
            Resume::At(position, last) => {
                ledger.start_after(position, last);
                None
            }
            Resume::After(covered) => Some(covered),
        };
        Self {
            ledger,
            since: at,
            slot_at,
            feedback: Feedback::new(timing, at),
            held_rows: Rows::new(tables.clone()),
            rows: Rows::of_stream(tables, labels),
            received: Lsn::ZERO,
            wait_reason: None,
            retried_failure: None,
            isolate_at,
            phase: SessionPhase::Following,
            covered,
            release_at: None,
            repin: None,
            committed_at: PgTimestamp::from_micros(0),
            last_commit_at: None,
            sent_at: PgTimestamp::from_micros(0),
            commit_interval_micros: i64::MAX,
            warning: None,
            transactions: 0,
            inserts: 0,
            rows_ignored: RowsIgnored::default(),
            rows_filtered: 0,
        }
    }

    /// Whether the server has sent nothing yet that lies past the slot's position: it reads WAL
    /// again from the slot's `restart_lsn` first.
    pub(crate) fn has_brought_nothing(&self) -> bool {
        self.received <= self.slot_at && !self.ledger.is_open()
    }

    /// Where the slot stood when the session began.
    pub(crate) fn slot_at(&self) -> Lsn {
        self.slot_at
    }

    /// The server warns of something that is no gap.
    pub(crate) fn warned(&mut self, notice: &ServerNotice, at: Moment) {
        self.warning = Some((notice.clone(), at));
    }

    /// What the server warns of. It repeats what lasts.
    pub(crate) fn warning(&self, at: Moment) -> Option<&ServerNotice> {
        let last = self.warning.as_ref();
        last.filter(|(_, warned)| at.since(*warned) < WARNING_LASTS).map(|(notice, _)| notice)
    }

    /// Takes one `CopyData` payload.
    ///
    /// # Errors
    /// The frame cannot be decoded or is out of order (P007). A row failed with a code that ends
    /// the session, such as R010. What the server sends again is not what the witness covers
    /// (P015).
    #[inline]
    pub(crate) fn frame<S: RecordSink>(
        &mut self,
        payload: &[u8],
        now: Now,
        settings: &SessionSettings,
        topics: &mut Topics,
        sink: &mut S,
    ) -> Result<FrameOutcome, Failure> {
        self.feedback.received_frame(now.at);
        if self.phase == SessionPhase::Finishing {
            return Ok(FrameOutcome::Taken);
        }
        match Frame::parse(payload).as_ref()? {
            Frame::XLogData(data) => {
                self.sent_at = data.sent_at;
                if self.covered.is_some() && self.take_covered(data, settings)? {
                    return Ok(FrameOutcome::Taken);
                }
                let outcome = match Insert::parse(data.data) {
                    Some(Ok(insert)) => {
                        let outcome = self.insert(&insert, now, topics, sink)?;
                        self.inserts += u32::from(outcome == FrameOutcome::Taken);
                        outcome
                    }
                    Some(Err(error)) => return Err(error.into()),
                    None => self.message(data, now, settings)?,
                };
                // This position is only reported, never confirmed. Relation messages have 0/0 here.
                if outcome == FrameOutcome::Taken && data.wal_start > self.received {
                    self.received = data.wal_start;
                }
                Ok(outcome)
            }
            Frame::Keepalive(keepalive) => {
                self.received = self.received.max(keepalive.wal_end);
                if self.covered.is_none() || self.covered_until(keepalive.wal_end)? {
                    self.ledger.keepalive(keepalive.wal_end);
                }
                failpoint::reached(Failpoint::KeepaliveTaken);
                // The server has nothing more to send now: what comes next is no backlog.
                self.last_commit_at = None;
                if keepalive.reply == ReplyRequest::Requested {
                    self.feedback.owe();
                }
                Ok(FrameOutcome::Taken)
            }
        }
    }

    /// Takes any message but an Insert.
    fn message(
        &mut self,
        frame: &XLogData<'_>,
        now: Now,
        settings: &SessionSettings,
    ) -> Result<FrameOutcome, Failure> {
        match Message::parse(frame.data).as_ref()? {
            Message::Begin(_) if self.phase == SessionPhase::Draining => {
                return Ok(self.wait(WaitReason::Draining));
            }
            Message::Begin(begin) if self.isolate(begin.final_lsn) => {
                return Ok(self.wait(WaitReason::Isolate));
            }
            Message::Begin(begin) => {
                self.ledger.begin(begin)?;
                self.rows.begin(begin.final_lsn);
                self.inserts = 0;
                self.commit_interval_micros = begin.committed_at.micros_since(self.committed_at);
                self.committed_at = begin.committed_at;
                self.last_commit_at = Some(begin.committed_at);
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
                self.rows.describe(&settings.outboxes, relation, frame.data);
                failpoint::reached(Failpoint::RelationTaken);
            }
            // The transaction was replicated from another server, and its commit time is that
            // server's: it may lie months back. It stays the record's timestamp, but neither
            // latency nor backlog is measured from it.
            Message::Origin(_) => {
                self.ledger.measure_from(frame.sent_at);
                self.last_commit_at = Some(frame.sent_at);
            }
            Message::Update(update) => return self.take_update(update.relation, now),
            // An outbox is append-only, and its publication should publish inserts only: these
            // messages are counted and ignored. Deleting what was published is housekeeping.
            Message::Delete(_) => self.rows_ignored.delete += 1,
            Message::Truncate(_) => self.rows_ignored.truncate += 1,
            Message::Type(named) => self.rows.name_type(named, frame.data),
            // `insert` takes rows. The other messages were not asked for, or mean nothing for an
            // outbox. A stray Stream Abort was seen from PostgreSQL 18.
            Message::Insert(_) | Message::Logical(_) | Message::StreamAbort(_) => {}
        }
        Ok(FrameOutcome::Taken)
    }

    #[inline]
    fn insert<S: RecordSink>(
        &mut self,
        insert: &Insert<'_>,
        now: Now,
        topics: &mut Topics,
        sink: &mut S,
    ) -> Result<FrameOutcome, Failure> {
        let ledger = &mut self.ledger;
        let row = self.rows.route(insert, self.committed_at, topics, |record, size| {
            let ticket = ledger.issue(size.held_bytes()).map_err(NotProduced::Disorder)?;
            failpoint::reached(Failpoint::BeforeEnqueue);
            sink.produce(record, ticket).map_err(|Refusal { ticket, reason }| {
                ledger.withdraw(ticket);
                NotProduced::Refused(reason)
            })?;
            Ok(record.topic)
        });
        match row {
            Row::Event(Ok(topic)) => {
                failpoint::reached(Failpoint::AfterEnqueue);
                topics.produced(topic);
                self.retried_failure = None;
                Ok(FrameOutcome::Taken)
            }
            Row::Event(Err(why)) => self.not_produced(why, now.at),
            Row::NotOutbox => {
                self.rows_ignored.insert += 1;
                Ok(FrameOutcome::Taken)
            }
            Row::FilteredOut => self.count_filtered_row(),
            Row::TopicPending(topic) => Ok(self.wait(WaitReason::Topic(topic))),
            Row::Refused(refused) => self.refused(*refused, now.at),
        }
    }

    #[cold]
    fn not_produced(&mut self, why: NotProduced, at: Moment) -> Result<FrameOutcome, Failure> {
        Ok(match why {
            NotProduced::Disorder(disorder) => return Err(disorder.into()),
            NotProduced::Refused(RefusalReason::Full) => {
                failpoint::reached(Failpoint::QueueFull);
                self.wait_until_room(at)
            }
            NotProduced::Refused(RefusalReason::PartitionWaits) => self.wait_until_room(at),
            NotProduced::Refused(RefusalReason::Closed) => self.wait(WaitReason::SinkClosed),
        })
    }

    /// A row that `where` filters.
    #[cold]
    fn count_filtered_row(&mut self) -> Result<FrameOutcome, Failure> {
        self.ledger.count_without_record()?;
        self.rows_filtered += 1;
        Ok(FrameOutcome::Taken)
    }

    /// An UPDATE.
    pub(super) fn take_update(&mut self, relation: Oid, now: Now) -> Result<FrameOutcome, Failure> {
        if let Some(failure) = self.rows.refuse_update(relation)? {
            return Ok(self.wait_at_row(failure, None, now.at));
        }
        self.rows_ignored.update += 1;
        Ok(FrameOutcome::Taken)
    }

    /// A row cannot be routed: the session waits at it, or ends, depending on the class of the
    /// failure. A row at which it waits may become a dead letter (`held`).
    #[cold]
    fn refused(&mut self, row: RefusedRow, at: Moment) -> Result<FrameOutcome, Failure> {
        let RefusedRow { failure, topic } = row;
        match failure.class() {
            Class::Mendable => Ok(self.wait_at_row(failure, topic, at)),
            Class::Transport | Class::Replay | Class::Gap | Class::Note => Err(failure),
        }
    }

    pub(crate) fn pace(&self) -> ReadPace {
        ReadPace::of(&Traffic {
            lag_micros: self.last_commit_at.map_or(0, |since| self.sent_at.micros_since(since)),
            apart_micros: self.commit_interval_micros,
            is_amid_transaction: self.ledger.is_open(),
        })
    }
}
