//! The cluster that the shell is given: producers in memory, numbered from zero, and answers to the
//! requests beside them.

use std::{
    collections::VecDeque,
    future::poll_fn,
    num::NonZeroI32,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

use relay::{
    Acks, Code, Failure, Record, RecordSink, Refusal, RefusalReason, StateTopicRecord, Ticket,
    TopicFacts, TopicId, TopicName, WriteAck,
    testing::MemorySink,
    witness::{TopicSight, TopicUuid},
};

use super::requests::{Requests, TestWaker, permission};
use crate::{
    kafka::{
        DeliveryFailure, Health, Identity, Keeps, StateExtent, StateLog, TopicDescription,
        TopicLimits, TopicLookup, TopicReading,
    },
    shell::{Kafka, Sink, StateTopic, TopicClient},
};

/// A request, and the producer through whose client it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Open(usize),
    LookUp(usize, String),
    See(usize),
    Ping(usize),
    StateTopicOpen(usize),
    StateTopicExtent(usize),
    StateTopicRead(usize),
    StateTopicReadOn(usize),
}

/// Without a value it deletes the key.
type KeyAndValue = (Vec<u8>, Option<Vec<u8>>);

/// Of every topic.
const PARTITIONS: NonZeroI32 = NonZeroI32::new(3).unwrap();

#[derive(Clone)]
pub(super) struct ScriptedKafka(Arc<Cluster>);

struct Cluster {
    requests: Requests<Request>,
    /// The state topic, in the order of writing.
    state_topic: Mutex<Vec<KeyAndValue>>,
    /// Whether the settings of the state topic suit.
    state_topic_suits: AtomicBool,
    id: Mutex<&'static str>,
    producers: Mutex<Vec<Producer>>,
}

impl ScriptedKafka {
    pub(super) fn new(test_waker: TestWaker) -> Self {
        Self(Arc::new(Cluster {
            requests: Requests::new(test_waker),
            state_topic: Mutex::default(),
            state_topic_suits: AtomicBool::new(true),
            id: Mutex::new("c"),
            producers: Mutex::default(),
        }))
    }

    pub(super) fn requests(&self) -> &Requests<Request> {
        &self.0.requests
    }

    pub(super) fn producers(&self) -> usize {
        self.0.producers.lock().unwrap().len()
    }

    pub(super) fn producer(&self) -> Producer {
        self.0.producers.lock().unwrap().last().unwrap().clone()
    }

    /// Somebody writes to the state topic.
    /// Returns its offset.
    pub(super) fn write(&self, key: &[u8], value: Option<&[u8]>) -> i64 {
        let mut log = self.0.state_topic.lock().unwrap();
        log.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        i64::try_from(log.len()).unwrap() - 1
    }

    /// Somebody changes the settings of the state topic, so that it suits no more, or again.
    pub(super) fn alter_state_topic(&self) {
        self.0.state_topic_suits.fetch_xor(true, Ordering::Relaxed);
    }

    /// Another cluster answers, with copies of all topics.
    pub(super) fn is_another(&self) {
        *self.0.id.lock().unwrap() = "another";
    }

    fn permitted(&self, request: Request) -> Result<(), Failure> {
        permission(self.0.requests.make(request).blocking_recv())
    }
}

impl Kafka for ScriptedKafka {
    type Sink = ScriptedSink;
    type TopicClient = Client;
    type StateTopic = Client;

    fn open(&self) -> Result<ScriptedSink, Failure> {
        let number = self.producers();
        let is_gone = |former: &Producer| former.is_closed();
        assert!(self.0.producers.lock().unwrap().iter().all(is_gone), "one after the other");
        self.permitted(Request::Open(number))?;
        let producer = Producer(Arc::new(Mutex::new(ProducerState::new(number))));
        self.0.producers.lock().unwrap().push(producer.clone());
        Ok(ScriptedSink { producer, down: None })
    }

    fn topic_client(&self, sink: &ScriptedSink) -> Client {
        Client { kafka: self.clone(), producer: sink.producer.state().number }
    }

    fn state_topic(&self, sink: &mut ScriptedSink, _name: &TopicName) -> Client {
        self.topic_client(sink)
    }

    fn brokers(&self) -> &str {
        "kafka:9092"
    }

    fn compresses(&self) -> bool {
        false
    }
}

/// The test's side of a producer.
#[derive(Clone)]
pub(super) struct Producer(Arc<Mutex<ProducerState>>);

/// What the queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    None,
    Some,
}

