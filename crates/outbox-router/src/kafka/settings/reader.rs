//! librdkafka's configuration for the clients that read: the state topic, and the topics of
//! `compare`.

use rdkafka::ClientConfig;

use super::{KafkaSettings, SettingRefused, checked};

/// Prefixes of the properties that concern connections and not records. The reader shares these
/// with the producer.
const OF_CONNECTIONS: &[&str] = &[
    "api.version.",
    "bootstrap.servers",
    "broker.",
    "client.",
    "connections.",
    "debug",
    "enable.metrics.push",
    "enable.sasl.",
    "enable.ssl.",
    "https.",
    "metadata.",
    "receive.message.max.bytes",
    "reconnect.",
    "resolve.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
    "topic.metadata.refresh.",
];

/// The properties for reading topics quickly and completely. Consumer properties that a user has
/// set are not used.
const READER: &[(&str, &str)] = &[
    ("allow.auto.create.topics", "false"),
    ("auto.offset.reset", "earliest"),
    ("check.crcs", "true"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    // Where the last offset has no record, as after a transaction, the broker waits this long
    // before it answers.
    ("fetch.wait.max.ms", "10"),
    ("fetch.error.backoff.ms", "50"),
    ("isolation.level", "read_uncommitted"),
    ("max.partition.fetch.bytes", "4194304"),
    ("queued.max.messages.kbytes", "16384"),
    ("topic.metadata.refresh.fast.interval.ms", "20"),
];

impl KafkaSettings {
    /// librdkafka's configuration for a client that reads.
    pub(in crate::kafka) fn reader_config(&self) -> Result<ClientConfig, SettingRefused> {
        // Not taken from the producer's `ClientConfig`, which returns secrets only as
        // `[sanitized]`.
        let mut properties = self.librdkafka_properties()?;
        properties
            .retain(|key, _| OF_CONNECTIONS.iter().any(|beginning| key.starts_with(beginning)));
        properties.extend(READER.iter().map(|(key, value)| ((*key).into(), (*value).into())));
        checked(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::settings::tests::settings;

    #[test]
    fn a_reader_connects_as_the_producer_does_and_is_in_no_group() {
        let settings = settings(&[
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanism", "SCRAM-SHA-256"),
            ("sasl.username", "router"),
            ("sasl.password", "hunter2"),
            ("compression.type", "lz4"),
            ("linger.ms", "5"),
        ]);
        let config = settings.reader_config().unwrap();
        let native = config.create_native_config().unwrap();
        for (key, value) in READER {
            // librdkafka's own name for it.
            let expected = if *value == "earliest" { "smallest" } else { *value };
            assert_eq!(native.get(key).unwrap(), expected, "{key}");
        }
        for (key, value) in [
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanisms", "SCRAM-SHA-256"),
            ("sasl.password", "hunter2"),
            ("client.id", "outbox-router"),
            ("bootstrap.servers", "127.0.0.1:9092"),
            ("reconnect.backoff.max.ms", "2000"),
            ("socket.keepalive.enable", "true"),
        ] {
            assert_eq!(config.get(key), Some(value), "{key}");
        }
        for producers in ["acks", "linger.ms", "compression.type", "batch.size", "group.id"] {
            assert_eq!(config.get(producers), None, "{producers}");
        }
    }
}
