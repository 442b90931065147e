//! From a row of the stream to a record: which table the row belongs to, what the table's mapping
//! makes of it, and where the record goes. The session produces the record, and a dry run only
//! shows it; so both decide alike about every row.

use pgoutput::{Insert, InsertPrefix, Lsn, Oid, PgTimestamp, Relation, TupleColumns, Type};

use super::{
    held_row::HeldRow,
    relations::{Binding, LostColumns, Relations, not_described},
};
use crate::{
    failure::{Code, Failure, Name},
    routing::{
        columns::{Event, Value},
        mapping::MappedRow,
        record::{Record, Size, TopicId},
        route::{Arrived, FormatHeaders, Original, Scratch, TableRouter, name_of_row, naming_row},
        table::{OnUpdate, Outboxes, Role},
        topic::TopicName,
        topics::{Readiness, TopicFacts, Topics},
    },
    source::{FilterLabels, TableOids},
};

/// The relations of a stream, and the buffers for one row.
pub(crate) struct Rows {
    relations: Relations,
    scratch: Scratch,
    mapped: MappedRow,
}

/// What a row is.
pub(crate) enum Row<T> {
    /// An event, whose record was taken with this result.
    Event(T),
    /// A row of a table that is no outbox.
    NotOutbox,
    /// A row of an outbox that `where` filters.
    FilteredOut,
    /// An event whose topic's partition count is not known yet.
    TopicPending(TopicId),
    /// A row that cannot become a record, or whose record the topic would refuse.
    Refused(Box<RefusedRow>),
}

/// Why a row is refused.
pub(crate) struct RefusedRow {
    pub(crate) failure: Failure,
    /// The topic that would refuse its record.
    pub(crate) topic: Option<TopicId>,
}

impl<T> From<Failure> for Row<T> {
    #[cold]
    fn from(failure: Failure) -> Self {
        Self::Refused(Box::new(RefusedRow { failure, topic: None }))
    }
}

impl Rows {
    pub(crate) fn new(tables: TableOids) -> Self {
        Self::with(Relations::new(tables, LostColumns::Taken, FilterLabels::default()))
    }

    /// Rows in the order of a stream, behind a reading of the labels.
    pub(super) fn of_stream(tables: TableOids, labels: FilterLabels) -> Self {
        Self::with(Relations::new(tables, LostColumns::Refused, labels))
    }

    fn with(relations: Relations) -> Self {
        Self { relations, scratch: Scratch::default(), mapped: MappedRow::default() }
    }

    /// Notes that the messages of a transaction come, which commits there.
    pub(super) fn begin(&mut self, commit: Lsn) {
        self.relations.begin(commit);
    }

    /// Notes a Relation message.
    pub(crate) fn describe(
        &mut self,
        outboxes: &Outboxes,
        relation: &Relation<'_>,
        message: &[u8],
    ) {
        self.relations.describe(outboxes, relation, message);
    }

    /// Notes a Type message.
    pub(crate) fn name_type(&mut self, named: &Type<'_>, message: &[u8]) {
        self.relations.name_type(named, message);
    }

    /// The router of an outbox whose columns fit.
    pub(crate) fn router(&self, relation: Oid) -> Option<&TableRouter> {
        self.relations.router(relation)
    }