struct ProducerState {
    number: usize,
    records: MemorySink,
    unreported: VecDeque<Acks>,
    reports: VecDeque<Acks>,
    failure: Option<DeliveryFailure>,
    written: Option<WriteAck>,
    bound: Vec<TopicId>,
    writes: Vec<(Vec<u8>, Option<Vec<u8>>, u64)>,
    room: Room,
    waker: Option<Waker>,
    on_produce: Option<Box<dyn FnMut() + Send>>,
    closed: bool,
}

impl ProducerState {
    fn new(number: usize) -> Self {
        Self {
            number,
            records: MemorySink::new(100_000),
            unreported: VecDeque::new(),
            reports: VecDeque::new(),
            failure: None,
            written: None,
            room: Room::Some,
            bound: Vec::new(),
            writes: Vec::new(),
            waker: None,
            on_produce: None,
            closed: false,
        }
    }

    fn has_reports(&self) -> bool {
        !self.reports.is_empty() || self.failure.is_some() || self.written.is_some()
    }
}

impl Producer {
    fn state(&self) -> MutexGuard<'_, ProducerState> {
        self.0.lock().unwrap()
    }

    /// Something has arrived.
    fn signal(&self) {
        if let Some(waker) = self.state().waker.take() {
            waker.wake();
        }
    }

    /// Records that are not acknowledged.
    pub(super) fn in_flight(&self) -> usize {
        self.state().records.in_flight()
    }

    /// The keys of all records that were ever taken.
    pub(super) fn keys(&self) -> Vec<String> {
        let state = self.state();
        let keys = state.records.produced().iter().map(|record| record.key.clone());
        keys.map(|key| String::from_utf8(key).unwrap()).collect()
    }

    pub(super) fn bound(&self) -> usize {
        self.state().bound.len()
    }

    /// Sets what is done before each record is taken.
    pub(super) fn on_produce(&self, reading: impl FnMut() + Send + 'static) {
        self.state().on_produce = Some(Box::new(reading));
    }

    /// Whether the shell has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Everything in flight is acknowledged, in one report.
    pub(super) fn ack_all(&self) {
        self.ack_later();
        self.report();
    }

    /// The same, in a report that arrives later.
    pub(super) fn ack_later(&self) {
        let acks = self.state().records.ack_all();
        self.state().unreported.push_back(acks);
    }

    /// All reports arrive.
    pub(super) fn report(&self) {
        let mut state = self.state();
        let reports = std::mem::take(&mut state.unreported);
        state.reports.extend(reports);
        drop(state);
        self.signal();
    }

    /// The next record is refused, which closes the producer.
    pub(super) fn fail(&self, failure: Failure) {
        {
            let mut state = self.state();
            let lane = *state.records.waiting().first().unwrap();
            let transaction = state.records.fail(lane);
            state.failure = Some(DeliveryFailure { transaction, topic: None, failure });
        }
        self.signal();
    }

    /// The producer as a whole fails.
    pub(super) fn break_down(&self, failure: Failure) {
        self.state().failure = Some(DeliveryFailure { transaction: None, topic: None, failure });
        self.signal();
    }

    /// Whether the queue has room for a write to the state topic from now on.
    pub(super) fn has(&self, room: Room) {
        self.state().room = room;
    }

    /// So many writes to the state topic were asked for.
    pub(super) fn writes(&self) -> usize {
        self.state().writes.len()
    }

    /// The latest write to the state topic is acknowledged.
    pub(super) fn ack_write(&self, kafka: &ScriptedKafka) {
        let (key, value, number) = self.state().writes.last().unwrap().clone();
        let offset = kafka.write(&key, value.as_deref());
        self.state().written = Some(WriteAck { number, offset });
        self.signal();
    }
}

/// The shell's side of it.
pub(super) struct ScriptedSink {
    producer: Producer,
    pub(super) down: Option<Failure>,
}

impl RecordSink for ScriptedSink {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        let mut state = self.producer.state();
        if let Some(hook) = &mut state.on_produce {
            hook();
        }
        state.records.produce(record, ticket)
    }
}

