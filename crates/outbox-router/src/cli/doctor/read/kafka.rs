//! What the brokers say of topics and permissions. The requests block, so they are made on a
//! blocking thread.

use std::collections::{BTreeSet, HashMap};

use relay::{Code, DEFAULT, Failure, Name, Names, TopicName};

use crate::{
    blocking::blocking,
    cli::{
        doctor::facts::{KafkaFacts, Part, PostgresFacts, TopicReading},
        topic_template::may_make,
    },
    config::{Config, CreateTopics, SourceKind},
    kafka::{Inspection, KafkaSettings, StateTopicInspected},
    prepare,
};

/// How many topics are described; each takes three requests.
const TOPICS_MAX: usize = 200;

/// As many replicas as Kafka's documentation advises.
const REPLICAS: usize = 3;

/// The templates of the outboxes' topics: as the tables' columns decide, else as configured.
pub(super) fn templates(config: &Config, postgres: Option<&PostgresFacts>) -> Vec<String> {
    let tables = postgres.and_then(|facts| facts.tables.as_ref().ok());
    let of_tables = tables.into_iter().flatten().filter_map(|table| table.template.clone());
    let mut templates: BTreeSet<String> = of_tables.collect();
    if templates.is_empty() {
        let configured = config.tables().map(|outbox| match &outbox.topic {
            Some(topic) => topic.to_string(),
            None => outbox.preset.unwrap_or(&DEFAULT).topic.to_owned(),
        });
        templates.extend(configured);
    }
    if templates.is_empty() {
        templates.insert(DEFAULT.topic.to_owned());
    }
    templates.into_iter().collect()
}

/// Asks for the topics that the templates may make, and for those that the witness names.
///
/// # Errors
/// No broker answers, or the credentials are refused.
pub(super) async fn facts(
    config: &Config,
    templates: Vec<String>,
    in_use: Vec<String>,
) -> Part<KafkaFacts> {
    // Dead letters of polled tables stay there, and no record shows them.
    let shows = config.postgres.source == SourceKind::Stream && config.on_error.has_dead_letters();
    let letters = shows.then(|| config.dead_letters.topic.clone());
    let wanted = Wanted {
        settings: prepare::kafka_settings(config),
        state_topic: config.kafka.state_topic.clone(),
        witness: match config.postgres.source {
            SourceKind::Stream => config.kafka.state_topic.clone(),
            SourceKind::Polling => None,
        },
        letters: letters.flatten(),
        create: config.kafka.create_topics,
        row_bytes: config.limits.row_bytes,
        templates,
        in_use,
    };
    blocking(move || wanted.read()).await
}

struct Wanted {
    settings: KafkaSettings,
    /// No topic of events, whether or not it is used.
    state_topic: Option<TopicName>,
    /// The same, where it keeps the witness.
    witness: Option<TopicName>,
    letters: Option<TopicName>,
    create: Option<CreateTopics>,
    row_bytes: u64,
    templates: Vec<String>,
    in_use: Vec<String>,
}

impl Wanted {
    fn read(self) -> Part<KafkaFacts> {
        let inspection = Inspection::open(&self.settings)?;
        let existing = inspection.names()?;
        let made =
            |template: &String| existing.iter().any(|name| may_make(template, name.as_str()));
        let templates = self.templates.iter().map(|one| (one.clone(), made(one))).collect();
        let topics: Vec<TopicReading> = self
            .topics(&existing)
            .into_iter()
            .take(TOPICS_MAX)
            .map(|name| TopicReading { found: inspection.topic(&name), name })
            .collect();
        if let Some(silent) = topics.iter().find_map(unanswered) {
            return Err(silent);
        }
        let state_topic =
            self.witness.clone().map(|name| (name.clone(), inspection.state_topic(&name)));
        let described = |topic: &TopicReading| topic.found.is_ok().then(|| topic.name.clone());
        let mut asked: Vec<TopicName> = topics.iter().filter_map(described).collect();
        let mut state_partitions = Vec::new();
        if let Some((name, Ok(StateTopicInspected::Suitable(_)))) = &state_topic {
            asked.push(name.clone());
            state_partitions = inspection.layout(name)?;
        }
        let operations = match asked.as_slice() {
            [] => HashMap::new(),
            names => inspection.topic_operations(names),
        };
        let mut names = Names::default();
        names.set(Name::Brokers, self.settings.bootstrap_servers.clone());
        names.set(Name::ReplicationFactor, REPLICAS.min(inspection.brokers.len()).to_string());
        Ok(KafkaFacts {
            names,
            on_cluster: inspection.cluster_operations(),
            brokers: inspection.brokers.clone(),
            state_topic,
            state_partitions,
            topics,
            templates,
            operations,
            create: self.create,
            row_bytes: self.row_bytes,
        })
    }

    /// The topics of the outboxes: those that exist, and those that a template without placeholders
    /// or the witness names.
    fn topics(&self, existing: &[TopicName]) -> BTreeSet<TopicName> {
        let may_be = |name: &&TopicName| {
            let name = name.as_str();
            self.templates
                .iter()
                .any(|template| template != "${aggregate_type}" && may_make(template, name))
        };
        let constant = self.templates.iter().filter(|template| !template.contains("${"));
        let named = constant.chain(&self.in_use).filter_map(|name| TopicName::new(name).ok());
        let mut topics: BTreeSet<TopicName> =
            existing.iter().filter(may_be).cloned().chain(named).collect();
        topics.extend(self.letters.clone());
        topics.retain(|name| Some(name) != self.state_topic.as_ref());
        topics
    }
}

/// The failure of a cluster that has stopped answering.
fn unanswered(topic: &TopicReading) -> Option<Failure> {
    let failure = topic.found.as_ref().err()?;
    matches!(failure.code, Code::KafkaUnreachable | Code::KafkaAuthentication)
        .then(|| failure.clone())
}
