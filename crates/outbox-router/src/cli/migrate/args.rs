//! The flags of `migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::{cli::form::Form, config::typed_servers};

/// `migrate`
#[derive(Debug, Subcommand)]
pub enum MigrateFrom {
    /// Translate a Debezium connector with the outbox EventRouter, and say what is carried over,
    /// what behaves differently, and what is not supported
    #[command(after_help = "Examples:\n  outbox-router migrate debezium connector.json \
        --bootstrap-servers kafka:9092 --out outbox-router.toml\n  \
        curl -s http://connect:8083/connectors/outbox | outbox-router migrate debezium -\n  \
        outbox-router migrate debezium connector.json --take-over --connect-url \
        http://connect:8083\n\n\
        FILE is a connector as Kafka Connect JSON or .properties, application.properties of\n\
        Debezium Server, or a KafkaConnector of Strimzi as YAML. Passwords are not copied.")]
    Debezium(MigrateArgs),
}

/// `migrate debezium`
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where Kafka is; a connector of Kafka Connect does not say it
    #[arg(long, value_name = "HOST:PORT", value_parser = typed_servers)]
    pub bootstrap_servers: Option<String>,
    /// The outbox, where the file has a pattern or nothing; may be given several times
    #[arg(long = "table", value_name = "SCHEMA.TABLE")]
    pub tables: Vec<String>,
    /// How keys are written: where the file names no converter, or to choose another
    #[arg(long, value_name = "HOW")]
    pub key_converter: Option<Converter>,
    /// How values are written, likewise
    #[arg(long, value_name = "HOW")]
    pub value_converter: Option<Converter>,
    /// Write the configuration although something in the file is not supported
    #[arg(long = "accept", num_args = 0, default_value = "refuse")]
    #[arg(default_missing_value = "accept")]
    pub unsupported: Unsupported,
    /// Write the configuration to this file, which must not exist, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Check each step before `run` may stream from the connector's slot, and say what to type.
    /// Nothing is changed. It uses the configuration that `run` would use, else what the file
    /// translates to
    #[arg(long = "take-over", num_args = 0, default_value = "no", default_missing_value = "yes")]
    #[arg(conflicts_with = "give_back")]
    pub take_over: TakeOver,
    /// The same for the way back, from the router to the connector
    #[arg(long = "give-back", num_args = 0, default_value = "no", default_missing_value = "yes")]
    pub give_back: GiveBack,
    /// Kafka Connect's REST interface, for --take-over and --give-back: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub connect_url: Option<String>,
    /// Print one JSON object with the configuration and the lists, or the steps, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
}

impl MigrateArgs {
    /// Which way the slot is to be handed over; `None`: the file is only translated.
    pub fn direction(&self) -> Option<Direction> {
        match (self.take_over, self.give_back) {
            (TakeOver::Yes, _) => Some(Direction::TakeOver),
            (TakeOver::No, GiveBack::Yes) => Some(Direction::GiveBack),
            (TakeOver::No, GiveBack::No) => None,
        }
    }
}

/// Who has the slot, and who gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The router gets it from the connector.
    TakeOver,
    /// The connector gets it from the router.
    GiveBack,
}

/// Whether the way from the connector to the router is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TakeOver {
    /// It is not.
    No,
    /// It is.
    Yes,
}

/// Whether the way from the router to the connector is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GiveBack {
    /// It is not.
    No,
    /// It is.
    Yes,
}

/// A converter of Kafka Connect, by what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Converter {
    /// StringConverter: the column's text
    String,
    /// JsonConverter with schemas.enable=false: JSON, a text in quotes
    Json,
    /// ByteArrayConverter, BinaryDataConverter: the bytes of a bytea column
    Bytes,
}

/// What happens where something is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unsupported {
    /// Nothing is written.
    Refuse,
    /// The rest is written.
    Accept,
}
