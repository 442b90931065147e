//! Searches the topics for events, and finds out what it means that a record is not there.

use std::{
    collections::BTreeMap,
    num::NonZeroI32,
    time::{SystemTime, UNIX_EPOCH},
};

use pgoutput::Xid;
use relay::{
    Failure, TopicName,
    delivered::{BeforeGaps, compared::since_restore},
};
use tokio_postgres::Client;

use super::{
    evidence::{Doubt, Event, Interval, Left, Mark, Stream, TopicState},
    marks,
    position::{self, SlotPosition},
    search::{Ending, Range, Search},
    topics::{Neighbour, TopicOf, topics_of},
    verdict::needs_topic,
    wanted::Wanted,
    whose,
};
use crate::{
    cli::{
        TaskError, accept,
        connect::Access,
        explain_row::{EventRow, EventRows, Placed, Placement},
        first_of_gap::first_of_gap,
        since,
        status::summary,
        topic_lookups::Topic,
        witness::{Records, recoverable_gaps},
    },
    config::{Config, SourceKind},
    kafka::Extent,
    prepare,
};

/// A record is stored with its commit's time, and the search begins at the row's own, which is no
/// later; both are rounded.
const MARGIN_MS: i64 = 1_000;

/// How far clocks may be apart: of the database and the router, whose clock a record may carry, and
/// of the application, which may write a row's time.
const CLOCKS_MS: i64 = 2 * 3_600 * 1_000;

/// See the module's header.
pub(super) struct Settle<'s> {
    pub(super) config: &'s Config,
    pub(super) access: Access<'s>,
    pub(super) client: &'s Client,
    /// `--key`, beside an id.
    pub(super) key: Option<&'s str>,
    pub(super) tables: &'s [EventRows],
    pub(super) search: Search,
    /// `--since`, in milliseconds since 1970.
    pub(super) since: Option<i64>,
    /// From when on topics are read for an event without a time.
    pub(super) default: i64,
    pub(super) events: Vec<Event>,
}

/// A partition with events that are looked for.
struct Part {
    topic: TopicName,
    partition: i32,
    count: NonZeroI32,
    /// From when on it is read.
    millis: i64,
    /// The offsets that were read first.
    from: i64,
    to: i64,
}

