//! The values that the command line accepts.

use clap::ValueEnum;

/// The name of a value, on the command line and in the JSON lines.
pub(crate) fn value_name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    /// A backlog, at full speed
    Drain,
    /// Time from commit to consumer, at a fixed rate
    Latency,
    /// Memory at full speed and with one transaction of 1 GB
    Memory,
    /// Time from the start to the first record
    Start,
    /// Memory while the broker is down, and the time to catch up
    Outage,
    /// Time from the death of the slot's holder to the first record of the standby
    Takeover,
    /// CPU time of a router that has nothing to do
    Idle,
    /// Time of a scrape of a hundred topics
    Scrape,
    /// What dead letters and held events cost: the latency of other keys, a backlog, the way out of
    /// the table, the start
    Held,
    /// What retention costs the writers, and whether the table stays small
    Retention,
    /// How fast a table is polled, and how soon a NOTIFY brings a row into Kafka
    Polling,
    /// CPU time per event, from few to many topics, keys, partitions and rows per transaction
    Flat,
}

impl Measurement {
    /// What is measured when nothing is chosen.
    pub(crate) const USUAL: [Self; 4] = [Self::Drain, Self::Latency, Self::Memory, Self::Start];

    /// The order in which they are measured. The last one leaves thousands of topics behind.
    pub(crate) const ORDER: [Self; 12] = [
        Self::Drain,
        Self::Memory,
        Self::Start,
        Self::Takeover,
        Self::Idle,
        Self::Scrape,
        Self::Latency,
        Self::Held,
        Self::Retention,
        Self::Outage,
        Self::Polling,
        Self::Flat,
    ];
}

/// How readers reach PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Socket {
    /// Loopback
    Tcp,
    /// Loopback, encrypted
    Tls,
    /// The server's unix socket
    Unix,
}

/// The parameter that grows in the measurement `flat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GrowthSeries {
    /// Topics, from 10 to 10,000
    Topics,
    /// Keys, from 1 to 100,000
    Keys,
    /// Partitions of the topic, from 1 to 12
    Partitions,
    /// Rows per transaction, from 1 to 1,000,000
    Rows,
}

/// What a router does about delivered rows in the measurement `retention`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Retention {
    /// They stay in the table
    Off,
    /// They are deleted
    Delete,
}

/// A part of the measurement `held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeldPart {
    /// Time from commit to consumer while one key is held
    Latency,
    /// A backlog beside held keys
    Drain,
    /// The way of one key's events into the table and out of it
    Release,
    /// Time from the start to the first record
    Start,
}

/// What is measured beside the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Debezium on Kafka Connect, with its defaults
    Debezium,
    /// The same, tuned for what is measured
    DebeziumTuned,
    /// go-pq-cdc-kafka, tuned for what is measured
    #[value(name = "go-pq-cdc")]
    GoPqCdc,
}

impl Peer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Debezium => "Debezium",
            Self::DebeziumTuned => "Debezium tuned",
            Self::GoPqCdc => "go-pq-cdc-kafka",
        }
    }
}
