//! A producer as librdkafka is one here: a queue for each partition; records that have left the
//! socket and may be stored whatever becomes of the process; and stored records whose
//! acknowledgements have not arrived. A record that waits too long is given up. That is looked for
//! once in a while only, and not while the process is stopped.

use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use relay::{
    Code, Failure, Moment, Record, RecordSink, Refusal, RefusalReason, Ticket, TopicId,
    TransactionRef,
};

use super::{
    kafka::{ON_THE_WIRE, Partition, SentRecord, StrayRecord},
    shape,
};

/// How often records that have waited too long are looked for: librdkafka does once a second, and
/// a lease lasts ten.
pub const SCAN_EVERY: Duration = Duration::from_secs(1);

/// A record is given up after this.
const GIVE_UP_AFTER: Duration = Duration::from_secs(4);

/// A record that was handed over. The checker looks at it.
#[derive(Debug)]
pub struct HandedOver {
    /// The row that its header `id` names.
    pub row: usize,
    /// The content of the row that its value has.
    pub content: u64,
    /// Whether key, value and topic are the row's.
    pub is_intact: bool,
}

/// See the module's header.
#[derive(Debug)]
pub struct PolledProducer {
    /// Unique in the run.
    pub number: u64,
    process: u64,
    capacity: usize,
    in_flight: usize,
    lanes: BTreeMap<Partition, Lane>,
    acks: VecDeque<(Ticket, TopicId)>,
    failure: Option<(Option<TransactionRef>, Failure)>,
    is_closed: bool,
    /// Index of each topic, by the core's number for it.
    bound: Vec<Option<usize>>,
    /// When records that have waited too long are looked for.
    pub scan_at: Moment,
    /// The time of what is handed over now.
    pub now: Moment,
    /// What was handed over since the checker looked.
    pub handed_over: Vec<HandedOver>,
    /// After how many records more the process is stopped.
    pub freeze_after: Option<usize>,
    /// Whether that has happened in this pass.
    pub is_frozen: Rc<Cell<bool>>,
    /// What is handed over after that, when the process goes on.
    late: Vec<(Partition, Waiting)>,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Waiting>,
    wire: VecDeque<(Waiting, Moment)>,
    stored: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    record: SentRecord,
    topic: TopicId,
    ticket: Ticket,
    since: Moment,
}

impl PolledProducer {
    /// Takes up to `capacity` records that are not acknowledged.
    pub fn new(number: u64, process: u64, capacity: usize) -> Self {
        Self {
            number,
            process,
            capacity,
            in_flight: 0,
            lanes: BTreeMap::new(),
            acks: VecDeque::new(),
            failure: None,
            is_closed: false,
            bound: Vec::new(),
            scan_at: Moment::default(),
            now: Moment::default(),
            handed_over: Vec::new(),
            freeze_after: None,
            is_frozen: Rc::default(),
            late: Vec::new(),
        }
    }

    /// Binds the core's number of a topic to the topic's index.
    pub fn bind(&mut self, id: TopicId, topic: usize) {
        if self.bound.len() <= id.index() {
            self.bound.resize(id.index() + 1, None);
        }
        self.bound[id.index()] = Some(topic);
    }

    /// Partitions with records that have not left.
    pub fn queued(&self) -> Vec<Partition> {
        self.partitions(|lane| !self.is_closed && !lane.queue.is_empty())
    }

    /// Partitions with records that have left and are not stored.
    pub fn on_wire(&self) -> Vec<Partition> {
        self.partitions(|lane| !lane.wire.is_empty())
    }

    /// Partitions with records that are stored and not acknowledged.
    pub fn unacked(&self) -> Vec<Partition> {
        self.partitions(|lane| !self.is_closed && !lane.stored.is_empty())
    }

    /// Records that are neither acknowledged nor failed.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The rows of the records that have not failed and are not acknowledged.
    pub fn rows(&self) -> Vec<usize> {
        let of_lane = |lane: &Lane| -> Vec<usize> {
            let wire = lane.wire.iter().map(|(waiting, _)| waiting);
            let all = lane.queue.iter().chain(wire).chain(&lane.stored);
            all.map(|waiting| waiting.record.row).collect()
        };
        self.lanes.values().flat_map(of_lane).collect()
    }

