//! The producer: brokers, security, and how missing topics are created.

use super::{
    super::{
        draft::Text,
        names::{self, AsProperty, Treatment},
        properties::{Properties, Property},
        report::PropertyFinding,
    },
    context::Context,
    jaas,
};

const PREFIX: &str = "producer.override.";

/// Where a placeholder of unknown name is filled from.
const SERVERS: &str = "KAFKA_BOOTSTRAP_SERVERS";
const USERNAME: &str = "KAFKA_USERNAME";
const PASSWORD: &str = "KAFKA_PASSWORD";

pub(super) fn translate(context: &mut Context<'_>) {
    if let Some(sink) = context.input.take("debezium.sink.type") {
        context.report.carried(&sink, "Kafka is the router's sink");
    }
    let mut producer = Properties::default();
    for property in context.input.take_below(PREFIX) {
        let name = property.name.strip_prefix(PREFIX).unwrap_or(&property.name).to_owned();
        producer.push(Property { name, ..property });
    }
    servers(context, &mut producer);
    create_topics(context);
    managed(context, &producer);
    security(context, &mut producer);
    for property in producer.into_rest() {
        one(context, &property);
    }
}

fn servers(context: &mut Context<'_>, producer: &mut Properties) {
    let found = producer.take("bootstrap.servers");
    if let Some(found) = &found {
        context.report.carried(found, "kafka.bootstrap_servers");
    }
    let servers = match (&context.given.bootstrap_servers, &found) {
        (Some(given), _) => Text::literal(given),
        (None, Some(found)) => context.text(found, SERVERS),
        (None, None) => {
            let text = "a connector of Kafka Connect does not say where Kafka is: its worker does";
            let finding = PropertyFinding::absent("bootstrap.servers", text);
            context.report.unsupported(finding.hint("--bootstrap-servers HOST:PORT"));
            Text::variable(SERVERS)
        }
    };
    context.draft.kafka.text("bootstrap_servers", &servers);
}

/// Kafka Connect's `topic.creation.*`.
fn create_topics(context: &mut Context<'_>) {
    let mut counts = Vec::new();
    for property in context.input.take_below("topic.creation.") {
        let key = match property.name.as_str() {
            "topic.creation.default.partitions" => "partitions",
            "topic.creation.default.replication.factor" => "replication_factor",
            "topic.creation.enable" => {
                context.report.carried(&property, "kafka.create_topics");
                continue;
            }
            name if name.starts_with("topic.creation.default.") => {
                let text = "a topic that the router creates has the broker's defaults; set it on \
                            the topic";
                context.report.different(PropertyFinding::of(&property, text));
                continue;
            }
            _ => {
                let text = "all topics are created alike: kafka.create_topics";
                context.report.unsupported(PropertyFinding::of(&property, text));
                continue;
            }
        };
        match property.value.parse::<i32>() {
            Ok(count) if count > 0 => {
                context.report.carried(&property, format!("kafka.create_topics.{key}"));
                counts.push(format!("{key} = {count}"));
            }
            Ok(-1) => context.report.carried(&property, "the broker decides"),
            Ok(_) | Err(_) => {
                context
                    .report
                    .unsupported(PropertyFinding::of(&property, "it is not a positive number"));
            }
        }
    }
    if counts.is_empty() {
        let text = "a missing topic blocks the router, which names it; Debezium lets the broker \
                    create it";
        let hint = "kafka.create_topics = { partitions = 6, replication_factor = 3 }";
        context.report.different(PropertyFinding::absent("topic.creation", text).hint(hint));
    } else {
        context.draft.kafka.raw("create_topics", &format!("{{ {} }}", counts.join(", ")));
    }
}

