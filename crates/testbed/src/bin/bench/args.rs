//! What may be typed.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures outbox-router on real servers, beside `pg_recvlogical` into nothing.
#[derive(Debug, Parser)]
#[command(name = "bench", max_term_width = 100)]
#[command(after_help = "Example:\n  scripts/bench.sh drain latency --runs 3 --rate 1000 5000")]
pub(crate) struct Args {
    /// What to measure [default: all]
    #[arg(value_enum)]
    modes: Vec<Mode>,
    /// Runs of each reader; one more comes first and is not counted
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Rows of each backlog [default: 1000000, and 400000 in transactions of one row]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..))]
    events: Option<u64>,
    /// Transactions a second of the latency measurement
    #[arg(long, num_args = 1.., default_values_t = [1000, 5000],
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Vec<u32>,
    /// Version of PostgreSQL
    #[arg(long, default_value_t = 17)]
    pub(crate) pg: u16,
    /// How readers reach PostgreSQL
    #[arg(long, value_enum, default_value_t = Socket::Tcp)]
    pub(crate) socket: Socket,
    /// The router; several are compared with each other, their runs taking turns [default: the one
    /// that was built]
    #[arg(long)]
    pub(crate) binary: Vec<PathBuf>,
    /// Append every figure to this file, a JSON object a line
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

impl Args {
    pub(crate) fn measures(&self, mode: Mode) -> bool {
        self.modes.is_empty() || self.modes.contains(&mode)
    }

    /// Rows of a backlog, in whole transactions.
    pub(crate) fn events(&self, default: u64, per_transaction: u64) -> u64 {
        let events = self.events.unwrap_or(default);
        events - events % per_transaction
    }
}

/// A kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// A backlog, as fast as it goes
    Drain,
    /// Commit to consumer at a fixed rate
    Latency,
    /// Memory with one large transaction
    Memory,
    /// Start to first record
    Start,
}

impl Mode {
    /// As typed, and as JSON lines tell it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Latency => "latency",
            Self::Memory => "memory",
            Self::Start => "start",
        }
    }
}

/// How readers reach PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Socket {
    /// Loopback
    Tcp,
    /// The server's unix socket
    Unix,
}
