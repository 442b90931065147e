//! Texts that must follow a rule, with the reason for each rule.

use std::net::SocketAddr;

use relay::{JavaRegex, TopicName, TopicTemplate};

use super::error::Rejection;

/// PostgreSQL cuts an application name at 63 bytes and replaces what is not printable ASCII. The
/// same name is a metric label and a Kafka client id, so only characters that all three keep are
/// accepted.
pub(super) fn name(text: &str) -> Result<String, Rejection> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !text.is_empty() && text.len() <= 63 && text.chars().all(legal) {
        return Ok(text.to_owned());
    }
    Err(Rejection::value("is no name").hint("1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-'"))
}

/// A topic that may depend on the row.
pub(super) fn topic(text: &str) -> Result<TopicTemplate, Rejection> {
    TopicTemplate::parse(text).map_err(|error| Rejection::value(format!("is no topic: {error}")))
}

/// A regular expression in Java's syntax.
pub(super) fn java_regex(text: &str) -> Result<JavaRegex, Rejection> {
    JavaRegex::parse(text).map_err(|error| Rejection::value(format!("has {error}")))
}

/// A member's name in a JSON object.
pub(super) fn member(text: &str) -> Result<String, Rejection> {
    if text.is_empty() { Err(Rejection::value("is empty")) } else { Ok(text.to_owned()) }
}

/// Consumers may copy headers into HTTP, so a name must not hold a line break.
pub(super) fn header(text: &str) -> Result<String, Rejection> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(Rejection::value("is no header name")
            .hint("at least one character, none of them a control character"));
    }
    Ok(text.to_owned())
}

/// An empty text means that there is no witness.
pub(super) fn state_topic(text: &str) -> Result<Option<TopicName>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    TopicName::new(text).map(Some).map_err(|error| {
        Rejection::value("is no topic name").hint(format!("{error}; \"\" keeps no witness"))
    })
}

/// An empty text means that dead letters are in the table alone.
pub(super) fn dead_letter_topic(text: &str) -> Result<Option<TopicName>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    TopicName::new(text).map(Some).map_err(|error| {
        let hint = format!("{error}; \"\" writes dead letters to the table alone");
        Rejection::value("is no topic name").hint(hint)
    })
}

/// Writes the topic as [`state_topic`] and [`dead_letter_topic`] read it.
#[expect(clippy::ref_option, reason = "what a kind prints is a reference to the value")]
pub(super) fn print_optional_topic(topic: &Option<TopicName>) -> String {
    topic.as_ref().map_or_else(String::new, ToString::to_string)
}

/// A list of brokers. Only the form is checked; whether the protocol is the right one depends on
/// librdkafka's properties.
pub(super) fn servers(text: &str) -> Result<String, Rejection> {
    let plausible = |server: &str| {
        let server = server.trim();
        let port = server.rsplit_once(':').map(|(_, port)| port);
        !server.is_empty()
            && !server.contains(char::is_whitespace)
            && port.is_none_or(|port| {
                // What follows the last colon may be the end of "[::1]" or of "ssl://host".
                port.parse::<u16>().is_ok_and(|port| port != 0)
                    || server.ends_with(']')
                    || port.starts_with("//")
            })
    };
    if text.split(',').all(plausible) {
        return Ok(text.to_owned());
    }
    Err(Rejection::value("is no list of brokers").hint("write \"host:9092,other:9092\""))
}

/// An IP address with a port. A host name is refused, because it would have to be resolved and
/// could have several addresses.
pub(super) fn address(text: &str) -> Result<SocketAddr, Rejection> {
    text.parse().map_err(|_| {
        Rejection::value("is no address with a port")
            .hint("write \"127.0.0.1:8788\", \"0.0.0.0:8788\" or \"[::1]:8788\"")
    })
}

/// Names of hosts, without ports.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, Rejection> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let names: Vec<String> = match text.trim() {
        "" => Vec::new(),
        text => text.split(',').map(|name| name.trim().trim_end_matches('.').to_owned()).collect(),
    };
    if names.iter().all(|name| !name.is_empty() && name.chars().all(legal)) {
        return Ok(names);
    }
    Err(Rejection::value("is no list of hosts")
        .hint("names without ports, as in \"router.example.org, router.shop.svc\""))
}

/// A filter as `tracing` reads it.
pub(super) fn log_filter(text: &str) -> Result<String, Rejection> {
    tracing_subscriber::EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|_| {
        Rejection::value("is no log filter")
            .hint("error, warn, info, debug or trace; or \"info,outbox_router::kafka=debug\"")
    })
}
