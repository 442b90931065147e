//! Rows that are read from an outbox table, and not from the stream: records of the past that are
//! produced again, or for the first time. Where the rows come from and how far a run got is the
//! caller's; so is every clock.
//!
//! Rows go the way of [`Rows`], as in a session, so a record is the one that the stream gives,
//! except for its time where the mapping takes that of the commit: the table does not contain it,
//! and the caller says what stands in its place.

mod batches;
mod changes;

use pgoutput::{Insert, Message, PgTimestamp, parse_insert_prefix};

use crate::{
    clock::Moment,
    failure::{Code, Failure, Name},
    ports::{Acks, RecordSink, Refusal, RefusalReason},
    progress::WitnessStore,
    routing::{
        record::TopicId,
        table::Outboxes,
        topic::TopicName,
        topics::{Readiness, TopicFacts, Topics},
    },
    session::{Row, Rows},
    source::TableOids,
};
use batches::Batches;
use changes::Changes;

/// What differs from the records of the stream.
#[derive(Debug, Clone, Default)]
pub struct RepublishSettings {
    /// All records go to this topic, to the partition of their key.
    pub to_topic: Option<TopicName>,
    /// A header that each record has at its end, with the value `1`.
    pub marker: Option<String>,
    /// The part of `where`.
    pub filtering: Filtering,
}

/// The part that the configured `where` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filtering {
    /// Rows that it leaves out are no events.
    #[default]
    Applied,
    /// They are sent, too: as they were inserted they may have been events.
    Ignored,
}

/// See the module's header.
pub struct Republish {
    outboxes: Outboxes,
    rows: Rows,
    topics: Topics,
    changes: Changes,
    batches: Batches,
}

/// What became of a row.
#[derive(Debug)]
pub enum Offered {
    /// It was produced, and is settled when it is acknowledged.
    Produced,
    /// `where` filters it, or its table is no outbox; it is settled.
    FilteredOut,
    /// `run` would stop at it, with the row's id where it has one. [`Republish::leave_out`] settles
    /// it.
    Refused(Box<Failure>, Option<Vec<u8>>),
    /// Its topic is not known yet: give the answer to [`Republish::topic`] or
    /// [`Republish::no_topic`], and offer the row again.
    LookUpTopic(TopicId, TopicName),
    /// The producer has no room: offer the row again after the next acknowledgements.
    Full,
    /// An earlier record failed, so nothing more is produced.
    Closed,
}

/// What became of a record.
enum Taken {
    Produced,
    Not(RefusalReason),
    /// It is larger, by this size, than the topic takes to which all records go.
    TooLarge(usize),
}

impl Republish {
    /// `tables` says which OIDs belong to the configured tables.
    ///
    /// # Errors
    /// The topic is one too many (R011).
    pub fn new(
        mut outboxes: Outboxes,
        tables: TableOids,
        settings: RepublishSettings,
    ) -> Result<Self, Failure> {
        let mut topics = Topics::new(WitnessStore::Memory);
        let RepublishSettings { to_topic, marker, filtering } = settings;
        match filtering {
            Filtering::Applied => {}
            Filtering::Ignored => outboxes.tables.iter_mut().for_each(|table| table.filter = None),
        }
        let to_topic = to_topic.map(|name| topics.intern(name)).transpose()?;
        Ok(Self {
            outboxes,
            rows: Rows::new(tables),
            topics,
            changes: Changes { to_topic, marker },
            batches: Batches::default(),
        })
    }

    /// Takes a Relation or Type message, which describes rows that follow.
    ///
    /// # Errors
    /// It is another message, or cannot be decoded (P007).
    pub fn describe(&mut self, message: &[u8]) -> Result<(), Failure> {
        match Message::parse(message).as_ref()? {
            Message::Relation(relation) => self.rows.describe(&self.outboxes, relation, message),
            Message::Type(named) => self.rows.name_type(named, message),
            Message::Begin(_)
            | Message::Commit(_)
            | Message::Origin(_)
            | Message::Insert(_)
            | Message::Update(_)
            | Message::Delete(_)
            | Message::Truncate(_)
            | Message::Logical(_)
            | Message::StreamAbort(_) => {
                return Err(Failure::new(Code::Protocol, "a message that describes no row"));
            }
        }
        Ok(())
    }

    /// The answer to [`Offered::LookUpTopic`].
    pub fn topic(&mut self, id: TopicId, facts: TopicFacts) {
        self.topics.answer(id, Ok(facts), Moment::default());
    }

