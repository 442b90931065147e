//! The forms of a file.

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Form {
    /// What is posted to Kafka Connect.
    ConnectJson,
    /// What a standalone Kafka Connect worker reads.
    ConnectProperties,
    /// `application.properties` of Debezium Server.
    ServerProperties,
    /// A `KafkaConnector` of Strimzi, or the same settings as YAML.
    Yaml,
}

impl Form {
    /// As it is called in messages.
    pub(in super::super) const fn as_str(self) -> &'static str {
        match self {
            Self::ConnectJson => "Kafka Connect JSON",
            Self::ConnectProperties => "Kafka Connect properties",
            Self::ServerProperties => "Debezium Server properties",
            Self::Yaml => "Strimzi YAML",
        }
    }
}
