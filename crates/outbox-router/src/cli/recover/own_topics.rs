//! Whether the record of a row is in the topic to which the row itself goes. Copies are elsewhere:
//! of `replay --to-topic`, of consumers that keep the headers in a topic of retries or dead
//! letters. And a record with the row's id may be that of a former row, which was deleted. So each
//! row whose id a topic has is routed as in a stream, and its record is compared.

use std::collections::HashMap;

use pgoutput::PgTimestamp;
use relay::{
    Acks, Case, Failure, Filtering, Offered, Record, RecordSink, Refusal, Republish,
    RepublishSettings, Ticket, TopicId, TopicName,
};
use tokio_postgres::Client;

use super::{
    seen::SEEN,
    table::ComparedTable,
    topics::{FORGET, TopicNumbers},
};
use crate::{
    cli::TaskError,
    config::Config,
    owned_record::OwnedRecord,
    postgres::frames::{PREFIX_BYTES, frame_limit},
    prepare,
    republish::{
        rows::{Next, Rows},
        selection::Query,
        sender::UNKNOWN,
    },
};

/// How many rows may be in other topics alone: their ids are in memory until all are known.
const FORGOTTEN_MAX: usize = 1_000_000;
/// How many of them are forgotten at once.
const CHUNK: usize = 20_000;

/// How many rows have their id in a topic, and not their record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Others {
    /// It is in other topics than their own alone.
    pub(super) elsewhere: u64,
    /// Their own topic has other records of it: the row was updated since, or the id was that of a
    /// former row.
    pub(super) differing: u64,
}

/// Forgets the ids of the rows that are in no topic of their own.
///
/// # Errors
/// The rows cannot be read, or are too many.
pub(super) async fn forget_copies(
    client: &Client,
    config: &Config,
    (table, rows): (&ComparedTable, &Query),
    topics: &TopicNumbers,
) -> Result<Others, TaskError> {
    let mut others = Others::default();
    let Ok(id) = &table.rows.columns.id else { return Ok(others) };
    let seen = format!(
        "join (select s.id as outbox_router_id, \
           string_agg(distinct s.topic || ':' || s.content, ',') \
           as outbox_router_topics from {SEEN} s where s.number = {} group by s.id) seen \
         on seen.outbox_router_id = concat({})",
        table.number,
        rows.column(id)
    );
    let copy = rows.copy_joined("seen.outbox_router_topics", &seen, table.rows.encoding());
    // A row that `where` leaves out now may have been an event.
    let unfiltered =
        RepublishSettings { filtering: Filtering::Ignored, ..RepublishSettings::default() };
    let mut routing = Routing {
        republish: table.rows.republish(config, unfiltered)?,
        row_bytes: prepare::size(config.limits.row_bytes),
        names: HashMap::new(),
        sink: LastRecord::default(),
    };
    let mut forgotten: Vec<String> = Vec::new();
    let mut read = Rows::begin(client, &copy, table.rows.row.oid).await?;
    while read.advance().await? == Next::Row {
        let own = match routing.record_of(read.message())? {
            // It is never sent.
            Place::Nowhere => continue,
            Place::Unknown => None,
            Place::Topic(name, record) => topics.topics.get(&name).zip(Some(record)),
        };
        let seen = own.map_or(InTopic::Not, |(topic, record)| {
            look(read.first(), *topic, topics.contents.of_record(&record))
        });
        match seen {
            InTopic::Record => continue,
            InTopic::Id => {
                others.differing += 1;
                continue;
            }
            InTopic::Not => others.elsewhere += 1,
        }
        forgotten.extend(read.text(id.place));
        if forgotten.len() > FORGOTTEN_MAX {
            let what = format!(
                "more than {FORGOTTEN_MAX} rows of {} are in other topics than their own",
                table.rows.row.table
            );
            return Err(Failure::of(Case::RecoverId, what).into());
        }
    }
    drop(read);
    for ids in forgotten.chunks(CHUNK) {
        client.execute(FORGET, &[&table.number, &ids]).await?;
    }
    Ok(others)
}

/// Whether a topic has a row.
enum InTopic {
    Record,
    /// Another record with its id.
    Id,
    Not,
}

/// Looks a row up among the records that all topics have of its id, each as `topic:content`.
fn look(records: &str, topic: i32, content: i64) -> InTopic {
    let (topic, content) = (topic.to_string(), content.to_string());
    let records = records.split(',').filter_map(|record| record.split_once(':'));
    let own = records.filter(|(of, _)| *of == topic);
    let mut seen = InTopic::Not;
    for (_, own) in own {
        if own == content {
            return InTopic::Record;
        }
        seen = InTopic::Id;
    }
    seen
}

/// Where the record of a row belongs.
enum Place {
    Topic(TopicName, OwnedRecord),
    /// Its aggregate type matches no route, and such rows are dropped.
    Nowhere,
    /// The row cannot become a record now.
    Unknown,
}

struct Routing {
    republish: Republish,
    row_bytes: usize,
    names: HashMap<TopicId, TopicName>,
    sink: LastRecord,
}

impl Routing {
    fn record_of(&mut self, message: &[u8]) -> Result<Place, Failure> {
        loop {
            let offered = if message.len() > frame_limit(self.row_bytes) {
                let prefix = message.get(..PREFIX_BYTES).unwrap_or(message);
                self.republish.offer_oversized(message.len(), prefix, self.row_bytes)?
            } else {
                self.republish.offer(message, PgTimestamp::from_unix_micros(0), &mut self.sink)?
            };
            self.republish.acknowledged(&self.sink.acks);
            self.sink.acks.clear();
            match offered {
                Offered::Produced => {
                    let Some(record) = self.sink.record.take() else { return Ok(Place::Unknown) };
                    let name = self.names.get(&record.topic).cloned();
                    return Ok(name.map_or(Place::Unknown, |name| Place::Topic(name, record)));
                }
                Offered::FilteredOut => return Ok(Place::Nowhere),
                Offered::Refused(..) => {
                    self.republish.leave_out();
                    return Ok(Place::Unknown);
                }
                Offered::LookUpTopic(id, name) => {
                    self.names.insert(id, name);
                    self.republish.topic(id, UNKNOWN);
                }
                Offered::Full | Offered::Closed => return Ok(Place::Unknown),
            }
        }
    }
}

/// Takes every record, and keeps the last one.
#[derive(Default)]
struct LastRecord {
    record: Option<OwnedRecord>,
    acks: Acks,
}

impl RecordSink for LastRecord {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        self.record = Some(OwnedRecord::of(record));
        self.acks.push(ticket, record.topic);
        Ok(())
    }
}
