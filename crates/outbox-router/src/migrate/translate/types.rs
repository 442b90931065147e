//! How the connector writes types that have several forms.

use super::{super::report::PropertyFinding, context::Context};

/// A property, our key, Debezium's default and its other values.
const MODES: [(&str, &str, &str, &[&str]); 3] = [
    ("decimal.handling.mode", "decimals", "precise", &["string", "double"]),
    (
        "time.precision.mode",
        "times",
        "adaptive",
        &["adaptive_time_microseconds", "microseconds", "nanoseconds", "connect", "isostring"],
    ),
    ("interval.handling.mode", "intervals", "numeric", &["string"]),
];

/// Values of `time.precision.mode` whose texts are not written.
const NOT_WRITTEN: [&str; 2] = ["connect", "isostring"];

pub(super) fn translate(context: &mut Context<'_>) {
    for (name, key, default, others) in MODES {
        let Some(mode) = context.input.take(name) else { continue };
        let Some(other) = others.iter().find(|other| mode.is(other)) else {
            if mode.is(default) {
                context.report.carried(&mode, format!("outbox.{key}, its default"));
            } else {
                let text =
                    format!("neither {default} nor {}: Debezium refuses it", others.join(", "));
                context.report.unsupported(PropertyFinding::of(&mode, text));
            }
            continue;
        };
        context.draft.outbox.raw(key, &format!("\"{other}\""));
        if NOT_WRITTEN.contains(other) {
            let text = "a timestamp, a date or a time is not written in this form: it is refused as \
                        an id, a key, a payload, a header or in the envelope (R008)";
            context.report.different(PropertyFinding::of(&mode, text));
        } else {
            context.report.carried(&mode, format!("outbox.{key}"));
        }
    }
}
