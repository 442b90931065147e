//! What no translation has taken: the table of names decides, and an unknown name is reported.

use super::{
    super::{
        names::{self, Treatment},
        read::Form,
        report::PropertyFinding,
    },
    context::Context,
};

pub(super) fn translate(context: &mut Context<'_>) {
    binary(context);
    heartbeats(context);
    let left = std::mem::take(&mut context.input);
    for property in left.into_rest() {
        let treatment = names::treatment(names::CONNECTOR, &property.name);
        match treatment.and_then(|treatment| treatment.of(&property.value)) {
            Some(outcome) => context.report.decided(&property, outcome),
            None => {
                let text = match treatment {
                    // Such as a property of Debezium Server in a connector's configuration.
                    Some(Treatment::Carried(_)) => "it has no meaning in a file of this form",
                    _ if context.form == Form::ServerProperties
                        && property.name.starts_with("debezium.sink.kafka.") =>
                    {
                        "Debezium Server has no such property; the producer's are below \
                         debezium.sink.kafka.producer."
                    }
                    _ => "no property of Debezium or Kafka Connect that is known here",
                };
                let nearest = names::nearest(names::CONNECTOR, &property.name);
                let hint = nearest.filter(|name| *name != property.name);
                let finding = PropertyFinding::of(&property, text);
                context.report.unsupported(finding.meant(hint));
            }
        }
    }
}

/// Another text of a bytea column is another key, and so another partition.
fn binary(context: &mut Context<'_>) {
    let Some(mode) = context.input.take("binary.handling.mode") else { return };
    if mode.is("bytes") {
        context.report.carried(&mode, "a bytea column is written as its bytes");
        return;
    }
    let text = if ["base64", "base64-url-safe", "hex"].iter().any(|known| mode.is(known)) {
        "a bytea column is written as its bytes, as in the mode bytes; in this mode Debezium writes \
         a text, so id, key (and with it the partition), payload, headers and envelope differ \
         wherever the column is a bytea"
    } else {
        "neither bytes, base64, base64-url-safe nor hex: Debezium refuses it"
    };
    let hint = "--accept, if no column of the outbox is a bytea";
    context.report.unsupported(PropertyFinding::of(&mode, text).hint(hint));
}

/// Without an interval Debezium sends none, whatever the other properties are.
fn heartbeats(context: &mut Context<'_>) {
    const NO_HEARTBEAT: &str = "an idle slot advances without heartbeats";
    let interval = context.input.take("heartbeat.interval.ms");
    let query = context.input.take("heartbeat.action.query");
    let mut names = context.input.take_below("heartbeat.");
    names.extend(context.input.take_below("topic.heartbeat."));
    let all = || interval.iter().chain(&query).chain(&names);
    let is_on = interval.as_ref().is_some_and(|interval| interval.value.parse() != Ok(0));
    if !is_on {
        all().for_each(|property| context.report.carried(property, NO_HEARTBEAT));
        return;
    }
    let of = |name: &str| names.iter().find(|property| property.name == name);
    let prefix = of("topic.heartbeat.prefix").or_else(|| of("heartbeat.topics.prefix"));
    let prefix = prefix.map_or("__debezium-heartbeat", |prefix| prefix.value.as_str());
    let topic = of("topic.heartbeat.name").map(|name| name.value.clone());
    let topic = topic.unwrap_or_else(|| format!("{prefix}.PREFIX"));
    let text = format!("{NO_HEARTBEAT}; the records in {topic} end with the connector");
    for property in interval.iter().chain(&names) {
        context.report.different(PropertyFinding::of(property, text.as_str()));
    }
    if let Some(query) = &query {
        let text = format!("{NO_HEARTBEAT}; the router runs no SQL of yours, so its rows end");
        context.report.different(PropertyFinding::of(query, text));
    }
}
