//! One replication connection's life, from the first frame to the last status update: what each frame means, what is
//! held back and why, and when the stream is drained. It dies with its connection; the slot remembers.

use std::collections::HashMap;

use pgoutput::{
    DecodeError, Frame, Insert, Lsn, Message, Oid, PgTimestamp, Relation, ReplyRequest,
    parse_insert_prefix,
};

use crate::{
    clock::{Moment, Now},
    columns::{Columns, Event},
    failure::{Code, Failure},
    feedback::{Due, Feedback, Listening, Timing},
    ledger::{Carried, ConfirmedLsn, Disorder, Ledger, Window},
    ports::{RecordSink, Refusal, RefusalReason},
    record::{Record, TopicId},
    route::{Router, Scratch, described},
    table::{OutboxTable, Outboxes, TableName},
    ticket::SessionId,
    topics::{Readiness, TopicFacts, Topics},
};

/// What became of a frame that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Done with it.
    Taken,
    /// Not now: offer the same frame again when [`crate::Relay::wants_wal`] says so.
    Held,
}

/// Why the frame at hand waits, and everything behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Its topic has not been found.
    Topic(TopicId),
    /// The producer's queue is full.
    QueueFull,
    /// The sink is closed; the failure that closed it is on its way.
    SinkClosed,
    /// The row cannot become a record until a person changes something.
    Row { failure: Failure, again_at: Moment, topic: Option<TopicId> },
    /// It begins a transaction, and we are stopping.
    Draining,
}

/// Where the session is on its way to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// Following the WAL.
    Following,
    /// Stopping: reads on to the commit of the open transaction only.
    Draining,
    /// `CopyDone` was sent: what still arrives is read and dropped, so that the last status is not lost.
    Finishing,
}

enum Binding {
    Ours(Box<Router>),
    Foreign,
    Broken(Failure),
}

/// How long a row that cannot become a record waits before it is looked at again.
pub(crate) const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

/// Kafka's record batch header (61 bytes) and the most that a record's own varints take.
const BATCH_OVERHEAD: usize = 61 + 35;

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
    feedback: Feedback,
    relations: HashMap<Oid, Binding>,
    scratch: Scratch,
    /// The last position seen on the wire.
    pub(crate) received: Lsn,
    pub(crate) hold: Option<Hold>,
    pub(crate) course: Course,
    /// A topic's partition count changed: nothing more is produced until everything produced so far is settled.
    repin: Option<(TopicId, TopicFacts)>,
    committed_at: PgTimestamp,
    /// How old a transaction is when the server sends it, by the server's own clock, in microseconds.
    server_lag: i64,
    pub(crate) transactions: u64,
    pub(crate) rows_ignored: u64,
}