    /// Routes one row, and gives its record to `take`: the record borrows from buffers that this
    /// call fills, and to return it would cost 150 instructions (`scripts/instructions.sh`). A row
    /// without its Relation message (P007), and one with a value in an unexpected form (R010), are
    /// refused, too.
    #[inline(always)]
    pub(crate) fn route<T>(
        &mut self,
        insert: &Insert<'_>,
        committed_at: PgTimestamp,
        topics: &mut Topics,
        take: impl FnOnce(&Record<'_>, Size) -> T,
    ) -> Row<T> {
        let router = match self.relations.of_row(insert.relation) {
            Some(Binding::Outbox(router)) => router,
            Some(Binding::NotOutbox) => return Row::NotOutbox,
            Some(Binding::Broken(_, failure)) => return failure.clone().into(),
            None => return not_described(insert.relation).into(),
        };
        let mut event = Event::default();
        if let Err(failure) = router.columns().read(insert.tuple.iter(), &mut event) {
            return failure.into();
        }
        self.scratch.headers.clear();
        let mut mapped = None;
        if router.columns().plan().is_some() {
            let (row, headers) = (insert.tuple.iter(), &mut self.scratch.headers);
            mapped = match router.map_row(row, &mut event, &mut self.mapped, headers) {
                Ok(Some(mapped)) => Some(mapped),
                Ok(None) => return Row::FilteredOut,
                Err(failure) => return failure.into(),
            };
        }
        let mut format_headers = FormatHeaders::default();
        let routed = match router.route(&event, topics, &mut self.scratch, &mut format_headers) {
            Ok(routed) => routed,
            Err(failure) => return failure.into(),
        };
        let topic = routed.topic;
        let facts = match topics.readiness(topic) {
            Readiness::Ready(facts) => facts,
            Readiness::Pending => return Row::TopicPending(topic),
            Readiness::Illegal => {
                return refused_by(topic, no_such_topic(topic, &event, topics));
            }
        };
        let mut partition_and_time = routed.partition_and_time(facts.partitions, committed_at);
        if let Some(mapped) = mapped {
            partition_and_time = match mapped.override_with(partition_and_time, facts.partitions) {
                Ok(partition_and_time) => partition_and_time,
                Err(partition) => {
                    let failure = no_such_partition(topic, partition, &event, facts, topics);
                    return refused_by(topic, failure);
                }
            };
        }
        let record = routed.record(&format_headers, partition_and_time);
        let size = record.size();
        if let Some(failure) = too_large(topic, size, &event, facts, topics) {
            return refused_by(topic, failure);
        }
        Row::Event(take(&record, size))
    }

    /// The key of the record that a row would become; `None` for a row that is no event or has no
    /// key that can be read.
    pub(crate) fn key<'a>(
        &'a mut self,
        relation: Oid,
        row: TupleColumns<'a>,
        arrived: Arrived,
    ) -> Option<&'a [u8]> {
        let Self { relations, scratch, mapped } = self;
        match relations.of_row(relation)? {
            Binding::Outbox(router) if arrived.has_key(router.columns(), row) => {
                router.key(row, mapped, scratch)
            }
            Binding::Outbox(_) | Binding::NotOutbox | Binding::Broken(..) => None,
        }
    }

    /// Whether what says which key a row of an outbox has, if any, arrived.
    pub(crate) fn has_key(
        &mut self,
        relation: Oid,
        row: TupleColumns<'_>,
        arrived: Arrived,
    ) -> bool {
        match self.relations.of_row(relation) {
            Some(Binding::Outbox(router)) => arrived.has_key(router.columns(), row),
            Some(Binding::NotOutbox | Binding::Broken(..)) | None => true,
        }
    }

    /// The messages that describe an outbox.
    pub(crate) fn description(&self, relation: Oid) -> &[u8] {
        self.relations.description(relation)
    }

    /// The table and the id of a row, as far as they are known. The row may be cut short.
    pub(crate) fn name(
        &mut self,
        relation: Oid,
        row: TupleColumns<'_>,
    ) -> (String, Option<String>) {
        match self.relations.of_row(relation) {
            Some(Binding::Outbox(router)) => {
                let mut event = Event::default();
                let is_read = router.columns().read_partial(row, &mut event).is_ok();
                let id = match event.get(Role::Id) {
                    Value::Some(id, _) if is_read => Some(String::from_utf8_lossy(id).into_owned()),
                    Value::Some(..) | Value::Null | Value::Absent => None,
                };
                (router.table().name.to_string(), id)
            }
            Some(Binding::Broken(table, _)) => (table.name.to_string(), None),
            Some(Binding::NotOutbox) | None => (String::new(), None),
        }
    }

    /// What the record of a row would have been, as far as it can be made.
    #[cold]
    pub(crate) fn original(
        &mut self,
        relation: Oid,
        row: TupleColumns<'_>,
        arrived: Arrived,
    ) -> Original {
        let Self { relations, scratch, mapped } = self;
        match relations.of_row(relation) {
            Some(Binding::Outbox(router)) => router.original(row, arrived, mapped, scratch),
            Some(Binding::NotOutbox | Binding::Broken(..)) | None => Original::default(),
        }
    }

    /// [`Rows::route`] for an event that is released. It has a body of its own, so that the one for
    /// the stream stays inlined.
    #[cold]
    #[inline(never)]
    pub(crate) fn route_held<T>(
        &mut self,
        insert: &Insert<'_>,
        committed_at: PgTimestamp,
        topics: &mut Topics,
        take: impl FnOnce(&Record<'_>, Size) -> T,
    ) -> Row<T> {
        self.route(insert, committed_at, topics, take)
    }

    /// The values of the columns that choose the topic and name the event's type, where they can be
    /// read; `None` of a row of no outbox.
    pub(crate) fn types<'a>(&self, row: HeldRow<'a>) -> Option<[Option<&'a [u8]>; 2]> {
        let columns = self.router(row.relation())?.columns();
        let mut event = Event::default();
        let read = match row.arrived() {
            Arrived::Whole => columns.read(row.columns(), &mut event),
            Arrived::Beginning => columns.read_partial(row.columns(), &mut event),
        };
        let text = |role| match event.get(role) {
            Value::Some(text, _) if read.is_ok() => Some(text),
            Value::Some(..) | Value::Null | Value::Absent => None,
        };
        Some([Role::AggregateType, Role::EventType].map(text))
    }

    /// The id of a row, where it can be read.
    pub(crate) fn id<'a>(&mut self, insert: &Insert<'a>) -> Option<&'a [u8]> {
        let Some(Binding::Outbox(router)) = self.relations.of_row(insert.relation) else {
            return None;
        };
        let mut event = Event::default();
        router.columns().read(insert.tuple.iter(), &mut event).ok()?;
        match event.get(Role::Id) {
            Value::Some(id, _) => Some(id),
            Value::Null | Value::Absent => None,
        }
    }

    /// Why a row in a frame of `announced` bytes is refused, when only the frame's beginning was
    /// kept; `None` for a row of another table.
    ///
    /// # Errors
    /// The row's relation was not described (P007), or a value has an unexpected form (R010).
    pub(crate) fn refuse_oversized(
        &mut self,
        announced: usize,
        row: &InsertPrefix<'_>,
        row_bytes: usize,
    ) -> Result<Option<Failure>, Failure> {
        Ok(match self.binding(row.relation)? {
            Binding::NotOutbox => None,
            Binding::Outbox(router) => {
                let mut event = Event::default();
                router.columns().read_partial(row.columns(), &mut event)?;
                let failure = Failure::new(
                    Code::RowTooLarge,
                    format!(
                        "{} of {}: {announced} bytes are more than a row may have ({row_bytes})",
                        name_of_row(&event),
                        router.table().name
                    ),
                );
                Some(naming_row(failure.naming(Name::Bytes, announced), &event))
            }
            Binding::Broken(_, failure) => Some(failure.clone()),
        })
    }

    fn binding(&mut self, relation: Oid) -> Result<&mut Binding, Failure> {
        self.relations.of_row(relation).ok_or_else(|| not_described(relation))
    }

    /// Why an UPDATE is refused, where it is: the event that a row is was sent when it was
    /// inserted.
    ///
    /// # Errors
    /// The row's relation was not described (P007).
    pub(crate) fn refuse_update(&mut self, relation: Oid) -> Result<Option<Failure>, Failure> {
        Ok(match self.binding(relation)? {
            Binding::Outbox(router) if router.table().on_update == OnUpdate::Error => {
                let what = format!("a row of {} was updated", router.table().name);
                Some(Failure::new(Code::RowUpdated, what))
            }
            Binding::Outbox(_) | Binding::NotOutbox | Binding::Broken(..) => None,
        })
    }
}

