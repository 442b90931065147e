//! Where records go: to Kafka, or nowhere, so that they are only counted.

use relay::{
    Acks, Code, Failure, Record, RecordSink, Refusal, Ticket, TopicFacts, TopicId, TopicName,
};

use crate::kafka::{
    self, Health, KafkaSettings, KafkaSink, Keeps, StoredOffsets, TopicClient, TopicDescription,
};

/// What the sender needs of a sink.
pub(crate) trait Destination: RecordSink {
    /// Collects acknowledgements, without waiting. Returns the first failure, once.
    fn take_acks(&mut self, acks: &mut Acks) -> Option<Failure>;
    /// Waits until there may be some. Cancel-safe.
    async fn wait_acks(&self);
    /// Looks a topic up, so that records can be sent to it.
    ///
    /// # Errors
    /// It is missing, or may not be written to, or no broker answers.
    fn look_up(&mut self, id: TopicId, name: &TopicName) -> Result<TopicDescription, Failure>;
    /// As [`KafkaSink::sent_as_new`].
    fn sent_as_new(&self) -> Vec<(TopicName, u64, Keeps)>;
    /// Where records were stored. Nothing is compared from then on.
    fn take_stored(&mut self) -> StoredOffsets;
    /// Why Kafka does not answer, if it does not.
    fn is_down(&self) -> Option<&Failure>;
}

/// How many delivery reports are read at once.
const REPORTS: usize = 10_000;

/// Kafka, through a producer of its own.
pub(crate) struct Cluster {
    // Dropped before the sink, whose producer it keeps alive.
    client: TopicClient,
    sink: KafkaSink,
}

impl Cluster {
    /// Makes the producer, by the same settings as `run`.
    ///
    /// # Errors
    /// librdkafka refuses them.
    pub(crate) fn open(settings: &KafkaSettings) -> Result<Self, Failure> {
        let mut sink = kafka::open(settings)?;
        sink.compare_offsets();
        Ok(Self { client: sink.topic_client(settings), sink })
    }
}

impl RecordSink for Cluster {
    #[inline]
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        self.sink.produce(record, ticket)
    }
}

impl Destination for Cluster {
    fn take_acks(&mut self, acks: &mut Acks) -> Option<Failure> {
        self.sink.poll_acks(acks, REPORTS).map(|failed| failed.failure)
    }

    async fn wait_acks(&self) {
        self.sink.wait_acks().await;
    }

    fn look_up(&mut self, id: TopicId, name: &TopicName) -> Result<TopicDescription, Failure> {
        let found = self.client.look_up(name)?;
        self.sink.bind_topic(id, name, found.limits());
        Ok(found)
    }

    fn sent_as_new(&self) -> Vec<(TopicName, u64, Keeps)> {
        let sent = self.sink.sent_as_new();
        sent.map(|(name, count, keeps)| (name.clone(), count, keeps)).collect()
    }

    fn take_stored(&mut self) -> StoredOffsets {
        self.sink.take_stored()
    }

    fn is_down(&self) -> Option<&Failure> {
        match self.sink.health() {
            Health::Down(failure) if failure.code != Code::TopicMissing => Some(failure),
            Health::Down(_) | Health::Well | Health::Suspect => None,
        }
    }
}

/// Nowhere: every record counts as acknowledged at once. `look_up` says what is known of a topic.
pub(crate) struct Nowhere<L> {
    pub(crate) look_up: L,
    acks: Acks,
}

impl<L> Nowhere<L> {
    pub(crate) fn new(look_up: L) -> Self {
        Self { look_up, acks: Acks::default() }
    }
}

impl<L> RecordSink for Nowhere<L> {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        self.acks.push(ticket, record.topic);
        Ok(())
    }
}

impl<L: FnMut(&TopicName) -> Result<TopicFacts, Failure>> Destination for Nowhere<L> {
    fn take_acks(&mut self, acks: &mut Acks) -> Option<Failure> {
        acks.clear();
        std::mem::swap(acks, &mut self.acks);
        None
    }

    async fn wait_acks(&self) {
        if self.acks.is_empty() {
            std::future::pending::<()>().await;
        }
    }

    fn look_up(&mut self, _: TopicId, name: &TopicName) -> Result<TopicDescription, Failure> {
        let facts = (self.look_up)(name)?;
        Ok(TopicDescription { facts, uuid: None, keeps: Keeps::Always, caution: None })
    }

    fn sent_as_new(&self) -> Vec<(TopicName, u64, Keeps)> {
        Vec::new()
    }

    fn take_stored(&mut self) -> StoredOffsets {
        StoredOffsets::default()
    }

    fn is_down(&self) -> Option<&Failure> {
        None
    }
}
