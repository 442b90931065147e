//! Writes librdkafka's log lines to the router's log, with target `librdkafka` and mapped levels.

/// Properties that the router sets and librdkafka warns about: the first is experimental, the
/// second is a consumer's.
const ON_PURPOSE: &[&str] = &[" enable.gapless.guarantee ", " isolation.level "];

/// Writes one line; `level` is a syslog level. EMERG to ERR become warnings and not errors:
/// whatever matters also arrives as an error event or a failed report, and is logged once, where it
/// is handled.
pub(super) fn write(level: i32, facility: &str, text: &str) {
    match level {
        // These are set on purpose, so the warnings are not worth repeating at each start.
        _ if facility == "CONFWARN"
            && ON_PURPOSE.iter().any(|property| text.contains(property)) =>
        {
            tracing::debug!(target: "librdkafka", facility, "{text}");
        }
        ..=4 => tracing::warn!(target: "librdkafka", facility, "{text}"),
        5..=6 => tracing::info!(target: "librdkafka", facility, "{text}"),
        _ => tracing::debug!(target: "librdkafka", facility, "{text}"),
    }
}
