//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum as _};

use crate::scenario::Play;

/// Plays random rounds against the real router, and looks for rows that were lost, removed before
/// they were sent, or passed over.
#[derive(Debug, Parser)]
#[command(name = "judge", max_term_width = 100)]
#[command(
    after_help = "Example:\n  scripts/judge.sh --seconds 3600 --postgres 18\n  scripts/judge.sh --scenario recover --seed 7"
)]
pub(crate) struct Args {
    /// For how long rounds begin; the last one is played to its end
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub(crate) seconds: u64,
    /// Seed of the random choices [default: another one each time]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Rounds of this kind alone
    #[arg(long, value_name = "NAME")]
    scenario: Option<Play>,
    /// Where the logs of a round with findings are kept
    #[arg(long, value_name = "DIRECTORY", default_value = "target/judge")]
    pub(crate) keep: PathBuf,
    /// Major version of PostgreSQL
    #[arg(long = "postgres", value_name = "VERSION", env = "OUTBOX_PG_VERSION")]
    #[arg(default_value_t = 18, hide_env_values = true)]
    pub(crate) postgres_version: u16,
}

impl Args {
    /// The kinds of rounds.
    pub(crate) fn plays(&self) -> Vec<Play> {
        self.scenario.map_or_else(|| Play::value_variants().to_vec(), |play| vec![play])
    }

    /// What to type to see the same rounds.
    pub(crate) fn again(&self, seed: u64) -> String {
        let scenario = self.scenario.map(|play| format!(" --scenario {play}")).unwrap_or_default();
        format!(
            "scripts/judge.sh --seed {seed} --seconds {} --postgres {}{scenario}",
            self.seconds, self.postgres_version
        )
    }
}
