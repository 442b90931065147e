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
