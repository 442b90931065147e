//! A mock cluster, a sink on it, and a reader that sees what is in the log.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    message::{Headers as _, OwnedMessage},
    mocking::MockCluster,
    producer::DefaultProducerContext,
};
use relay::{
    Acks, Header, Headers, Record, RecordSink, Refusal, RefusalReason, RowHeaders, Ticket,
    Timestamp, TopicId, TopicName,
};
use tokio::time::{Instant, timeout};

use crate::kafka::{DeliveryFailure, KafkaSettings, KafkaSink, TopicLimits, open};

pub(super) const DEADLINE: Duration = Duration::from_secs(30);

pub(super) struct Cluster {
    pub(super) mock: MockCluster<'static, DefaultProducerContext>,
    pub(super) bootstrap_servers: String,
}

impl Cluster {
    pub(super) fn start() -> Self {
        Self::of(1)
    }

    pub(super) fn of(brokers: i32) -> Self {
        let mock = MockCluster::new(brokers).unwrap();
        let bootstrap_servers = mock.bootstrap_servers();
        Self { mock, bootstrap_servers }
    }

    /// A cluster with the topic `orders` and a sink that knows it.
    pub(super) fn with_orders(partitions: i32) -> (Self, KafkaSink) {
        let cluster = Self::start();
        cluster.mock.create_topic(ORDERS, partitions, 1).unwrap();
        let sink = cluster.sink(&cluster.settings());
        (cluster, sink)
    }

    pub(super) fn settings(&self) -> KafkaSettings {
        KafkaSettings {
            client_id: "outbox-router".into(),
            bootstrap_servers: self.bootstrap_servers.clone(),
            properties: BTreeMap::new(),
            create_topics: None,
            timestamp: Timestamp::Commit,
            window_bytes: 32 << 20,
            row_bytes: 1 << 20,
            statistics: None,
            give_up_after: None,
        }
    }

    /// A sink with `orders` looked up and bound, as the product does before the first record.
    pub(super) fn sink(&self, settings: &KafkaSettings) -> KafkaSink {
        let mut sink = open(settings).unwrap();
        sink.topic_client(settings).look_up(&orders_name()).unwrap();
        sink.bind_topic(orders(), &orders_name(), TopicLimits::default());
        sink
    }

    /// Everything in one partition of `orders`, in order.
    pub(super) fn read(&self, partition: i32) -> Vec<OwnedMessage> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap_servers)
            .set("group.id", "reader")
            .create()
            .unwrap();
        let (low, high) = consumer.fetch_watermarks(ORDERS, partition, DEADLINE).unwrap();
        assert_eq!(low, 0, "the mock cluster has thrown records away");
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(ORDERS, partition, Offset::Beginning).unwrap();
        consumer.assign(&assignment).unwrap();
        let mut messages = Vec::new();
        while i64::try_from(messages.len()).unwrap() < high {
            messages.push(consumer.poll(DEADLINE).expect("a record").unwrap().detach());
        }
        messages
    }

    /// The values in one partition of `orders` as numbers, as [`number`] wrote them.
    pub(super) fn read_numbers(&self, partition: i32) -> Vec<u32> {
        let text = |m: &OwnedMessage| String::from_utf8(m.payload().unwrap().to_vec()).unwrap();
        self.read(partition).iter().map(|m| text(m).parse().unwrap()).collect()
    }
}

pub(super) const ORDERS: &str = "orders";

pub(super) fn orders_name() -> TopicName {
    TopicName::new(ORDERS).unwrap()
}

pub(super) fn orders() -> TopicId {
    TopicId::from_index(3).unwrap()
}

/// A ticket of the given transaction, one unit in size: the layout is the one that `relay`
/// documents.
pub(super) fn ticket(transaction: u64) -> Ticket {
    Ticket::from_opaque(7 << 56 | transaction << 20 | 1)
}

/// Produces `number` as a record's value.
pub(super) fn number(
    sink: &mut KafkaSink,
    partition: i32,
    number: u32,
    ticket: Ticket,
) -> Result<(), Refusal> {
    let value = number.to_string();
    let row = RowHeaders::new();
    sink.produce(&Record { partition, ..record(value.as_bytes(), &row) }, ticket)
}

/// Produces `count` numbers from `first` on, retrying while the sink has no room, and collects what
/// is acknowledged meanwhile. Fails on any trouble.
pub(super) async fn give(
    sink: &mut KafkaSink,
    acks: &mut Acks,
    partition: i32,
    numbers: Range<u32>,
    ticket_of: impl Fn(u32) -> Ticket,
) {
    for n in numbers {
        let mut refused = number(sink, partition, n, ticket_of(n));
        while let Err(refusal) = refused {
            assert_eq!(refusal.reason, RefusalReason::PartitionWaits);
            let before = acked(acks);
            assert_eq!(until(sink, acks, |_, acks| acked(acks) > before).await, None);
            refused = number(sink, partition, n, refusal.ticket);
        }
    }
}

/// A record without headers for partition 0 of `orders`.
pub(super) fn record<'a>(value: &'a [u8], row: &'a RowHeaders) -> Record<'a> {
    Record {
        topic: orders(),
        partition: 0,
        key: b"key",
        value: Some(value),
        headers: Headers::new(&[], row),
        timestamp_ms: 1_700_000_000_000,
    }
}

/// Polls and waits until `done`, which sees all acknowledgements so far; returns the first trouble
/// if it comes before.
pub(super) async fn until(
    sink: &mut KafkaSink,
    acks: &mut Acks,
    done: impl Fn(&KafkaSink, &Acks) -> bool,
) -> Option<DeliveryFailure> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let trouble = sink.poll_acks(acks, 1_000);
        if trouble.is_some() || done(sink, acks) {
            return trouble;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        timeout(left, sink.wait_acks()).await.expect("in time");
    }
}

pub(super) fn acked(acks: &Acks) -> u32 {
    acks.runs().iter().map(|run| run.records).sum()
}

pub(super) fn header<'a>(name: &'a str, value: Option<&'a [u8]>) -> Header<'a> {
    Header { name, value }
}

/// The headers of a message that was read, as owned pairs.
pub(super) fn headers_of(message: &OwnedMessage) -> Vec<(String, Option<Vec<u8>>)> {
    message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect()
    })
}

/// The requests that librdkafka sends, from what it logs with `debug=protocol`. Log lines are read
/// by this thread when it polls the sink.
pub(super) struct RequestLog {
    lines: Arc<Mutex<Vec<u8>>>,
    _subscriber: tracing::subscriber::DefaultGuard,
}

impl RequestLog {
    pub(super) fn start() -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(LogWriter::of(&lines))
            .finish();
        Self { lines, _subscriber: tracing::subscriber::set_default(subscriber) }
    }

    /// The names of the requests sent since the last call, such as `ProduceRequest`.
    pub(super) fn sent(&mut self, sink: &mut KafkaSink) -> Vec<String> {
        sink.poll_acks(&mut Acks::default(), usize::MAX);
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        let text = String::from_utf8(lines).unwrap();
        let name = |line: &str| Some(line.split_once("Sent ")?.1.split(' ').next()?.to_owned());
        text.lines().filter_map(name).collect()
    }
}

#[derive(Clone)]
struct LogWriter(Arc<Mutex<Vec<u8>>>);

impl LogWriter {
    fn of(lines: &Arc<Mutex<Vec<u8>>>) -> impl Fn() -> Self + Send + Sync + 'static {
        let writer = Self(Arc::clone(lines));
        move || writer.clone()
    }
}

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
