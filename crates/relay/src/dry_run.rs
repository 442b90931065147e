//! A dry run: the records that the router would produce of a stream. Nothing is produced, and
//! nothing is confirmed: there is no ledger, no window and no witness, so its frames come from a
//! temporary copy of the slot, or are made of one row (`explain`).
//!
//! Rows go the way of [`Rows`], as in a session, so a dry run shows what a session produces.

use pgoutput::{Begin, Frame, Insert, Lsn, Message, Oid, PgTimestamp, parse_insert_prefix};

use crate::{
    clock::Moment,
    failure::{Code, Failure},
    progress::WitnessStore,
    routing::{
        record::{Record, TopicId},
        route::TableRouter,
        table::{OutboxTable, Outboxes, Preset, Role},
        topic::{TopicName, TopicTemplate},
        topics::{TopicFacts, Topics},
    },
    session::{Row, Rows},
    source::TableOids,
};

/// See the module's header.
pub struct DryRun {
    outboxes: Outboxes,
    row_bytes: usize,
    rows: Rows,
    topics: Topics,
    transaction: Option<Transaction>,
    lsn: Lsn,
}

/// The transaction of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// The position of its commit record.
    pub commit_lsn: Lsn,
    /// When it was committed.
    pub committed_at: PgTimestamp,
}

/// The mapping of a relation, to be shown: how its rows become records.
#[derive(Debug, Clone, Copy)]
pub struct Mapping<'r> {
    router: &'r TableRouter,
}

impl<'r> Mapping<'r> {
    /// The configuration of the table.
    pub fn table(self) -> &'r OutboxTable {
        self.router.table()
    }

    /// The preset that fits it.
    pub fn preset(self) -> &'static Preset {
        self.router.columns().preset()
    }

    /// The topic of its events: the configured one, or the preset's.
    pub fn topic(self) -> &'r TopicTemplate {
        self.router.columns().topic()
    }

    /// The column of a role, or the text of the template that stands for it. Where columns fill the
    /// topic, the topic's template stands for [`Role::AggregateType`].
    pub fn column(self, role: Role) -> Option<&'r str> {
        self.router.columns().names().found(role)
    }
}

/// What a frame of the stream is.
#[derive(Debug)]
pub enum DryFrame {
    /// An event; its record was given to `take`.
    Event,
    /// A row that `where` filters.
    FilteredOut,
    /// A row at which `run` would stop, with the row's id where it has one.
    Refused(Box<Failure>, Option<Vec<u8>>),
    /// A row whose topic is not known yet: give its partition count to [`DryRun::topic`], and offer
    /// the frame again.
    LookUpTopic(TopicId, TopicName),
    /// Everything before this position was seen: a transaction's end, or a keepalive.
    Passed(Lsn),
    /// Anything else, such as a row of another table.
    Other,
}

impl DryRun {
    /// `tables` says which OIDs belong to the configured tables.
    pub fn new(outboxes: Outboxes, tables: TableOids, row_bytes: usize) -> Self {
        Self {
            outboxes,
            row_bytes,
            rows: Rows::new(tables),
            topics: Topics::new(WitnessStore::Memory),
            transaction: None,
            lsn: Lsn::ZERO,
        }
    }

    /// Where the WAL record lies that the last frame comes from; zero for a keepalive.
    pub const fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The transaction that is open, that of the row in the last frame.
    pub const fn transaction(&self) -> Option<Transaction> {
        self.transaction
    }

    /// The answer to [`DryFrame::LookUpTopic`].
    pub fn topic(&mut self, id: TopicId, facts: TopicFacts) {
        self.topics.answer(id, Ok(facts), Moment::default());
    }

