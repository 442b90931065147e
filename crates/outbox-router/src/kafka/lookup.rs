//! Looks topics up for a command, which has no sink.

use relay::{Case, Code, Failure, TopicName, witness::TopicSight};

use crate::codes::hint;

use super::{
    errors::Cluster,
    ffi::Producer,
    lifecycle::reason,
    settings::KafkaSettings,
    topics::{TopicClient, TopicDescription},
};

/// A topic, or why it cannot be described.
pub type TopicLookedUp = (TopicName, Result<TopicDescription, Failure>);

/// A topic, and what there is under its name.
pub type TopicSeen = (TopicName, Option<TopicSight>);

/// Describes topics, in the order of `names`, and creates none. It blocks.
///
/// # Errors
/// The producer cannot start. That brokers do not answer is in the answer for each topic.
pub fn look_up_topics(
    settings: &KafkaSettings,
    names: Vec<TopicName>,
) -> Result<Vec<TopicLookedUp>, Failure> {
    let topic_client = topic_client(settings)?;
    let look_up = |name: TopicName| {
        let found = topic_client.look_up(&name);
        (name, found)
    };
    Ok(names.into_iter().map(look_up).collect())
}

/// What there is under the names of topics, in their order; `None`: no broker says it. It blocks.
///
/// # Errors
/// The producer cannot start.
pub fn see_topics(
    settings: &KafkaSettings,
    names: Vec<TopicName>,
) -> Result<Vec<TopicSeen>, Failure> {
    let mut sights = topic_client(settings)?.sights(&names.iter().collect::<Vec<_>>());
    sights.resize(names.len(), None);
    Ok(names.into_iter().zip(sights).collect())
}

fn topic_client(settings: &KafkaSettings) -> Result<TopicClient, Failure> {
    let settings = KafkaSettings { create_topics: None, ..settings.clone() };
    let failed = |reason: String| {
        let what = format!("the producer cannot start: {reason}");
        Failure::of(Case::ProducerSettings, what)
    };
    let config = settings.client_config().map_err(|refused| failed(refused.to_string()))?;
    let producer = Producer::open(&config).map_err(|error| failed(reason(&error)))?;
    let cluster = Cluster::new(&settings.bootstrap_servers);
    Ok(TopicClient::new(producer, cluster, &settings))
}

/// The command that creates a topic, with the brokers of these settings.
pub fn topic_command(settings: &KafkaSettings, name: &TopicName) -> Option<String> {
    let cluster = Cluster::new(&settings.bootstrap_servers);
    hint(&cluster.named(Failure::new(Code::TopicMissing, ""), Some(name.as_str())))
}