impl Session {
    pub(crate) fn new(id: SessionId, terms: &Terms, at: Moment) -> Self {
        Self {
            ledger: Ledger::new(id),
            feedback: Feedback::new(terms.timing, at),
            relations: HashMap::new(),
            scratch: Scratch::default(),
            received: Lsn::ZERO,
            hold: None,
            course: Course::Following,
            repin: None,
            committed_at: PgTimestamp::from_micros(0),
            server_lag: 0,
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
        match Frame::parse(payload).map_err(|error| protocol(&error))? {
            Frame::XLogData(data) => {
                let message = Message::parse(data.data).map_err(|error| protocol(&error))?;
                if let Message::Begin(begin) = &message {
                    self.server_lag = data.sent_at.micros_since(begin.committed_at);
                }
                let step = self.message(&message, now, terms, topics, sink)?;
                // Relation messages carry no position of their own (their header says 0/0).
                if step == Step::Taken && data.wal_start > self.received {
                    self.received = data.wal_start;
                }
                Ok(step)
            }
            Frame::Keepalive(keepalive) => {
                self.received = self.received.max(keepalive.wal_end);
                self.ledger.keepalive(keepalive.wal_end, keepalive.sent_at);
                if keepalive.reply == ReplyRequest::Requested {
                    self.feedback.owe();
                }
                Ok(Step::Taken)
            }
        }
    }

    #[inline]
    fn message<S: RecordSink>(
        &mut self,
        message: &Message<'_>,
        now: Now,
        terms: &Terms,
        topics: &mut Topics,
        sink: &mut S,
    ) -> Result<Step, Failure> {
        match message {
            Message::Insert(insert) => return self.insert(insert, now, topics, sink),
            Message::Begin(_) if self.course == Course::Draining => {
                return Ok(self.hold(Hold::Draining));
            }
            Message::Begin(begin) => {
                self.committed_at = begin.committed_at;
                self.ledger.begin(begin.final_lsn, begin.committed_at).map_err(disorder)?;
            }
            Message::Commit(commit) => {
                let carried =
                    self.ledger.commit(commit.commit_lsn, commit.end_lsn).map_err(disorder)?;
                self.received = self.received.max(commit.end_lsn);
                if carried == Carried::Events {
                    self.transactions += 1;
                }
            }
            Message::Relation(relation) => {
                let binding = bind(&terms.outboxes, relation);
                self.relations.insert(relation.id, binding);
            }
            // An outbox is append-only: a publication should publish nothing but inserts, and these say nothing to us.
            Message::Update(_) | Message::Delete(_) | Message::Truncate(_) => {
                self.rows_ignored += 1
            }
            // Not asked for, or without meaning for an outbox. A stray Stream Abort was seen from PostgreSQL 18.
            Message::Origin(_)
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
        let router = match self.relations.get_mut(&insert.relation) {
            Some(Binding::Ours(router)) => router,
            Some(Binding::Foreign) => {
                self.rows_ignored += 1;
                return Ok(Step::Taken);
            }
            Some(Binding::Broken(failure)) => {
                let failure = failure.clone();
                return Ok(self.hold_row(failure, None, now.at));
            }
            None => return Err(unknown_relation(insert.relation)),
        };
        let event = router.columns().event(insert.tuple.iter())?;
        let routed = match router.route(&event, topics, &mut self.scratch) {
            Ok(routed) => routed,
            Err(failure) => return Ok(self.hold_row(failure, None, now.at)),
        };
        let topic = routed.topic;
        let Readiness::Ready(facts) = topics.readiness(topic) else {
            return Ok(self.hold(Hold::Topic(topic)));
        };
        let record = routed.record(facts.partitions, self.committed_at);
        if let Some(failure) = too_large(&record, &event, facts, topics) {
            return Ok(self.hold_row(failure, Some(topic), now.at));
        }
        let ticket = self.ledger.issue(record.held_bytes()).map_err(disorder)?;
        match sink.produce(&record, ticket) {
            Ok(()) => Ok(Step::Taken),
            Err(Refusal { ticket, reason }) => {
                self.ledger.withdraw(ticket);
                Ok(self.hold(match reason {
                    RefusalReason::Full => Hold::QueueFull,
                    RefusalReason::Closed => Hold::SinkClosed,
                }))
            }
        }
    }
}

impl Session {
    /// A row larger than `limits.row_bytes`, of which only the beginning was kept. Rows of other tables are none of
    /// our business, whatever their size.
    pub(crate) fn oversized(
        &mut self,
        announced: usize,
        prefix: &[u8],
        now: Now,
        terms: &Terms,
    ) -> Result<Step, Failure> {
        self.feedback.heard(now.at);
        if self.course == Course::Finishing {
            return Ok(Step::Taken);
        }
        let row = match Frame::parse(prefix).map_err(|error| protocol(&error))? {
            Frame::XLogData(data) => {
                parse_insert_prefix(data.data).map_err(|error| protocol(&error))?
            }
            Frame::Keepalive(_) => {
                return Err(Failure::new(
                    Code::Protocol,
                    format!("a keepalive of {announced} bytes"),
                ));
            }
        };
        let failure = match self.relations.get(&row.relation) {
            Some(Binding::Foreign) => {
                self.rows_ignored += 1;
                return Ok(Step::Taken);
            }
            Some(Binding::Ours(router)) => {
                let event = router.columns().partial_event(row.columns())?;
                let limit = terms.row_bytes;
                Failure::new(
                    Code::RowTooLarge,
                    format!(
                        "{} of {}: {announced} bytes are more than limits.row_bytes ({limit})",
                        described(&event),
                        router.table().name
                    ),
                )
                .hint(format!("set limits.row_bytes above {announced} bytes, see that the topic's max.message.bytes allows it, and restart"))
            }
            Some(Binding::Broken(failure)) => failure.clone(),
            None => return Err(unknown_relation(row.relation)),
        };
        Ok(self.hold_row(failure, None, now.at))
    }

    fn hold(&mut self, hold: Hold) -> Step {
        self.hold = Some(hold);
        Step::Held
    }

    fn hold_row(&mut self, failure: Failure, topic: Option<TopicId>, at: Moment) -> Step {
        let failure = match self.ledger.open_commit_lsn() {
            Some(lsn) => failure.at(lsn),
            None => failure,
        };
        self.hold(Hold::Row { failure, again_at: at + LOOK_AGAIN, topic })
    }

    /// Whether the next frame may be offered.
    pub(crate) fn wants_wal(&self, window: Window) -> bool {
        let wanted = match self.course {
            Course::Finishing => return true,
            Course::Following => true,
            Course::Draining => self.ledger.is_open(),
        };
        wanted && self.hold.is_none() && self.repin.is_none() && self.ledger.has_room(window)
    }

    /// How fast to read: see [`crate::Pace`].
    pub(crate) fn server_lag(&self) -> i64 {
        self.server_lag
    }

    /// Lets go of what may have changed: called after every input that is not a frame.
    pub(crate) fn review(&mut self, at: Moment, topics: &mut Topics) {
        if let Some((topic, facts)) = self.repin
            && self.ledger.is_settled_but_for_open()
        {
            topics.answer(topic, Ok(facts), at);
            self.repin = None;
        }
        let over = match &self.hold {
            None | Some(Hold::SinkClosed | Hold::Draining) => false,
            Some(Hold::QueueFull) => true,
            Some(Hold::Topic(topic)) => matches!(topics.readiness(*topic), Readiness::Ready(_)),
            Some(Hold::Row { again_at, topic, .. }) => {
                let due = *again_at <= at;
                if due && let Some(topic) = topic {
                    // The topic's limit may have been raised.
                    topics.forget_one(*topic);
                }
                due
            }
        };
        if over {
            self.hold = None;
        }
    }

    /// A topic that is in use was looked up again. A larger partition count moves keys to other partitions, so it
    /// takes effect only when nothing that was produced under the old one is unsettled.
    pub(crate) fn topic_changed(
        &mut self,
        id: TopicId,
        old: TopicFacts,
        new: TopicFacts,
    ) -> Result<(), Failure> {
        if new.partitions < old.partitions {
            return Err(Failure::new(
                Code::TopicShrunk,
                format!(
                    "a topic went from {} to {} partitions: it was made anew",
                    old.partitions, new.partitions
                ),
            ));
        }
        self.repin = Some((id, new));
        Ok(())
    }

    /// The status update that is due, if any; `Err` when the server no longer answers.
    pub(crate) fn update(
        &mut self,
        now: Now,
        window: Window,
    ) -> Result<Option<StatusUpdate>, Failure> {
        let listening = if self.wants_wal(window) { Listening::Yes } else { Listening::No };
        let due = self.feedback.due(now.at, &self.ledger, self.received, window, listening);
        let reply = match due {
            Due::Nothing => return Ok(None),
            Due::Silence => {
                return Err(Failure::new(
                    Code::ServerSilent,
                    "the walsender no longer answers, although the connection looks alive",
                ));
            }
            Due::Update => ReplyRequest::Optional,
            Due::Question => ReplyRequest::Requested,
        };
        Ok(Some(self.status(now, due, reply)))
    }

    /// The last update before `CopyDone`.
    pub(crate) fn last_update(&mut self, now: Now) -> StatusUpdate {
        self.course = Course::Finishing;
        self.status(now, Due::Update, ReplyRequest::Optional)
    }

    fn status(&mut self, now: Now, due: Due, reply: ReplyRequest) -> StatusUpdate {
        let flush = self.ledger.tell();
        let write = self.received.max(flush.lsn());
        self.feedback.sent(due, self.received, now.at);
        StatusUpdate { write, flush, clock: now.wall, reply }
    }

    /// When [`Session::update`] or [`Session::review`] has something to do at the latest.
    pub(crate) fn deadline(&self, topics: &Topics) -> Moment {
        let feedback = self.feedback.deadline(&self.ledger, self.received);
        match &self.hold {
            Some(Hold::Row { again_at, .. }) => feedback.min(*again_at),
            Some(Hold::Topic(topic)) => {
                topics.ask_at(*topic).map_or(feedback, |ask| feedback.min(ask))
            }
            None | Some(Hold::QueueFull | Hold::SinkClosed | Hold::Draining) => feedback,
        }
    }

    /// Whether a draining session has nothing left to wait for: everything received is settled, but for a transaction
    /// whose rest is held back.
    pub(crate) fn is_drained(&self) -> bool {
        match self.hold {
            None | Some(Hold::Draining | Hold::QueueFull) => self.ledger.is_settled(),
            Some(Hold::Topic(_) | Hold::Row { .. } | Hold::SinkClosed) => {
                self.ledger.is_settled_but_for_open()
            }
        }
    }
}

/// What the server is told. `flush` and `apply` are the same position, and only the ledger makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusUpdate {
    /// Received: the server does not keep it, but shows it in `pg_stat_replication`.
    pub write: Lsn,
    /// Delivered: the slot's `confirmed_flush_lsn`.
    pub flush: ConfirmedLsn,
    /// Our clock.
    pub clock: PgTimestamp,
    /// Whether the server should answer.
    pub reply: ReplyRequest,
}

/// What a relation is to us.
fn bind(outboxes: &Outboxes, relation: &Relation<'_>) -> Binding {
    let name = TableName {
        schema: String::from_utf8_lossy(relation.namespace).into_owned(),
        name: String::from_utf8_lossy(relation.name).into_owned(),
    };
    let table = if outboxes.tables.is_empty() {
        OutboxTable::with_defaults(name)
    } else {
        match outboxes.tables.iter().find(|table| table.name == name) {
            Some(table) => table.clone(),
            None => return Binding::Foreign,
        }
    };
    match Columns::resolve(&table, relation) {
        Ok(columns) => Binding::Ours(Box::new(Router::new(table, columns))),
        Err(failure) => Binding::Broken(failure),
    }
}

/// A record that the topic would refuse: better held here than failed there, with its neighbours.
fn too_large(
    record: &Record<'_>,
    event: &Event<'_>,
    facts: TopicFacts,
    topics: &Topics,
) -> Option<Failure> {
    let limit = facts.max_message_bytes?;
    let size = record.payload_bytes() + BATCH_OVERHEAD;
    if size <= limit {
        return None;
    }
    let topic = topics.name(record.topic)?;
    Some(
        Failure::new(
            Code::RecordTooLarge,
            format!("{}: its record of {size} bytes is more than topic {topic} takes (max.message.bytes={limit})", described(event)),
        )
        .hint(format!("kafka-configs --alter --entity-type topics --entity-name {topic} --add-config max.message.bytes={}", size.next_power_of_two())),
    )
}

fn protocol(error: &DecodeError) -> Failure {
    Failure::new(Code::Protocol, error.to_string())
}

fn disorder(error: Disorder) -> Failure {
    Failure::new(Code::Protocol, error.to_string())
}

fn unknown_relation(relation: Oid) -> Failure {
    Failure::new(Code::Protocol, format!("a row of relation {relation}, which was never described"))
}
