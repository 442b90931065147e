//! The command line.

use clap::{Parser, ValueEnum};

/// Delivers an outbox to Kafka while the broker is stopped and the router is killed, and counts
/// what arrived.
#[derive(Debug, Parser)]
#[command(name = "demo", max_term_width = 100)]
pub(crate) struct Args {
    /// Produce to this Kafka instead of the embedded broker; the demo creates topics of its own
    /// there and deletes them at the end
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "broker")]
    pub(crate) kafka: Option<String>,
    /// Start a temporary Apache Kafka instead of the embedded broker (downloaded the first time)
    #[arg(long = "real-kafka", num_args = 0)]
    #[arg(default_value = "embedded", default_missing_value = "apache")]
    pub(crate) broker: OwnBroker,
    /// Drop one record before the count: the demo must then end with "lost 1" and exit code 1
    #[arg(long = "sabotage", num_args = 0)]
    #[arg(default_value = "honest", default_missing_value = "sabotaged")]
    pub(crate) counting: Counting,
    /// Leave everything running after the count, until Ctrl-C
    #[arg(long = "keep", num_args = 0)]
    #[arg(default_value = "remove", default_missing_value = "keep")]
    pub(crate) afterwards: Afterwards,
    /// Major version of PostgreSQL
    #[arg(long = "postgres", value_name = "VERSION", env = "OUTBOX_PG_VERSION")]
    #[arg(default_value_t = 15, hide_env_values = true)]
    pub(crate) postgres_version: u16,
}

/// The broker that the demo starts when it is given none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OwnBroker {
    /// librdkafka's mock cluster, in this process.
    Embedded,
    /// Apache Kafka.
    Apache,
}

/// Whether the count sees everything that the consumer read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Counting {
    /// Everything.
    Honest,
    /// All but one record: the count has to notice.
    Sabotaged,
}

/// What becomes of the servers after the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Afterwards {
    /// Stopped and removed.
    Remove,
    /// Left running until Ctrl-C.
    Keep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_sets_its_own_option() {
        let args = Args::try_parse_from(["demo", "--sabotage", "--real-kafka"]).unwrap();
        assert_eq!(args.counting, Counting::Sabotaged);
        assert_eq!(args.broker, OwnBroker::Apache);
        assert_eq!(args.afterwards, Afterwards::Remove);
    }

    #[test]
    fn kafka_and_real_kafka_exclude_each_other() {
        Args::try_parse_from(["demo", "--kafka", "localhost:9092", "--real-kafka"]).unwrap_err();
        let args = Args::try_parse_from(["demo", "--kafka", "localhost:9092"]).unwrap();
        assert_eq!(args.kafka.as_deref(), Some("localhost:9092"));
    }
}