#[cold]
fn refused_by<T>(topic: TopicId, failure: Failure) -> Row<T> {
    Row::Refused(Box::new(RefusedRow { failure, topic: Some(topic) }))
}

/// Why the topic would refuse the record, if it would. The session waits at the row here, since a
/// refusal by the broker would also fail the other records in flight.
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

/// Why no cluster has the topic of a row.
#[cold]
fn no_such_topic(topic: TopicId, event: &Event<'_>, topics: &Topics) -> Failure {
    let why = topics.refusal(topic).map_or("", |failure| failure.message.as_str());
    let failure = Failure::new(Code::TopicIllegal, format!("{}: {why}", name_of_row(event)));
    naming_row(failure, event)
}

#[cold]
fn no_such_partition(
    topic: TopicId,
    partition: i32,
    event: &Event<'_>,
    facts: TopicFacts,
    topics: &Topics,
) -> Failure {
    let name = topics.name(topic).map_or("", TopicName::as_str);
    let (row, partitions) = (name_of_row(event), facts.partitions);
    let failure = Failure::new(
        Code::PartitionUnusable,
        format!(
            "{row} names partition {partition} of topic {name}, which has {partitions} partitions"
        ),
    )
    .naming(Name::Topic, name);
    naming_row(failure, event)
}

#[cold]
fn record_too_large(topic: &TopicName, size: usize, limit: usize, event: &Event<'_>) -> Failure {
    Failure::new(
        Code::RecordTooLarge,
        format!("{}: its record of {size} bytes is more than topic {topic} takes (max.message.bytes={limit})", name_of_row(event)),
    )
    .naming(Name::Topic, topic)
    .naming(Name::Bytes, size.next_power_of_two())
}
