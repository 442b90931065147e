//! The flags of `compare`.

use std::{num::NonZeroU64, time::Duration};

use clap::Args;

use crate::{
    cli::{
        flags::{AdminArgs, Overrides},
        form::Form,
    },
    config::parse_duration,
};

/// `compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Compare only events committed since then, in any form that PostgreSQL reads as a timestamptz
    #[arg(long, value_name = "TIME", conflicts_with = "records")]
    pub since: Option<String>,
    /// Follow the slot until so many events are compared, instead of ending where WAL ends now
    #[arg(long, value_name = "N")]
    pub records: Option<NonZeroU64>,
    /// How long to wait, after the last event or record has come, for records that are not in Kafka
    /// yet; their events are then missing
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub wait: Duration,
    /// How far before the time of its first event each topic is read
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub lookback: Duration,
    /// Also read this topic, from --lookback before the first event of all; by default the topics
    /// are read to which the router would write
    #[arg(long = "topic", value_name = "NAME")]
    pub topics: Vec<String>,
    /// Print one JSON object, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}
