//! librdkafka's log lines on our log: target `librdkafka`, its syslog levels on ours.

/// Properties of ours that librdkafka warns of: one is experimental, one a consumer's.
const ON_PURPOSE: &[&str] = &[" enable.gapless.guarantee ", " isolation.level "];

/// Writes one line. librdkafka's EMERG to ERR need attention, but never somebody out of bed:
/// whatever matters also arrives as an error event or a failed report and is logged once, where it
/// is handled.
pub(super) fn write(level: i32, facility: &str, text: &str) {
    match level {
        // Set on purpose, for every producer: a warning at each start would teach people to skip
        // warnings.
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
