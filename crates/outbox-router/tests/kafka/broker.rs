//! The Kafka that the tests share, and what they need to know of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use outbox_router::kafka::KafkaSettings;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, Producer};
use relay::{Timestamp, TopicName};
use testbed::kafka::{KafkaCluster, KafkaOptions};
use tokio::sync::Mutex;

/// Generous: two cores are shared with whatever else runs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// One for all tests that do not hurt it; stopped when the last lets go.
pub(crate) async fn shared() -> Arc<KafkaCluster> {
    static SHARED: Mutex<Weak<KafkaCluster>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    let kafka = match shared.upgrade() {
        Some(kafka) => kafka,
        None => Arc::new(KafkaCluster::start(KafkaOptions::default()).await.unwrap()),
    };
    *shared = Arc::downgrade(&kafka);
    kafka
}

pub(crate) fn settings(kafka: &KafkaCluster) -> KafkaSettings {
    KafkaSettings {
        client_id: "outbox-router".into(),
        bootstrap_servers: kafka.bootstrap(),
        properties: BTreeMap::new(),
        create_topics: None,
        timestamp: Timestamp::Commit,
        window_bytes: 32 << 20,
        row_bytes: 1 << 20,
        statistics: None,
        give_up_after: None,
    }
}

pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

/// What blocks belongs on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(call).await.unwrap()
}

/// A topic's setting, as the broker has it.
pub(crate) async fn topic_setting(kafka: &KafkaCluster, topic: &str, setting: &str) -> String {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", kafka.bootstrap()).create().unwrap();
    let options = AdminOptions::new().request_timeout(Some(DEADLINE));
    let mut answers =
        admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await.unwrap();
    let resource = answers.pop().unwrap().unwrap();
    resource.get(setting).unwrap().value.clone().unwrap()
}

/// The topics of the cluster, asked for by a client that has no group.
pub(crate) async fn topic_names(kafka: &KafkaCluster) -> Vec<String> {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", kafka.bootstrap()).create().unwrap();
    let metadata =
        blocking(move || producer.client().fetch_metadata(None, DEADLINE)).await.unwrap();
    metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
}