impl Settle<'_> {
    /// Looks for the record of each event that has a row. Returns how the stream is, if an answer
    /// depends on it: never of polled rows.
    ///
    /// # Errors
    /// PostgreSQL or Kafka does not answer.
    pub(super) async fn settle(
        &mut self,
        horizon: position::Horizon,
    ) -> Result<Option<Stream>, TaskError> {
        let stream = self.look(horizon).await?;
        self.mark_gaps().await?;
        Ok(stream)
    }

    async fn look(&mut self, horizon: position::Horizon) -> Result<Option<Stream>, TaskError> {
        self.place()?;
        let mut parts = self.parts()?;
        self.read_parts(&parts)?;
        if !self.events.iter().any(needs_topic) {
            return Ok(None);
        }
        let position = match self.config.postgres.source {
            SourceKind::Stream => self.read_slot(horizon).await?,
            SourceKind::Polling => {
                Box::pin(self.read_marks()).await?;
                None
            }
        };
        // What was produced before it was confirmed or marked, and after the topic was read.
        self.read_tails(&mut parts)?;
        self.read_further(&parts)?;
        if !self.events.iter().any(needs_topic) {
            return Ok(None);
        }
        self.describe_topics()?;
        match self.config.postgres.source {
            SourceKind::Stream => Box::pin(self.stream(position)).await.map(Some),
            SourceKind::Polling => Ok(None),
        }
    }

    /// Finds out which events that were found may lie in an open gap: the record may be that of a
    /// former row with the same id, unless that is a UUID. A server that was restored gives ids
    /// again, of rows as of transactions.
    async fn mark_gaps(&mut self) -> Result<(), TaskError> {
        let may_repeat = |event: &Event| {
            event.row.is_some() && event.found.is_some() && !whose::is_unique(&event.id)
        };
        let is_stream = self.config.postgres.source == SourceKind::Stream;
        if !is_stream || !self.events.iter().any(may_repeat) {
            return Ok(());
        }
        let Some(records) = Records::of(self.config, self.access)? else { return Ok(()) };
        let source = prepare::source(self.config, self.access.endpoint("where")?);
        let facts = Box::pin(accept::read_facts(self.config, &records, &source, None)).await;
        let facts = match facts {
            Ok(facts) => facts,
            Err(TaskError::Failure(failure)) => {
                for event in self.events.iter_mut().filter(|event| may_repeat(event)) {
                    event.doubt = Some(Doubt::Unknown(failure.clone()));
                }
                return Ok(());
            }
            Err(output @ TaskError::Output(_)) => return Err(output),
        };
        let gaps = recoverable_gaps(&facts.witness);
        let Some(gap) = gaps.first() else { return Ok(()) };
        let of = (&facts.witness, &*gaps);
        let (first, next) = first_of_gap(self.client, of, &facts.reading).await?;
        let restored_ms = match since_restore(&facts.witness, &gaps) {
            Some(at) => Some(since::micros_of(self.client, &at).await? / 1_000),
            None => None,
        };
        let before = first.and_then(|first| BeforeGaps::of(&gaps, (first, next), restored_ms));
        for event in self.events.iter_mut().filter(|event| may_repeat(event)) {
            let is_before =
                event.row.as_ref().zip(before).is_some_and(|(row, before)| {
                    before.has(Xid::from_u32(row.xmin), row.written_ms)
                });
            event.doubt = (!is_before).then(|| Doubt::Gap(Box::new(gap.clone())));
        }
        Ok(())
    }

    /// Finds out which rows the slot has confirmed.
    async fn read_slot(
        &mut self,
        horizon: position::Horizon,
    ) -> Result<Option<SlotPosition>, TaskError> {
        let slot = self.config.postgres.slot.as_str();
        let position = position::read(self.client, slot).await?;
        for event in &mut self.events {
            let proved = |row: &EventRow| {
                position.is_some_and(|position| position.has_confirmed(row.xmin, horizon))
            };
            event.is_confirmed = event.row.as_ref().is_some_and(proved);
        }
        Ok(position)
    }

    /// Finds out which rows are marked as published.
    async fn read_marks(&mut self) -> Result<(), TaskError> {
        marks::read(self.client, self.config, &mut self.events).await?;
        for event in &mut self.events {
            event.is_confirmed = event.mark.as_ref().is_some_and(Mark::is_passed);
        }
        Ok(())
    }

    /// Routes each row.
    fn place(&mut self) -> Result<(), Failure> {
        for event in &mut self.events {
            let (Some(row), Some(of)) = (&event.row, event.of) else { continue };
            let Some(table) = self.tables.get(of) else { continue };
            let lookups = &self.search.lookups;
            event.placement = Some(table.place(row, |name| lookups.look_up(name))?);
        }
        Ok(())
    }

    /// From when on an event's record is looked for.
    fn begins_at(&self, event: &Event) -> i64 {
        let own = event.record_ms().map(|millis| millis.saturating_sub(MARGIN_MS));
        self.since.or(own).unwrap_or(self.default)
    }

    /// The partitions that the records belong to.
    fn parts(&self) -> Result<Vec<Part>, Failure> {
        let mut parts = BTreeMap::<(&str, i32), (&Placed, i64)>::new();
        for event in self.events.iter().filter(|event| needs_topic(event)) {
            let Some(Placement::Record(placed)) = &event.placement else { continue };
            let millis = self.begins_at(event);
            let part = parts.entry((placed.topic.as_str(), placed.partition));
            let (_, begin) = part.or_insert((placed, millis));
            *begin = millis.min(*begin);
        }
        let mut begun = Vec::with_capacity(parts.len());
        for ((_, partition), (placed, millis)) in parts {
            let (topic, count) = (placed.topic.clone(), placed.count);
            let extents = self.search.extents(&topic, count, millis)?;
            let Extent { at: from, end: to, .. } = extent_of(&extents, partition);
            begun.push(Part { topic, partition, count, millis, from, to });
        }
        Ok(begun)
    }

    fn read_parts(&mut self, parts: &[Part]) -> Result<(), Failure> {
        let range = |part: &Part| Range {
            topic: part.topic.clone(),
            partition: part.partition,
            from: part.from,
            to: part.to,
        };
        let ranges: Vec<Range> = parts.iter().map(range).collect();
        self.read(&ranges, needs_topic)
    }

    /// Reads what has come since.
    fn read_tails(&mut self, parts: &mut [Part]) -> Result<(), Failure> {
        let mut ranges = Vec::new();
        for part in parts {
            let extents = self.search.extents(&part.topic, part.count, part.millis)?;
            let Extent { end, .. } = extent_of(&extents, part.partition);
            let (topic, partition) = (part.topic.clone(), part.partition);
            ranges.push(Range { topic, partition, from: part.to, to: end });
            part.to = end;
        }
        self.read(&ranges, needs_topic)
    }

    /// For rows that are not sent again: reads what clocks may have dated earlier, and the
    /// other partitions of the topic, which a record belonged to while the topic had fewer.
    fn read_further(&mut self, parts: &[Part]) -> Result<(), Failure> {
        let is_sought = |event: &Event| needs_topic(event) && event.is_confirmed;
        let mut topics = BTreeMap::<&str, Vec<&Part>>::new();
        for part in parts {
            let is_of = |event: &Event| {
                matches!(&event.placement, Some(Placement::Record(placed))
                    if placed.topic == part.topic && placed.partition == part.partition)
            };
            if self.events.iter().any(|event| is_sought(event) && is_of(event)) {
                topics.entry(part.topic.as_str()).or_default().push(part);
            }
        }
        let mut ranges = Vec::new();
        for of_topic in topics.into_values() {
            let Some(first) = of_topic.first() else { continue };
            let earliest = of_topic.iter().map(|part| part.millis).min().unwrap_or(first.millis);
            let earlier = self.since.unwrap_or(earliest.saturating_sub(CLOCKS_MS));
            let extents = self.search.extents(&first.topic, first.count, earlier)?;
            for (partition, extent) in (0..).zip(&extents) {
                let known = of_topic.iter().find(|part| part.partition == partition);
                let to = known.map_or(extent.end, |part| part.from);
                ranges.push(Range { topic: first.topic.clone(), partition, from: extent.at, to });
            }
        }
        self.read(&ranges, is_sought)
    }

    /// Reads ranges for the records of some events.
    fn read(
        &mut self,
        ranges: &[Range],
        is_sought: impl Fn(&Event) -> bool,
    ) -> Result<(), Failure> {
        let wanted = self.events.iter().filter(|event| is_sought(event)).filter_map(Event::wanted);
        let read = self.search.searched.len();
        let scanned = self.search.scan(ranges, wanted)?;
        let now = self.search.searched.get(read..).unwrap_or_default();
        for event in self.events.iter_mut().filter(|event| is_sought(event)) {
            let Some(Placement::Record(placed)) = &event.placement else { continue };
            let wanted = event.wanted();
            event.found = wanted.as_ref().and_then(|wanted| scanned.found.get(wanted)).cloned();
            let other = wanted.and_then(|wanted| scanned.of_another_key.get(&wanted.id)).cloned();
            event.of_another_key = other.or_else(|| event.of_another_key.take());
            if let Some((record, count)) =
                event.wanted().and_then(|wanted| scanned.of_other_content.get(&wanted.id))
            {
                let before = event.of_other_content.as_ref().map_or(0, |(_, count)| *count);
                event.of_other_content = Some((record.clone(), before + count));
            }
            // Of a confirmed row, every partition of its topic counts.
            let of_event = now.iter().filter(|searched| {
                searched.topic == placed.topic
                    && (event.is_confirmed || searched.partition == placed.partition)
            });
            let endings = of_event.map(|searched| searched.ending).chain(event.ending);
            event.ending = endings.max();
        }
        Ok(())
    }

    /// What the topics have left of the time of each event that was not found.
    fn describe_topics(&mut self) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        for event in self.events.iter_mut().filter(|event| needs_topic(event)) {
            let (Some(Placement::Record(placed)), Some(millis)) =
                (&event.placement, event.record_ms())
            else {
                continue;
            };
            let extents = self.search.extents(&placed.topic, placed.count, millis)?;
            let own = extent_of(&extents, placed.partition);
            event.topic = Some(TopicState {
                name: placed.topic.clone(),
                low: own.low,
                left: match own.at == own.low {
                    _ if extents.iter().all(|extent| extent.at == 0) => Left::AllYounger,
                    true => Left::Younger,
                    false => Left::AsOld,
                },
                age_ms: now.saturating_sub(millis),
                retention: self.search.lookups.retention(&placed.topic)?,
            });
        }
        Ok(())
    }

    async fn stream(&self, position: Option<SlotPosition>) -> Result<Stream, TaskError> {
        let client = self.client;
        let summary = Box::pin(summary(self.config, self.access)).await?;
        let mut gaps = Vec::with_capacity(summary.gaps.len());
        for gap in &summary.gaps {
            let mut millis = [None, None];
            for (known, at) in millis.iter_mut().zip([&gap.at_risk.from, &gap.at_risk.to]) {
                if let Some(at) = at {
                    *known = Some(since::micros_of(client, at).await? / 1_000);
                }
            }
            let [from, to] = millis;
            gaps.push((Interval { from, to }, gap.clone()));
        }
        Ok(Stream { summary, confirmed: position.map(|position| position.confirmed), gaps })
    }

    /// Looks for an event without a row in every topic that the tables' rows may go to, and at last
    /// in those where a record with its id may be of another table.
    ///
    /// # Errors
    /// Kafka does not answer.
    pub(super) fn search_topics(
        &mut self,
        ids: &[String],
        millis: i64,
        neighbours: &[Neighbour],
    ) -> Result<(), Failure> {
        let (mut own, mut shared) = (Vec::<Range>::new(), Vec::<Range>::new());
        for topic in self.topics()? {
            let is_shared = neighbours.iter().any(|neighbour| neighbour.may_use(&topic.name));
            let ranges = if is_shared { &mut shared } else { &mut own };
            ranges.extend(self.ranges(&topic, millis)?);
        }
        let wanted = Wanted::without_row(ids, self.key);
        let (mut found, mut of_another_key) = (None, None);
        for ranges in [own, shared] {
            if found.is_none() {
                let scanned = self.search.scan_for_one(&ranges, wanted.iter().cloned())?;
                found = scanned.found.into_values().next();
                of_another_key = scanned.of_another_key.into_values().next().or(of_another_key);
            }
        }
        let endings = self.search.searched.iter().map(|searched| searched.ending);
        let ending = endings.max().unwrap_or(Ending::Read);
        if let Some(event) = self.events.first_mut() {
            let may_be_of = |neighbour: &&Neighbour| {
                found.as_ref().is_some_and(|found| neighbour.may_use(&found.topic))
            };
            let others = neighbours.iter().filter(may_be_of);
            event.others = others.map(|neighbour| neighbour.table.clone()).collect();
            (event.found, event.of_another_key) = (found, of_another_key);
            event.ending = Some(ending);
        }
        Ok(())
    }

    /// The topics that the tables' rows may go to, without the router's own.
    fn topics(&self) -> Result<Vec<TopicOf<'_>>, Failure> {
        let config = self.config;
        let own = [config.kafka.state_topic.as_ref(), config.dead_letters.topic.as_ref()];
        let is_own = |topic: &TopicOf<'_>| {
            own.iter().flatten().any(|own| own.as_str() == topic.name.as_str())
        };
        let topics = topics_of(self.tables, self.search.lookups.names()?);
        Ok(topics.into_iter().filter(|topic| !is_own(topic)).collect())
    }

    /// What of a topic is read for an event without a row.
    fn ranges(&self, topic: &TopicOf<'_>, millis: i64) -> Result<Vec<Range>, Failure> {
        let Topic::Exists(facts) = self.search.lookups.look_up(&topic.name)? else {
            return Ok(Vec::new());
        };
        let count = facts.partitions;
        let of_key = self.key.and_then(|key| {
            let partitions = topic.tables.iter().map(|table| table.partition_of(key, count));
            partitions.collect::<Option<Vec<i32>>>()
        });
        let extents = self.search.extents(&topic.name, count, millis)?;
        let mut ranges = Vec::new();
        for (partition, extent) in (0..).zip(extents) {
            if of_key.as_ref().is_none_or(|of_key| of_key.contains(&partition)) {
                let (from, to) = (extent.at, extent.end);
                ranges.push(Range { topic: topic.name.clone(), partition, from, to });
            }
        }
        Ok(ranges)
    }
}

fn extent_of(extents: &[Extent], partition: i32) -> Extent {
    let nothing = Extent { low: 0, at: 0, end: 0 };
    usize::try_from(partition).ok().and_then(|n| extents.get(n)).copied().unwrap_or(nothing)
}
