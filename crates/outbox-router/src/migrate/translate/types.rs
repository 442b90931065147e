//! How the connector writes types that have several forms.

use super::{super::report::PropertyFinding, context::Context};

/// A property, our key, Debezium's default and its other values.
const MODES: [(&str, &str, &str, &[&str]); 3] = [
    ("decimal.handling.mode", "decimals", "precise", &["string", "double"]),
    (
        "time.precision.mode",
        "times",
        "adaptive",
        &[
            "adaptive_time_microseconds",
            "microseconds",
            "nanoseconds",
            "connect",
            "isostring",
            "structured",
        ],
    ),
    ("interval.handling.mode", "intervals", "numeric", &["string"]),
];

const CLOCKS: &str = "a timestamp, a date or a time is not written in this form: it is refused as \
                      an id, a key, a payload, a header or in the envelope (R008)";

/// Values of `time.precision.mode` whose texts are not written, and what becomes of the columns.
const NOT_WRITTEN: [(&str, &str); 3] = [
    ("connect", CLOCKS),
    ("isostring", CLOCKS),
    (
        "structured",
        "a timestamp, a date, a time or an interval, with or without a time zone, is an object of \
         its parts in Debezium, which is not written: it is refused as an id, a key, a payload, a \
         header or in the envelope (R008)",
    ),
];

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
        if let Some((_, text)) = NOT_WRITTEN.iter().find(|(mode, _)| mode == other) {
            context.report.different(PropertyFinding::of(&mode, *text));
        } else {
            context.report.carried(&mode, format!("outbox.{key}"));
        }
    }
}
