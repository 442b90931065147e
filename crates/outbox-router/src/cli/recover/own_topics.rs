//! Whether a record with a row's id is in the topic to which the row itself goes. Copies are
//! elsewhere: of `replay --to-topic`, of consumers that keep the headers in a topic of retries or
//! dead letters. So each row whose id a topic has is routed as in a stream.

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
    postgres::frames::{PREFIX_BYTES, frame_limit},
    prepare,
    republish::{
        rows::{Next, Rows},
        selection::Query,
        sender::UNKNOWN,
    },
};

/// How many rows may be in other topics alone: their ids are in memory until all are known.
const ELSEWHERE_MAX: usize = 1_000_000;
/// How many of them are forgotten at once.
const CHUNK: usize = 20_000;

/// Forgets the ids of the rows that are in no topic of their own. Returns how many those are.
///
/// # Errors
/// The rows cannot be read, or are too many.
pub(super) async fn forget_copies(
    client: &Client,
    config: &Config,
    (table, rows): (&ComparedTable, &Query),
    topics: &TopicNumbers,
) -> Result<u64, TaskError> {
    let Ok(id) = &table.rows.columns.id else { return Ok(0) };
    let seen = format!(
        "join (select s.id as outbox_router_id, string_agg(distinct s.topic::text, ',') \
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
        sink: LastTopic::default(),
    };
    let mut elsewhere: Vec<String> = Vec::new();
    let mut read = Rows::begin(client, &copy, table.rows.row.oid).await?;
    while read.advance().await? == Next::Row {
        let own = routing.topic_of(read.message())?;
        let own = match own {
            // It is never sent.
            Place::Nowhere => continue,
            Place::Unknown => None,
            Place::Topic(name) => topics.get(&name).copied(),
        };
        let is_there = own.is_some_and(|own| {
            let own = own.to_string();
            read.first().split(',').any(|seen| seen == own)
        });
        if is_there {
            continue;
        }
        elsewhere.extend(read.text(id.place));
        if elsewhere.len() > ELSEWHERE_MAX {
            let what = format!(
                "more than {ELSEWHERE_MAX} rows of {} are in other topics than their own",
                table.rows.row.table
            );
            return Err(Failure::of(Case::RecoverId, what).into());
        }
    }
    drop(read);
    for ids in elsewhere.chunks(CHUNK) {
        client.execute(FORGET, &[&table.number, &ids]).await?;
    }
    Ok(u64::try_from(elsewhere.len()).unwrap_or(u64::MAX))
}

/// Where the record of a row belongs.
enum Place {
    Topic(TopicName),
    /// Its aggregate type matches no route, and such rows are dropped.
    Nowhere,
    /// The row cannot become a record now.
    Unknown,
}

struct Routing {
    republish: Republish,
    row_bytes: usize,
    names: HashMap<TopicId, TopicName>,
    sink: LastTopic,
}

impl Routing {
    fn topic_of(&mut self, message: &[u8]) -> Result<Place, Failure> {
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
                    let name = self.sink.topic.take().and_then(|id| self.names.get(&id));
                    return Ok(name.map_or(Place::Unknown, |name| Place::Topic(name.clone())));
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

/// Takes every record, and keeps the topic of the last one.
#[derive(Default)]
struct LastTopic {
    topic: Option<TopicId>,
    acks: Acks,
}

impl RecordSink for LastTopic {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        self.topic = Some(record.topic);
        self.acks.push(ticket, record.topic);
        Ok(())
    }
}
