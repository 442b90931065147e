//! The topics that events go to: whether they exist, and with how many partitions.

use std::collections::BTreeSet;

use relay::{Code, TopicName};

use super::{source::of_failure, step::Step};
use crate::{
    blocking::blocking,
    cli::topic_lookups::NewTopic,
    config::Config,
    kafka::{TopicLookedUp, look_up_topics},
    prepare,
};

const NAME: &str = "topics";

/// Looks up the topics that the configuration names, and others that are in use.
pub(super) async fn topics(config: &Config, in_use: impl Iterator<Item = TopicName>) -> Step {
    let templates: Vec<String> = config.tables().filter_map(template).collect();
    let constant = templates.iter().filter_map(|topic| TopicName::new(topic).ok());
    let names: BTreeSet<TopicName> = constant.chain(in_use).collect();
    if names.is_empty() {
        return Step::ready(NAME, "they depend on the rows, and none is in use")
            .detail("a topic that is missing blocks the router, which names it");
    }
    let settings = prepare::kafka_settings(config);
    let names: Vec<TopicName> = names.into_iter().collect();
    match blocking(move || look_up_topics(&settings, names)).await {
        Ok(found) => report(config, &found),
        Err(failure) => of_failure(NAME, &failure),
    }
}

/// The topic of a table as it is configured, or as its preset has it.
fn template(outbox: &relay::OutboxTable) -> Option<String> {
    let configured = outbox.topic.as_ref().map(ToString::to_string);
    configured.or_else(|| outbox.preset.map(|preset| preset.topic.to_owned()))
}

fn report(config: &Config, found: &[TopicLookedUp]) -> Step {
    let line = |(name, found): &TopicLookedUp| match found {
        Ok(found) => format!("{name}: {} partitions", found.facts.partitions),
        Err(failure) if failure.code == Code::TopicMissing => format!("{name}: missing"),
        Err(failure) => format!("{name}: {failure:#}"),
    };
    let missing: Vec<&TopicName> =
        found.iter().filter(|(_, found)| found.is_err()).map(|(name, _)| name).collect();
    let is_known = |code: Code| {
        found.iter().filter_map(|(_, found)| found.as_ref().err()).all(|why| why.code == code)
    };
    let (count, created) = (found.len(), config.kafka.create_topics);
    let step = match (missing.is_empty(), is_known(Code::TopicMissing), created) {
        (true, _, _) => Step::ready(NAME, format!("{count} found; a key keeps its partition")),
        (false, true, Some(create)) => Step::ready(
            NAME,
            format!("{} of {count} missing; kafka.create_topics makes them", missing.len()),
        )
        .detail(NewTopic::from(create).to_string()),
        (false, true, None) => missing.iter().fold(
            Step::to_do(NAME, format!("{} of {count} missing", missing.len())),
            |step, name| step.command(create(config, name)),
        ),
        (false, false, _) => Step::failed(NAME, "Kafka does not describe all of them"),
    };
    found.iter().fold(step, |step, topic| step.detail(line(topic)))
}

fn create(config: &Config, name: &TopicName) -> String {
    format!(
        "kafka-topics.sh --bootstrap-server {} --create --topic {name} --partitions COUNT \
         --replication-factor COUNT",
        config.kafka.bootstrap_servers
    )
}