    /// The other answer: no cluster has a topic of this name (R003). Its rows are refused.
    pub fn no_topic(&mut self, id: TopicId, failure: Failure) {
        debug_assert_eq!(failure.code, Code::TopicIllegal);
        self.topics.answer(id, Err(failure), Moment::default());
    }

    /// Offers the next row, as an Insert message. `at` stands in the place of the commit's time.
    ///
    /// # Errors
    /// The message cannot be decoded, or is none of a row (P007).
    pub fn offer<S: RecordSink>(
        &mut self,
        message: &[u8],
        at: PgTimestamp,
        sink: &mut S,
    ) -> Result<Offered, Failure> {
        let Some(insert) = Insert::parse(message) else {
            return Err(Failure::new(Code::Protocol, "a message of no row"));
        };
        let insert = insert?;
        let target = match self.changes.to_topic {
            None => None,
            Some(id) => match self.topics.readiness(id) {
                Readiness::Ready(facts) => Some((id, facts)),
                Readiness::Pending | Readiness::Illegal => return Ok(self.pending(id)),
            },
        };
        let Self { rows, topics, changes, batches, .. } = self;
        let row = rows.route(&insert, at, topics, |record, _| {
            let changed = changes.apply(record, target);
            let record = match changed.record() {
                Ok(record) => record,
                Err(bytes) => return Taken::TooLarge(bytes),
            };
            let ticket = batches.issue(record.held_bytes());
            match sink.produce(&record, ticket) {
                Ok(()) => Taken::Produced,
                Err(Refusal { ticket, reason }) => {
                    batches.withdraw(ticket);
                    Taken::Not(reason)
                }
            }
        });
        Ok(match row {
            Row::Event(Taken::Produced) => {
                self.batches.row();
                Offered::Produced
            }
            Row::Event(Taken::Not(RefusalReason::Full | RefusalReason::PartitionWaits)) => {
                Offered::Full
            }
            Row::Event(Taken::Not(RefusalReason::Closed)) => Offered::Closed,
            Row::Event(Taken::TooLarge(bytes)) => {
                Offered::Refused(Box::new(self.too_large(bytes)), self.id_of(&insert))
            }
            Row::FilteredOut | Row::NotOutbox => {
                self.batches.row();
                Offered::FilteredOut
            }
            Row::TopicPending(id) => self.pending(id),
            Row::Refused(row) => Offered::Refused(Box::new(row.failure), self.id_of(&insert)),
        })
    }

    /// Offers the beginning of an Insert message of `announced` bytes, where that is more than a
    /// row of `row_bytes` may have.
    ///
    /// # Errors
    /// The beginning cannot be decoded, or its table was not described (P007).
    pub fn offer_oversized(
        &mut self,
        announced: usize,
        prefix: &[u8],
        row_bytes: usize,
    ) -> Result<Offered, Failure> {
        let row = parse_insert_prefix(prefix)?;
        Ok(match self.rows.refuse_oversized(announced, &row, row_bytes)? {
            Some(failure) => Offered::Refused(Box::new(failure), None),
            None => {
                self.batches.row();
                Offered::FilteredOut
            }
        })
    }

    /// The row that was refused is not produced, and counts as settled.
    pub fn leave_out(&mut self) {
        self.batches.row();
    }

    /// Counts acknowledgements.
    pub fn acknowledged(&mut self, acks: &Acks) {
        acks.runs().iter().for_each(|run| self.batches.acknowledged(run));
    }

    /// How many rows, from the first on, are settled without a gap: a later run may leave them out.
    pub fn settled(&self) -> u64 {
        self.batches.settled()
    }

    /// How many records are not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.batches.in_flight()
    }

    /// The name of a topic.
    pub fn topic_name(&self, id: TopicId) -> Option<&TopicName> {
        self.topics.name(id)
    }

    fn pending(&self, id: TopicId) -> Offered {
        self.topics.name(id).map_or(Offered::Closed, |name| Offered::LookUpTopic(id, name.clone()))
    }

    fn id_of(&mut self, insert: &Insert<'_>) -> Option<Vec<u8>> {
        self.rows.id(insert).map(<[u8]>::to_vec)
    }

    fn too_large(&self, bytes: usize) -> Failure {
        let name = self.changes.to_topic.and_then(|id| self.topics.name(id));
        let topic = name.map_or("", TopicName::as_str);
        let what = format!("a record of {bytes} bytes is more than topic {topic} takes");
        Failure::new(Code::RecordTooLarge, what).naming(Name::Topic, topic)
    }
}

#[cfg(test)]
mod tests;