impl Sink for ScriptedSink {
    async fn wait_acks(&self) {
        poll_fn(|cx| {
            let mut state = self.producer.state();
            state.waker = Some(cx.waker().clone());
            if state.has_reports() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn poll_acks(&mut self, acks: &mut Acks, _limit: usize) -> Option<DeliveryFailure> {
        let mut state = self.producer.state();
        if let Some(reports) = state.reports.pop_front() {
            *acks = reports;
        }
        state.failure.take()
    }

    fn write_state(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        write: u64,
    ) -> Result<(), RefusalReason> {
        let value = value.map(<[u8]>::to_vec);
        if self.producer.state().room == Room::None {
            return Err(RefusalReason::Full);
        }
        self.producer.state().writes.push((key.to_vec(), value, write));
        Ok(())
    }

    fn written_state(&mut self) -> Option<WriteAck> {
        self.producer.state().written.take()
    }

    fn bind_topic(&mut self, id: TopicId, _name: &TopicName, _limits: TopicLimits) {
        self.producer.state().bound.push(id);
    }

    fn identify_topic(&mut self, _id: TopicId, _uuid: &TopicUuid) -> Identity {
        Identity::Same
    }

    fn limits_in_flight(&self, _id: TopicId) -> bool {
        false
    }

    fn health(&self) -> Health<'_> {
        self.down.as_ref().map_or(Health::Well, Health::Down)
    }

    fn clear_health(&mut self) {
        self.down = None;
    }

    fn note_down(&mut self, failure: Failure) {
        self.down = Some(failure);
    }

    fn close(self) {
        self.producer.state().closed = true;
    }
}

/// A producer's own client.
#[derive(Clone)]
pub(super) struct Client {
    kafka: ScriptedKafka,
    producer: usize,
}

impl TopicClient for Client {
    fn look_up(&self, name: &TopicName) -> Result<TopicDescription, Failure> {
        self.kafka.permitted(Request::LookUp(self.producer, name.to_string()))?;
        let facts = TopicFacts { partitions: PARTITIONS, max_message_bytes: None };
        Ok(TopicDescription { facts, uuid: None, keeps: Keeps::Always, caution: None })
    }

    fn read_topics(&self, names: &[TopicName]) -> Result<Vec<TopicReading>, Failure> {
        self.kafka.permitted(Request::See(self.producer))?;
        let lookup = TopicLookup::Partitions(PARTITIONS);
        Ok(names.iter().map(|_| TopicReading { lookup, uuid: None }).collect())
    }

    fn sights(&self, names: &[&TopicName]) -> Vec<Option<TopicSight>> {
        vec![None; names.len()]
    }

    fn ping(&self) -> Result<(), Failure> {
        self.kafka.permitted(Request::Ping(self.producer))
    }
}

impl StateTopic for Client {
    fn open(&self) -> Result<Vec<Failure>, Failure> {
        self.kafka.permitted(Request::StateTopicOpen(self.producer))?;
        let suits = self.kafka.0.state_topic_suits.load(Ordering::Relaxed);
        suits.then(Vec::new).ok_or_else(|| Failure::new(Code::StateTopicUnsuitable, "deletes"))
    }

    fn extent(&self) -> Result<StateExtent, Failure> {
        self.kafka.permitted(Request::StateTopicExtent(self.producer))?;
        let StateLog { cluster_id, begin, end, .. } = self.latest(b"");
        Ok(StateExtent { cluster_id, begin, end })
    }

    fn cluster_id(&self) -> Result<String, Failure> {
        Ok(self.latest(b"").cluster_id)
    }

    fn read(&self, prefix: &[u8]) -> Result<StateLog, Failure> {
        self.kafka.permitted(Request::StateTopicRead(self.producer))?;
        Ok(self.latest(prefix))
    }

    fn read_on(&self, prefix: &[u8], known: &StateLog) -> Result<StateLog, Failure> {
        self.kafka.permitted(Request::StateTopicReadOn(self.producer))?;
        let now = self.latest(prefix);
        assert!(known.end <= now.end, "it was read to here");
        Ok(now)
    }
}

impl Client {
    fn latest(&self, prefix: &[u8]) -> StateLog {
        let log = self.kafka.0.state_topic.lock().unwrap();
        let is_latest = |at: usize| !log[at + 1..].iter().any(|(key, _)| *key == log[at].0);
        let records = log.iter().enumerate().filter_map(|(at, (key, value))| {
            let value = value.clone().filter(|_| is_latest(at) && key.starts_with(prefix))?;
            Some(StateTopicRecord { key: key.clone(), value, offset: i64::try_from(at).unwrap() })
        });
        let end = i64::try_from(log.len()).unwrap();
        let (records, last) = (records.collect(), None);
        let cluster_id = (*self.kafka.0.id.lock().unwrap()).to_owned();
        StateLog { cluster_id, begin: 0, end, records, last }
    }
}
