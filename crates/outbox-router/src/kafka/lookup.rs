//! Looks topics up for a command, which has no sink.

use relay::{Code, Failure, TopicName};

use crate::codes::hint;

use super::{
    errors::Cluster,
    lifecycle::command_client,
    settings::KafkaSettings,
    topics::{TopicClient, TopicDescription},
};

/// A topic, or why it cannot be described.
pub type TopicLookedUp = (TopicName, Result<TopicDescription, Failure>);

/// Describes topics, in the order of `names`, and creates none. It blocks.
///
/// # Errors
/// The producer cannot start. That brokers do not answer is in the answer for each topic.
pub fn look_up_topics(
    settings: &KafkaSettings,
    names: Vec<TopicName>,
) -> Result<Vec<TopicLookedUp>, Failure> {
    let settings = KafkaSettings { create_topics: None, ..settings.clone() };
    let (producer, cluster) = command_client(&settings)?;
    let topic_client = TopicClient::new(producer, cluster, &settings);
    let look_up = |name: TopicName| {
        let found = topic_client.look_up(&name);
        (name, found)
    };
    Ok(names.into_iter().map(look_up).collect())
}

/// The command that creates a topic, with the brokers of these settings.
pub fn topic_command(settings: &KafkaSettings, name: &TopicName) -> Option<String> {
    let cluster = Cluster::new(&settings.bootstrap_servers);
    hint(&cluster.named(Failure::new(Code::TopicMissing, ""), Some(name.as_str())))
}
