//! A state topic beside the server: librdkafka's mock cluster, and what the pipeline's record says
//! there.

use std::{collections::BTreeMap, sync::mpsc, time::Duration};

use outbox_router::kafka::{KafkaSettings, command_state_topic, put_state};
use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    mocking::MockCluster,
    producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _},
};
use relay::{
    TopicName,
    witness::{Witness, WitnessKey, combine},
};

/// The topic's name.
pub(crate) const STATE: &str = "outbox-router.state";

/// A cluster with a state topic.
pub(crate) struct StateCluster {
    mock: MockCluster<'static, DefaultProducerContext>,
    bootstrap: String,
}

impl StateCluster {
    pub(crate) fn start() -> Self {
        let mock = MockCluster::new(1).expect("a mock cluster");
        mock.create_topic(STATE, 1, 1).expect("a topic");
        let bootstrap = mock.bootstrap_servers();
        Self { mock, bootstrap }
    }

    /// A topic for events.
    pub(crate) fn create_topic(&self, name: &str, partitions: i32) {
        self.mock.create_topic(name, partitions, 1).expect("a topic");
    }

    /// Writes a record with this key and this id.
    pub(crate) fn produce(&self, topic: &str, key: &str, id: &str) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .create()
            .expect("a producer");
        let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id) });
        let record = BaseRecord::to(topic).key(key).payload("{}").headers(headers);
        producer.send(record).expect("enqueued");
        producer.flush(Duration::from_secs(10)).expect("acknowledged");
    }

    /// Adds to a command line what leads here, and keeps no state.
    pub(crate) fn without_state(&self, line: &[&str]) -> Vec<String> {
        let servers = format!("kafka.bootstrap_servers={}", self.bootstrap);
        line.iter().chain(&["--set", &servers]).map(|&word| word.to_owned()).collect()
    }

    /// Adds to a command line what leads here.
    pub(crate) fn with<'l>(&'l self, line: &[&'l str]) -> Vec<String> {
        with(&self.bootstrap, line)
    }

    /// What all records of the pipeline say together.
    pub(crate) async fn record(&self) -> Option<Witness> {
        record(&self.bootstrap).await
    }

    /// Writes a record as a router does.
    pub(crate) async fn put(&self, writer: &'static str, witness: &Witness) {
        let (bootstrap, witness) = (self.bootstrap.clone(), witness.clone());
        let put = move || put(&bootstrap, writer, &witness);
        tokio::task::spawn_blocking(put).await.expect("joined");
    }
}

/// A [`StateCluster`] that threads may share: a thread of its own keeps it.
pub(crate) struct SharedState {
    pub(crate) bootstrap: String,
    /// The cluster ends with it.
    _end: mpsc::SyncSender<()>,
}

impl SharedState {
    pub(crate) fn start() -> Self {
        let ((tell, told), (end, ended)) = (mpsc::sync_channel(1), mpsc::sync_channel::<()>(0));
        std::thread::spawn(move || {
            let kafka = StateCluster::start();
            tell.send(kafka.bootstrap.clone()).expect("somebody waits");
            let _ended = ended.recv();
        });
        Self { bootstrap: told.recv().expect("a cluster"), _end: end }
    }
}

/// Adds to a command line what leads to this cluster.
pub(crate) fn with(bootstrap: &str, line: &[&str]) -> Vec<String> {
    let servers = format!("kafka.bootstrap_servers={bootstrap}");
    let topic = format!("kafka.state_topic={STATE}");
    let more = ["--set", &servers, "--set", &topic];
    line.iter().chain(&more).map(|&word| word.to_owned()).collect()
}

/// What all records of the pipeline say together, there.
pub(crate) async fn record(bootstrap: &str) -> Option<Witness> {
    let settings = settings(bootstrap);
    let read = move || command_state_topic(&settings, &topic())?.read(&witness_key().prefix());
    let read = tokio::task::spawn_blocking(read).await.expect("joined").expect("read");
    combine(&read.records).expect("records of ours")
}

/// Writes a record as a router does.
pub(crate) fn put(bootstrap: &str, writer: &str, witness: &Witness) {
    let records = [(witness_key().of_writer(writer), Some(witness.encode()))];
    put_state(&settings(bootstrap), &topic(), &records).expect("written");
}

fn topic() -> TopicName {
    TopicName::new(STATE).expect("a name")
}

/// Of a command line that names nothing.
fn witness_key() -> WitnessKey {
    WitnessKey {
        name: "outbox-router".into(),
        database: "postgres".into(),
        slot: "outbox_router".into(),
    }
}

fn settings(bootstrap: &str) -> KafkaSettings {
    KafkaSettings {
        client_id: "test".into(),
        bootstrap_servers: bootstrap.to_owned(),
        properties: BTreeMap::new(),
        timestamp: relay::Timestamp::Commit,
        create_topics: None,
        window_bytes: 32 << 20,
        row_bytes: 1 << 20,
        statistics: None,
        give_up_after: None,
    }
}
