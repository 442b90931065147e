//! Decides which librdkafka properties a user may set: all that weaken no guarantee. The others are
//! refused at the start, by name and with the reason, under every alias that librdkafka knows.

use std::{collections::BTreeMap, fmt, net::IpAddr};

/// A property, or its value, that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRefused {
    /// The property's name as the user spelled it.
    pub key: String,
    /// What would go wrong, or which key to set instead. Never contains the value, which may be a
    /// secret.
    pub why: String,
}

impl fmt::Display for SettingRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kafka property {} refused: {}", self.key, self.why)
    }
}

impl std::error::Error for SettingRefused {}

/// Aliases that librdkafka accepts, with the canonical names. If both were set, it would be left to
/// chance which one applies.
const ALIASES: &[(&str, &str)] = &[
    ("request.required.acks", "acks"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("compression.codec", "compression.type"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("message.send.max.retries", "retries"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("sasl.mechanism", "sasl.mechanisms"),
    ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
];

/// What a property may be set to.
enum Rule {
    /// Nothing.
    Never,
    /// The value that it has anyway, in one of these spellings.
    Only(&'static [&'static str]),
    /// A number in this inclusive range.
    Within(i64, i64),
    /// A comma-separated list of these values.
    Among(&'static [&'static str]),
}

const TRUE: Rule = Rule::Only(&["true", "t", "1"]);
const FALSE: Rule = Rule::Only(&["false", "f", "0"]);

const ORDER_OR_LOSS: &str = "the router would skip records or write them out of order";
const SIZED: &str = "it follows from limits.window_bytes and limits.row_bytes";
const CERTIFICATE: &str =
    "the broker would not be authenticated; name its certificate authority by ssl.ca.location";

/// The mechanisms of SASL that are built in.
const MECHANISMS: &[&str] = if cfg!(feature = "gssapi") {
    &["plain", "scram-sha-256", "scram-sha-512", "gssapi"]
} else {
    &["plain", "scram-sha-256", "scram-sha-512"]
};
const OAUTHBEARER: &str = "sasl.oauthbearer.";
const OTHER_MECHANISM: &str = "is not supported: OAUTHBEARER and AWS_MSK_IAM need a token that \
     nothing here fetches, and GSSAPI is in binaries built with the feature gssapi alone; set PLAIN, \
     SCRAM-SHA-256 or SCRAM-SHA-512, or use a client certificate (ssl.certificate.location, ssl.key.location)";

/// By canonical name, with the reason. A property that is not listed is accepted.
const RULES: &[(&str, Rule, &str)] = &[
    ("acks", Rule::Only(&["all", "-1"]), "only records on all in-sync replicas may be confirmed"),
    ("allow.auto.create.topics", FALSE, "set kafka.create_topics to have topics created"),
    ("bootstrap.servers", Rule::Never, "set kafka.bootstrap_servers"),
    ("client.id", Rule::Never, "it is the router's name"),
    (
        "compression.type",
        Rule::Among(&["none", "gzip", "snappy", "lz4"]),
        "zstd is not built in; set one of none, gzip, snappy, lz4",
    ),
    (
        "debug",
        Rule::Among(&[
            "broker", "topic", "metadata", "feature", "queue", "msg", "protocol", "admin", "eos",
        ]),
        "other debug contexts may print secrets; these do not: broker, topic, metadata, feature, \
         queue, msg, protocol, admin, eos",
    ),
    ("delivery.report.only.error", FALSE, "without reports nothing could be confirmed"),
    ("enable.gapless.guarantee", TRUE, ORDER_OR_LOSS),
    ("enable.idempotence", TRUE, ORDER_OR_LOSS),
    ("enable.sasl.oauthbearer.unsecure.jwt", FALSE, "such a token is not signed"),
    ("enable.ssl.certificate.verification", TRUE, CERTIFICATE),
    ("enabled_events", Rule::Never, "the router decides which events it reads"),
    ("internal.termination.signal", Rule::Never, "signals are the router's"),
    (
        "isolation.level",
        Rule::Only(&["read_uncommitted"]),
        "the end of the state topic would stay before an open transaction of another client",
    ),
    ("log.queue", Rule::Never, "log lines go through the router's log"),
    ("log_level", Rule::Never, "set log.level"),
    ("max.in.flight.requests.per.connection", Rule::Within(1, 5), ORDER_OR_LOSS),
    ("message.timeout.ms", Rule::Only(&["0"]), ORDER_OR_LOSS),
    ("partitioner", Rule::Never, "the router computes partitions itself, as the Java client does"),
    ("plugin.library.paths", Rule::Never, "a plug-in could change or drop records"),
    ("queue.buffering.max.kbytes", Rule::Never, SIZED),
    ("queue.buffering.max.messages", Rule::Never, SIZED),
    ("queuing.strategy", Rule::Only(&["fifo"]), ORDER_OR_LOSS),
    (
        "reconnect.backoff.max.ms",
        Rule::Within(0, 2_000),
        "it may be 2000 at most, so that the router is back soon after an outage",
    ),
    (
        "reconnect.backoff.ms",
        Rule::Within(0, 2_000),
        "it may be 2000 at most, so that the router is back soon after an outage",
    ),
    ("retries", Rule::Only(&["2147483647"]), ORDER_OR_LOSS),
    ("ssl.endpoint.identification.algorithm", Rule::Only(&["https"]), CERTIFICATE),
    ("sasl.mechanisms", Rule::Among(MECHANISMS), OTHER_MECHANISM),
    ("statistics.interval.ms", Rule::Never, "set kafka.statistics, such as \"10s\""),
    ("sticky.partitioning.linger.ms", Rule::Never, "the router computes partitions itself"),
    ("test.mock.broker.rtt", Rule::Never, "it is for tests of librdkafka"),
    ("test.mock.num.brokers", Rule::Never, "events would go to a broker that keeps nothing"),
    ("transaction.timeout.ms", Rule::Never, "the router does not use transactions"),
    ("transactional.id", Rule::Never, "the router does not use transactions"),
];

/// Returns the properties by canonical name, if every one is allowed.
pub(super) fn accept(
    properties: &BTreeMap<String, String>,
    bootstrap_servers: &str,
) -> Result<BTreeMap<String, String>, SettingRefused> {
    let mut accepted = BTreeMap::new();
    for (key, value) in properties {
        let name = ALIASES.iter().find(|(alias, _)| alias == key).map_or(key.as_str(), |a| a.1);
        if name.starts_with(OAUTHBEARER) {
            return Err(refused(key, format!("OAUTHBEARER {OTHER_MECHANISM}")));
        }
        if let Some((_, rule, why)) = RULES.iter().find(|(ruled, ..)| *ruled == name)
            && !rule.allows(value)
        {
            let mechanism = (name == "sasl.mechanisms").then(|| format!("{} ", value.trim()));
            return Err(refused(key, format!("{}{why}", mechanism.unwrap_or_default())));
        }
        if accepted.insert(name.to_owned(), value.clone()).is_some() {
            return Err(refused(key, "it is given twice, under two names"));
        }
    }
    refuse_other_protocols(&accepted, bootstrap_servers)?;
    refuse_unnamed_mechanism(&accepted)?;
    refuse_secrets_in_the_open(&accepted, bootstrap_servers)?;
    Ok(accepted)
}

/// Leaves a refused property out, so that the next check finds what else is wrong; `false` where it
/// was not set. What would only follow from it is not found: another mechanism takes the place of
/// one that is refused, and the properties of OAUTHBEARER go with it.
pub(super) fn leave_out(properties: &mut BTreeMap<String, String>, key: &str) -> bool {
    let was_set = properties.remove(key).is_some();
    if was_set && ["sasl.mechanism", "sasl.mechanisms"].contains(&key) {
        properties.retain(|name, _| !name.starts_with(OAUTHBEARER));
        properties.insert("sasl.mechanisms".to_owned(), "SCRAM-SHA-256".to_owned());
    }
    was_set
}

/// The user's spelling of a canonical name, where the user has set an alias.
pub(super) fn as_spelled(properties: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let alias =
        |(alias, canonical): &&(&str, &str)| *canonical == name && properties.contains_key(*alias);
    ALIASES.iter().find(alias).map(|(alias, _)| (*alias).to_owned())
}

/// Refuses a server with another protocol than `security.protocol`. librdkafka would skip that
/// server, and all that follow it in the list, with only a log line.
fn refuse_other_protocols(
    accepted: &BTreeMap<String, String>,
    bootstrap_servers: &str,
) -> Result<(), SettingRefused> {
    let in_force = accepted.get("security.protocol").map_or("plaintext", |value| value.trim());
    for server in bootstrap_servers.split(',') {
        if let Some((protocol, _)) = server.trim().split_once("://")
            && !protocol.eq_ignore_ascii_case(in_force)
        {
            return Err(refused(
                "bootstrap.servers",
                "a server is named with another protocol than kafka.properties.security.protocol",
            ));
        }
    }
    Ok(())
}

/// Refuses SASL without a mechanism where librdkafka's default, GSSAPI, is not built in.
fn refuse_unnamed_mechanism(accepted: &BTreeMap<String, String>) -> Result<(), SettingRefused> {
    let protocol = accepted.get("security.protocol").map_or("", |value| value.trim());
    let is_sasl = ["sasl_plaintext", "sasl_ssl"].iter().any(|it| protocol.eq_ignore_ascii_case(it));
    if is_sasl && !accepted.contains_key("sasl.mechanisms") && !MECHANISMS.contains(&"gssapi") {
        return Err(refused(
            "security.protocol",
            "it asks for SASL, and no mechanism is named; set sasl.mechanism to PLAIN, \
             SCRAM-SHA-256 or SCRAM-SHA-512",
        ));
    }
    Ok(())
}

/// Refuses PLAIN, which sends the password, over a network without TLS. SCRAM does not send it.
fn refuse_secrets_in_the_open(
    accepted: &BTreeMap<String, String>,
    bootstrap_servers: &str,
) -> Result<(), SettingRefused> {
    let is = |key: &str, expected: &str| {
        accepted.get(key).is_some_and(|value| value.trim().eq_ignore_ascii_case(expected))
    };
    if is("security.protocol", "sasl_plaintext")
        && is("sasl.mechanisms", "PLAIN")
        && !bootstrap_servers.split(',').all(is_loopback)
    {
        return Err(refused(
            "security.protocol",
            "the secret would cross the network in clear text; set sasl_ssl, or a SCRAM mechanism",
        ));
    }
    Ok(())
}

fn is_loopback(server: &str) -> bool {
    let server = server.trim();
    let host = server.rsplit_once("://").map_or(server, |(_, rest)| rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn refused(key: &str, why: impl Into<String>) -> SettingRefused {
    SettingRefused { key: key.to_owned(), why: why.into() }
}

impl Rule {
    fn allows(&self, value: &str) -> bool {
        let value = value.trim().to_ascii_lowercase();
        match self {
            Self::Never => false,
            Self::Only(spellings) => spellings.contains(&value.as_str()),
            Self::Within(least, most) => {
                value.parse::<i64>().is_ok_and(|value| (*least..=*most).contains(&value))
            }
            Self::Among(allowed) => value.split(',').all(|one| allowed.contains(&one.trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept_one(key: &str, value: &str) -> Result<BTreeMap<String, String>, SettingRefused> {
        accept(&BTreeMap::from([(key.to_owned(), value.to_owned())]), "kafka.example:9092")
    }

    #[test]
    fn a_property_that_would_break_a_guarantee_is_refused_by_its_own_name() {
        for (key, value) in [
            ("acks", "1"),
            ("request.required.acks", "0"),
            ("enable.idempotence", "false"),
            ("enable.gapless.guarantee", "f"),
            ("message.timeout.ms", "300000"),
            ("delivery.timeout.ms", "1000"),
            ("retries", "10"),
            ("message.send.max.retries", "0"),
            ("max.in.flight", "6"),
            ("max.in.flight.requests.per.connection", "1000000"),
            ("max.in.flight", "many"),
            ("allow.auto.create.topics", "true"),
            ("transactional.id", "x"),
            ("partitioner", "murmur2_random"),
            ("queue.buffering.max.messages", "0"),
            ("queue.buffering.max.kbytes", "4194304"),
            ("queuing.strategy", "lifo"),
            ("bootstrap.servers", "elsewhere:9092"),
            ("metadata.broker.list", "elsewhere:9092"),
            ("delivery.report.only.error", "true"),
            ("reconnect.backoff.max.ms", "10000"),
            ("enable.ssl.certificate.verification", "false"),
            ("ssl.endpoint.identification.algorithm", "none"),
            ("debug", "all"),
            ("debug", "broker,security"),
            ("plugin.library.paths", "/lib/x.so"),
            ("test.mock.num.brokers", "3"),
            ("statistics.interval.ms", "1000"),
            ("statistics.interval.ms", "0"),
            ("compression.codec", "zstd"),
            ("compression.type", "brotli"),
            ("sasl.mechanism", "OAUTHBEARER"),
            ("sasl.mechanisms", "oauthbearer"),
            ("sasl.oauthbearer.method", "oidc"),
            ("sasl.oauthbearer.client.credentials.client.id", "x"),
        ] {
            let refused = accept_one(key, value).expect_err(&format!("{key}={value}"));
            assert_eq!(refused.key, key);
            assert!(!refused.why.contains("elsewhere"), "the value is not repeated");
        }
    }

    #[test]
    fn what_weakens_nothing_passes_under_its_canonical_name() {
        for (key, value, name) in [
            ("compression.codec", "lz4", "compression.type"),
            ("queue.buffering.max.ms", "5", "linger.ms"),
            ("acks", "ALL", "acks"),
            ("request.required.acks", "-1", "acks"),
            ("enable.idempotence", "true", "enable.idempotence"),
            ("max.in.flight", "1", "max.in.flight.requests.per.connection"),
            ("sasl.mechanism", "SCRAM-SHA-512", "sasl.mechanisms"),
            ("debug", "broker, topic", "debug"),
            ("ssl.ca.location", "/etc/ca.pem", "ssl.ca.location"),
        ] {
            let accepted = accept_one(key, value).unwrap_or_else(|refused| panic!("{refused}"));
            assert_eq!(accepted.get(name).map(String::as_str), Some(value), "{key}");
        }
    }

    /// It would be accepted, and then no broker could be logged in to.
    #[test]
    fn a_mechanism_that_cannot_log_in_is_refused_with_those_that_can() {
        let refused = accept_one("sasl.mechanism", "OAUTHBEARER").unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("sasl.mechanism refused: OAUTHBEARER is not supported"), "{text}");
        assert!(text.contains("set PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"), "{text}");
        let of_amazon = accept_one("sasl.mechanism", "AWS_MSK_IAM").unwrap_err().to_string();
        assert!(of_amazon.contains("refused: AWS_MSK_IAM is not supported"), "{of_amazon}");
        if !cfg!(feature = "gssapi") {
            assert!(accept_one("sasl.mechanism", "GSSAPI").is_err());
            for protocol in ["SASL_SSL", "sasl_plaintext"] {
                let unnamed = accept_one("security.protocol", protocol).unwrap_err();
                assert!(unnamed.why.contains("set sasl.mechanism to"), "{unnamed}");
            }
        }
        accept_one("security.protocol", "SSL").unwrap();
    }

    #[test]
    fn two_spellings_of_one_property_are_refused() {
        let properties = [("linger.ms", "1"), ("queue.buffering.max.ms", "2")]
            .map(|(k, v)| (k.into(), v.into()));
        assert!(accept(&properties.into(), "k:9092").is_err());
    }

    #[test]
    fn a_password_goes_in_clear_text_to_this_machine_only() {
        let properties = |mechanism: &str| {
            [("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", mechanism)]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into()
        };
        for (mechanism, servers, allowed) in [
            ("PLAIN", "kafka:9092", false),
            ("plain", "127.0.0.1:9092,kafka:9092", false),
            ("PLAIN", "127.0.0.1:9092, localhost:9093", true),
            ("PLAIN", "SASL_PLAINTEXT://[::1]:9092", true),
            ("SCRAM-SHA-256", "kafka:9092", true),
        ] {
            let outcome = accept(&properties(mechanism), servers);
            assert_eq!(outcome.is_ok(), allowed, "{mechanism} at {servers}");
        }
    }
}