    /// The record of a partition that leaves next.
    pub fn next(&self, partition: Partition) -> Option<SentRecord> {
        self.lanes.get(&partition)?.queue.front().map(|waiting| waiting.record)
    }

    /// The next record of a partition leaves the socket.
    pub fn send(&mut self, partition: Partition, now: Moment) {
        if let Some(lane) = self.lanes.get_mut(&partition)
            && let Some(next) = lane.queue.pop_front()
        {
            lane.wire.push_back((next, now + ON_THE_WIRE));
        }
    }

    /// The record that arrives next in a partition, and when at the latest.
    pub fn arriving(&self, partition: Partition) -> Option<(SentRecord, Moment)> {
        let (waiting, by) = self.lanes.get(&partition)?.wire.front()?;
        Some((waiting.record, *by))
    }

    /// It is stored.
    pub fn stored(&mut self, partition: Partition) {
        if let Some(lane) = self.lanes.get_mut(&partition)
            && let Some((waiting, _)) = lane.wire.pop_front()
        {
            lane.stored.push_back(waiting);
        }
    }

    /// It is refused: nothing more of the producer is taken.
    pub fn refused(&mut self, partition: Partition) {
        let Some(lane) = self.lanes.get_mut(&partition) else { return };
        let Some((waiting, _)) = lane.wire.pop_front() else { return };
        // What was sent behind it is out of sequence.
        lane.wire.clear();
        let row = waiting.ticket.transaction();
        self.fail(Some(row), Failure::new(Code::RecordRefused, "the broker refuses the record"));
    }

    /// The connection is lost: what was on the wire is sent again.
    pub fn disconnected(&mut self) {
        for lane in self.lanes.values_mut() {
            while let Some((waiting, _)) = lane.wire.pop_back() {
                lane.queue.push_front(waiting);
            }
        }
    }

    /// The oldest acknowledgement of a partition arrives.
    pub fn ack(&mut self, partition: Partition) {
        if let Some(lane) = self.lanes.get_mut(&partition)
            && let Some(waiting) = lane.stored.pop_front()
        {
            self.acks.push_back((waiting.ticket, waiting.topic));
        }
    }

    /// Takes acknowledgements that have arrived.
    pub fn take_acks(&mut self, most: usize) -> Vec<(Ticket, TopicId)> {
        let some = self.acks.len().min(most);
        self.in_flight = self.in_flight.saturating_sub(some);
        self.acks.drain(..some).collect()
    }

    /// Takes the failure, once every acknowledgement before it was taken.
    pub fn take_failure(&mut self) -> Option<(Option<TransactionRef>, Failure)> {
        let failure = self.failure.take_if(|_| self.acks.is_empty());
        self.is_closed |= failure.is_some();
        failure
    }

    /// When the oldest record that has not failed and is not acknowledged was handed over.
    pub fn oldest(&self) -> Option<Moment> {
        let of_lane = |lane: &Lane| {
            let wire = lane.wire.iter().map(|(waiting, _)| waiting);
            lane.queue.iter().chain(wire).chain(&lane.stored).map(|waiting| waiting.since).min()
        };
        self.lanes.values().filter_map(of_lane).min()
    }

    /// Whether the process is to be told of a failure.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether it takes and sends nothing more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// What is on the wire is lost.
    pub fn lose_wire(&mut self) {
        self.lanes.values_mut().for_each(|lane| lane.wire.clear());
    }

    /// Nothing more is taken, sent or acknowledged. What is on the wire may be stored.
    pub fn fail(&mut self, row: Option<TransactionRef>, failure: Failure) {
        self.is_closed = true;
        if self.failure.is_none() {
            self.failure = Some((row, failure));
        }
    }

