//! What a person can choose from.

use clap::ValueEnum;

/// A choice as it is typed, and as it stands in the JSON lines.
pub(crate) fn word(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// A backlog, as fast as it goes
    Drain,
    /// Commit to consumer at a fixed rate
    Latency,
    /// Memory at full speed and with one transaction of 1 GB
    Memory,
    /// Start to first record
    Start,
    /// Memory while the broker is away, and catching up
    Outage,
    /// From the death of the holder to the first record of the standby
    Takeover,
    /// CPU of a router that has nothing to do
    Idle,
    /// CPU per event from few to many topics, keys, and rows per transaction
    Flat,
}

impl Mode {
    /// What is measured when nothing is chosen.
    pub(crate) const USUAL: [Self; 4] = [Self::Drain, Self::Latency, Self::Memory, Self::Start];

    /// The order in which they are measured. The last one leaves thousands of topics behind.
    pub(crate) const ORDER: [Self; 8] = [
        Self::Drain,
        Self::Memory,
        Self::Start,
        Self::Takeover,
        Self::Idle,
        Self::Latency,
        Self::Outage,
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

/// What grows when flatness is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Series {
    /// Topics, from 10 to 10,000
    Topics,
    /// Keys, from 1 to 100,000
    Keys,
    /// Partitions of the topic, from 1 to 12
    Partitions,
    /// Rows per transaction, from 1 to 1,000,000
    Rows,
}

/// How Debezium is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tuning {
    /// Debezium on Connect, everything as it comes
    #[value(name = "debezium")]
    Defaults,
    /// The same, tuned for what is measured
    #[value(name = "debezium-tuned")]
    Tuned,
}