    /// The mapping of a relation; `None` before its Relation message, and where its
    /// rows are no events or all of them are refused.
    pub fn mapping(&self, relation: Oid) -> Option<Mapping<'_>> {
        self.rows.router(relation).map(|router| Mapping { router })
    }

    /// The name of a topic, by the number in a record.
    pub fn topic_name(&self, id: TopicId) -> Option<&TopicName> {
        self.topics.name(id)
    }

    /// Takes one `CopyData` payload, and gives the record of an event to `take`.
    ///
    /// # Errors
    /// The frame cannot be decoded, or a row stands outside of a transaction (P007).
    pub fn frame(
        &mut self,
        payload: &[u8],
        take: impl FnOnce(&Record<'_>),
    ) -> Result<DryFrame, Failure> {
        let data = match Frame::parse(payload).as_ref()? {
            Frame::XLogData(data) => {
                self.lsn = data.wal_start;
                data.data
            }
            Frame::Keepalive(keepalive) => {
                self.lsn = Lsn::ZERO;
                return Ok(self.passed(keepalive.wal_end));
            }
        };
        match Insert::parse(data) {
            Some(insert) => self.insert(&insert?, take),
            None => self.message(data),
        }
    }

    /// Takes the prefix of a frame of `announced` bytes, which is larger than a row may be.
    ///
    /// # Errors
    /// The prefix cannot be decoded, or the row's relation was not described (P007).
    pub fn oversized(&mut self, announced: usize, prefix: &[u8]) -> Result<DryFrame, Failure> {
        let data = match Frame::parse(prefix)? {
            Frame::XLogData(data) => {
                self.lsn = data.wal_start;
                data.data
            }
            Frame::Keepalive(_) => {
                let what = format!("a keepalive of {announced} bytes");
                return Err(Failure::new(Code::Protocol, what));
            }
        };
        if data.first() != Some(&b'I') {
            return Ok(DryFrame::Other);
        }
        let row = parse_insert_prefix(data)?;
        let refused = self.rows.refuse_oversized(announced, &row, self.row_bytes)?;
        Ok(refused.map_or(DryFrame::Other, |failure| DryFrame::Refused(Box::new(failure), None)))
    }

    fn message(&mut self, data: &[u8]) -> Result<DryFrame, Failure> {
        match Message::parse(data).as_ref()? {
            Message::Begin(Begin { final_lsn, committed_at, .. }) => {
                let (commit_lsn, committed_at) = (*final_lsn, *committed_at);
                self.transaction = Some(Transaction { commit_lsn, committed_at });
            }
            Message::Commit(commit) => {
                self.transaction = None;
                return Ok(DryFrame::Passed(commit.end_lsn));
            }
            Message::Relation(relation) => self.rows.describe(&self.outboxes, relation, data),
            Message::Update(update) => {
                let refused = self.rows.refuse_update(update.relation)?;
                if let Some(failure) = refused {
                    return Ok(DryFrame::Refused(Box::new(failure), None));
                }
            }
            Message::Type(named) => self.rows.name_type(named, data),
            Message::Insert(_)
            | Message::Origin(_)
            | Message::Delete(_)
            | Message::Truncate(_)
            | Message::Logical(_)
            | Message::StreamAbort(_) => {}
        }
        Ok(DryFrame::Other)
    }

    fn insert(
        &mut self,
        insert: &Insert<'_>,
        take: impl FnOnce(&Record<'_>),
    ) -> Result<DryFrame, Failure> {
        let Some(transaction) = self.transaction else {
            return Err(Failure::new(Code::Protocol, "a row outside a transaction"));
        };
        let committed_at = transaction.committed_at;
        let row = self.rows.route(insert, committed_at, &mut self.topics, |record, _| take(record));
        Ok(match row {
            Row::Event(()) => DryFrame::Event,
            Row::NotOutbox => DryFrame::Other,
            Row::FilteredOut => DryFrame::FilteredOut,
            Row::TopicPending(id) => match self.topics.name(id) {
                Some(name) => DryFrame::LookUpTopic(id, name.clone()),
                None => DryFrame::Other,
            },
            Row::Refused(row) => {
                let id = self.rows.id(insert).map(<[u8]>::to_vec);
                DryFrame::Refused(Box::new(row.failure), id)
            }
        })
    }

    /// A keepalive within a transaction says nothing about what was seen.
    fn passed(&self, position: Lsn) -> DryFrame {
        match self.transaction {
            Some(_) => DryFrame::Other,
            None => DryFrame::Passed(position),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroI32;

    use super::*;
    use crate::testing::wire::{self, TEXT, Value};

    const COLUMNS: [(&str, u32); 5] = [
        ("id", TEXT),
        ("aggregate_type", TEXT),
        ("aggregate_id", TEXT),
        ("event_type", TEXT),
        ("payload", TEXT),
    ];

    fn row(id: &'static str, key: Value<'static>) -> Vec<u8> {
        let texts = [Value::Text(id), Value::Text("order"), key, Value::Text("made")];
        wire::insert(1, 7, &[texts[0], texts[1], texts[2], texts[3], Value::Text("{}")])
    }

    /// A dry run that was told about table `outbox` and its topic.
    fn begun() -> DryRun {
        let mut run = DryRun::new(Outboxes::default(), TableOids::default(), 1 << 20);
        let frames = [
            wire::begin(100, 1_000_000),
            wire::relation(7, "outbox", &COLUMNS),
            row("0", Value::Text("k")),
        ];
        for frame in &frames {
            if let DryFrame::LookUpTopic(id, name) = run.frame(frame, |_| ()).unwrap() {
                assert_eq!(name.as_str(), "outbox.event.order");
                let partitions = NonZeroI32::new(3).unwrap();
                run.topic(id, TopicFacts { partitions, max_message_bytes: None });
            }
        }
        run
    }

    #[test]
    fn an_event_is_shown_as_the_record_that_a_session_produces() {
        let mut run = begun();
        let mut shown = None;
        let seen = run.frame(&row("1", Value::Text("k")), |record| {
            shown = Some((record.key.to_vec(), record.partition, record.timestamp_ms));
        });
        assert!(matches!(seen.unwrap(), DryFrame::Event));
        let (key, partition, millis) = shown.unwrap();
        assert_eq!(
            (key.as_slice(), partition),
            (b"k".as_slice(), crate::partition_for_key(b"k", NonZeroI32::new(3).unwrap()))
        );
        assert_eq!(millis, PgTimestamp::from_micros(1_000_000).unix_millis());
    }

    #[test]
    fn a_mapping_is_what_the_core_found_in_the_relation() {
        let run = begun();
        let mapping = run.mapping(Oid::from_u32(7)).unwrap();
        assert_eq!(mapping.table().name.name, "outbox");
        assert_eq!(mapping.preset().name, "default");
        assert_eq!(mapping.topic().to_string(), "outbox.event.${aggregate_type}");
        assert_eq!(mapping.column(Role::AggregateId), Some("aggregate_id"));
        assert_eq!(mapping.column(Role::Headers), None);
        assert!(run.mapping(Oid::from_u32(8)).is_none());
    }

    #[test]
    fn a_row_at_which_run_would_stop_is_named_and_does_not_end_the_dry_run() {
        let mut run = begun();
        let seen = run.frame(&row("2", Value::Null), |_| panic!("a record")).unwrap();
        let DryFrame::Refused(failure, id) = seen else { panic!("{seen:?}") };
        assert_eq!(failure.code, Code::KeyIsNull);
        assert_eq!(id.as_deref(), Some(b"2".as_slice()));
        assert!(matches!(run.frame(&row("3", Value::Text("k")), |_| ()).unwrap(), DryFrame::Event));
    }

    #[test]
    fn a_position_is_passed_at_a_commit_and_never_amid_a_transaction() {
        let mut run = begun();
        assert!(matches!(run.frame(&wire::keepalive(900), |_| ()).unwrap(), DryFrame::Other));
        let commit = wire::commit(100, 108);
        assert!(
            matches!(run.frame(&commit, |_| ()).unwrap(), DryFrame::Passed(lsn) if lsn == Lsn::from_u64(108))
        );
        assert!(
            matches!(run.frame(&wire::keepalive(900), |_| ()).unwrap(), DryFrame::Passed(lsn) if lsn == Lsn::from_u64(900))
        );
        assert!(
            run.frame(&row("4", Value::Text("k")), |_| ()).is_err(),
            "a row outside a transaction"
        );
    }
}