    /// Looks for records that have waited too long, if it is time to.
    pub fn scan(&mut self, now: Moment) {
        if now < self.scan_at || self.is_closed {
            return;
        }
        self.scan_at = now + SCAN_EVERY;
        let is_late = |waiting: &Waiting| waiting.since + GIVE_UP_AFTER <= now;
        let in_order = |lane: &Lane| -> Option<TransactionRef> {
            let wire = lane.wire.iter().map(|(waiting, _)| waiting);
            let mut all = lane.stored.iter().chain(wire).chain(&lane.queue);
            all.find(|waiting| is_late(waiting)).map(|waiting| waiting.ticket.transaction())
        };
        let Some(row) = self.lanes.values().find_map(in_order) else { return };
        // What is not late may still leave before the process has read the report.
        self.lanes.values_mut().for_each(|lane| lane.queue.retain(|waiting| !is_late(waiting)));
        if self.failure.is_none() {
            self.failure = Some((Some(row), Failure::new(Code::KafkaUnreachable, "given up")));
        }
    }

    /// Whether some records of a partition are stored without their acknowledgement having arrived,
    /// and others of it are not.
    pub fn is_amid_records(&self) -> bool {
        let is_amid = |lane: &Lane| {
            let others = lane.wire.len() + lane.queue.len();
            !lane.stored.is_empty() && others > 0
        };
        self.lanes.values().any(is_amid)
    }

    /// Whether it has been given records while it was stopped.
    pub fn is_amid_pass(&self) -> bool {
        !self.late.is_empty()
    }

    /// Nothing more leaves, if any record has waited too long.
    pub fn close_if_late(&mut self, now: Moment) {
        self.scan_at = now;
        self.scan(now);
        self.is_closed |= self.failure.is_some();
    }

    /// A process that was stopped amid a pass goes on with it.
    pub fn goes_on(&mut self, now: Moment) {
        for (partition, mut waiting) in std::mem::take(&mut self.late) {
            waiting.since = now;
            self.lanes.entry(partition).or_default().queue.push_back(waiting);
        }
    }

    /// The producer is purged: what is on the wire, and what is stored without its acknowledgement
    /// having arrived.
    pub fn into_remains(self) -> (Vec<StrayRecord>, Vec<(Ticket, TopicId)>) {
        let (mut strays, mut stale) = (Vec::new(), Vec::from(self.acks));
        for (partition, lane) in self.lanes {
            let stray = |(waiting, lost_at): (Waiting, Moment)| StrayRecord {
                partition,
                record: waiting.record,
                lost_at,
            };
            strays.extend(lane.wire.into_iter().map(stray));
            stale.extend(lane.stored.into_iter().map(|waiting| (waiting.ticket, waiting.topic)));
        }
        (strays, stale)
    }

    fn partitions(&self, has: impl Fn(&Lane) -> bool) -> Vec<Partition> {
        self.lanes.iter().filter(|(_, lane)| has(lane)).map(|(partition, _)| *partition).collect()
    }
}

impl RecordSink for PolledProducer {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        if self.is_closed {
            return Err(Refusal { ticket, reason: RefusalReason::Closed });
        }
        if self.in_flight >= self.capacity {
            return Err(Refusal { ticket, reason: RefusalReason::Full });
        }
        let topic = self.bound.get(record.topic.index()).copied().flatten();
        let topic = topic.expect("only topics that were looked up are produced to");
        let id = record.headers.iter().find(|header| header.name == "id");
        let id = id.and_then(|header| std::str::from_utf8(header.value?).ok());
        let row = id.and_then(|id| id.parse().ok()).expect("every record has its row's id");
        let value = record.value.unwrap_or_default();
        let is_refused = value.starts_with(shape::REFUSED.as_bytes());
        let content = shape::content_of(value).unwrap_or(u64::MAX);
        let is_intact = is_refused || value == shape::value(row, content).as_bytes();
        self.handed_over.push(HandedOver { row, content, is_intact });
        self.in_flight += 1;
        let (partition, id_of_topic) = ((topic, record.partition), record.topic);
        let sent = SentRecord { row, content, process: self.process, is_refused };
        let waiting = Waiting { record: sent, topic: id_of_topic, ticket, since: self.now };
        match &mut self.freeze_after {
            Some(0) => self.late.push((partition, waiting)),
            freeze_after => {
                *freeze_after = freeze_after.map(|more| more - 1);
                self.is_frozen.set(*freeze_after == Some(0));
                self.lanes.entry(partition).or_default().queue.push_back(waiting);
            }
        }
        Ok(())
    }
}
