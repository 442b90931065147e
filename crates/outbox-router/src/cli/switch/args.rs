//! The flags of `switch`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use relay::handover::switch::StreamedBefore;

use crate::{
    cli::{
        decision_args::HowArgs,
        flags::{AdminArgs, Overrides},
        hoster::Hoster,
    },
    config::parse_duration,
};

/// `switch`
#[derive(Debug, Subcommand)]
pub enum Switch {
    /// Make publication and slot, let the pending rows be sent that are older than the slot, and
    /// hand the tables to the stream
    #[command(after_help = "Example:\n  \
        outbox-router switch stream --admin-url postgres://admin@db/shop\n\n\
        It shows what it will do and asks. Workers that poll may run: they finish what they have,\n\
        and take nothing more. After a kill, the same command goes on (docs/polling.md, \"The\n\
        switch\").")]
    Stream(ToStreamArgs),
    /// Mark the rows that the stream has delivered, drop the slot, and let the tables be polled; or
    /// cancel a switch to the stream that is not complete
    #[command(after_help = "Example:\n  \
        outbox-router switch polling --admin-url postgres://admin@db/shop\n\n\
        Stop the router that streams before. It shows what it will do and asks. After a kill, the\n\
        same command goes on (docs/polling.md, \"The switch\").")]
    Polling(ToPollingArgs),
}

impl Switch {
    /// Where to connect.
    pub(in crate::cli) const fn admin(&self) -> &AdminArgs {
        match self {
            Self::Stream(args) => &args.admin,
            Self::Polling(args) => &args.admin,
        }
    }

    /// What was set after the command.
    pub(in crate::cli) const fn overrides(&self) -> &Overrides {
        match self {
            Self::Stream(args) => &args.overrides,
            Self::Polling(args) => &args.overrides,
        }
    }
}

/// `switch stream`
#[derive(Debug, Args)]
pub struct ToStreamArgs {
    /// The role that the router runs as, which gets the right to replicate [default: that of
    /// postgres.url, with --admin-url]
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// Who runs the server, which decides how the role gets the right to replicate; without it the
    /// server's own roles tell
    #[arg(long, value_name = "HOSTER")]
    pub managed: Option<Hoster>,
    /// How long to wait for open transactions while the slot is created, and how far ahead the
    /// times of pending rows may be that are not to be sent yet, at least polling.lease
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub wait: Duration,
    /// Whether it asks, and whether anything is changed.
    #[command(flatten)]
    pub how: HowArgs,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

fn streamed_before(text: &str) -> Result<StreamedBefore, &'static str> {
    match text {
        "said" => Ok(StreamedBefore::Said),
        "unsaid" => Ok(StreamedBefore::Unsaid),
        _ => Err("write said or unsaid"),
    }
}

/// Pending rows that are in no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OlderPending {
    /// They stay pending, and workers send them, behind later rows of their keys
    Send,
    /// They are given up, and marked as published
    GiveUp,
}

/// `switch polling`
#[derive(Debug, Args)]
pub struct ToPollingArgs {
    /// The tables were streamed from this slot, although no witness says so, since
    /// kafka.state_topic is empty
    #[arg(long = "streamed", num_args = 0, default_value = "unsaid")]
    #[arg(default_missing_value = "said", value_parser = streamed_before)]
    pub streamed: StreamedBefore,
    /// What becomes of pending rows from before their table was an outbox of the stream, which no
    /// slot has sent [default: refuse, where there are any]
    #[arg(long, value_name = "WHAT")]
    pub older: Option<OlderPending>,
    /// Whether it asks, and whether anything is changed.
    #[command(flatten)]
    pub how: HowArgs,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

impl ToPollingArgs {
    /// The flags that a hint repeats.
    pub(super) fn typed(&self) -> String {
        match self.streamed {
            StreamedBefore::Said => " --streamed".to_owned(),
            StreamedBefore::Unsaid => String::new(),
        }
    }
}