/// Confluent's managed connectors: the router reaches the cluster by a key of its API.
fn managed(context: &mut Context<'_>, producer: &Properties) {
    let mode = context.carry("kafka.auth.mode");
    let account = context.input.take("kafka.service.account.id");
    let key = context.carry("kafka.api.key");
    let secret = context.carry("kafka.api.secret");
    if let Some(account) = &account {
        let text = format!(
            "Confluent lets its own connectors in by a service account; the router logs in with an \
             API key of that account: ${{env:{USERNAME}}} and ${{env:{PASSWORD}}} are read at the \
             start"
        );
        let hint = format!(
            "confluent api-key create --service-account {} --resource CLUSTER, and set both",
            account.value
        );
        context.report.different(PropertyFinding::of(account, text).hint(hint));
    }
    let of_overrides = ["security.protocol", "sasl.mechanism", "sasl.jaas.config"];
    let is_told = of_overrides.iter().any(|name| producer.get(name).is_some());
    if is_told || [&mode, &account, &key, &secret].into_iter().all(Option::is_none) {
        return;
    }
    let user = key.map_or_else(|| Text::variable(USERNAME), |key| context.text(&key, USERNAME));
    let password =
        secret.map_or_else(|| Text::variable(PASSWORD), |text| context.secret(&text, PASSWORD));
    for (name, text) in [
        ("\"security.protocol\"", Text::literal("SASL_SSL")),
        ("\"sasl.mechanism\"", Text::literal("PLAIN")),
        ("\"sasl.username\"", user),
        ("\"sasl.password\"", password),
    ] {
        context.draft.properties.text(name, &text);
    }
}

/// SASL: the line for Java's login modules becomes two properties.
fn security(context: &mut Context<'_>, producer: &mut Properties) {
    let is = |name: &str, word: &str| producer.get(name).is_some_and(|property| property.is(word));
    if is("security.protocol", "SASL_PLAINTEXT") && is("sasl.mechanism", "PLAIN") {
        let text = "PLAIN without TLS sends the password over the network in clear text, which the \
                    router refuses unless the broker is on this machine";
        if let Some(protocol) = producer.get("security.protocol") {
            let hint = "use SASL_SSL, or a SCRAM mechanism";
            context.report.unsupported(PropertyFinding::of(protocol, text).hint(hint));
        }
    }
    let Some(line) = producer.take("sasl.jaas.config") else { return };
    match jaas::read(&line.value) {
        Ok(login) => {
            context.report.carried(&line, "kafka.properties: sasl.username, sasl.password");
            let of = |value: String| Property { value, ..line.clone() };
            let username = context.text(&of(login.username), USERNAME);
            let password = context.secret(&of(login.password), PASSWORD);
            context.draft.properties.text("\"sasl.username\"", &username);
            context.draft.properties.text("\"sasl.password\"", &password);
        }
        Err(why) => context.report.unsupported(PropertyFinding::of(&line, why)),
    }
}

fn one(context: &mut Context<'_>, property: &Property) {
    match names::as_property(&property.name) {
        Some(AsProperty::Named("compression.type")) if property.is("zstd") => {
            let text = "this build of librdkafka has no zstd";
            let hint = "\"compression.type\" = \"lz4\" in [kafka.properties]";
            return context.report.unsupported(PropertyFinding::of(property, text).hint(hint));
        }
        Some(AsProperty::Named(name)) => {
            let text = context.text(property, "KAFKA_PROPERTY");
            context.draft.properties.text(&format!("\"{name}\""), &text);
            return context.report.carried(property, format!("kafka.properties: {name}"));
        }
        Some(AsProperty::Pem { told_by, named }) => return pem(context, property, told_by, named),
        None => {}
    }
    match names::treatment(names::PRODUCER, &property.name) {
        // Only `ssl.*store.type` comes here, whose value is not read.
        Some(Treatment::Carried(_)) => {
            context.report.carried(property, "the ending of the store's file name decides");
        }
        Some(treatment) => {
            if let Some(outcome) = treatment.of(&property.value) {
                context.report.decided(property, outcome);
            }
        }
        None => {
            let text = "no property of the producer that is known here";
            let hint = "librdkafka's own properties go into [kafka.properties]";
            context.report.unsupported(PropertyFinding::of(property, text).hint(hint));
        }
    }
}

fn pem(context: &mut Context<'_>, property: &Property, told_by: &str, named: &str) {
    let is_pem = property.value.ends_with(".pem") || property.value.ends_with(".crt");
    if !is_pem {
        let text = format!(
            "librdkafka reads PEM files, not Java's key stores ({told_by}): export the certificates"
        );
        let hint = format!("\"{named}\" = \"FILE.pem\" in [kafka.properties]");
        context.report.unsupported(PropertyFinding::of(property, text).hint(hint));
        return;
    }
    let text = context.text(property, "KAFKA_CERTIFICATES");
    context.draft.properties.text(&format!("\"{named}\""), &text);
    // Java keeps key and certificate in one file.
    if named == "ssl.certificate.location" {
        context.draft.properties.text("\"ssl.key.location\"", &text);
    }
    context.report.carried(property, format!("kafka.properties: {named}"));
}
