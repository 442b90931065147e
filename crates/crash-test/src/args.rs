//! The command line.

use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::failpoints::{FAILPOINTS, FailpointCase};

/// Kills the router at random instants and at every failpoint, and checks the slot, the witness and
/// the topics before it starts again.
#[derive(Debug, Parser)]
#[command(name = "crash-test", max_term_width = 100)]
#[command(
    after_help = "Example:\n  scripts/crash-test.sh --kills 500\n  scripts/crash-test.sh --per-failpoint 20 --seed 7\n  scripts/crash-test.sh --per-failpoint 5 --only held,released"
)]
pub(crate) struct Args {
    /// Kills, alternately at random instants and at failpoints [default: 40, or none with
    /// --per-failpoint]
    #[arg(long, value_name = "N")]
    kills: Option<u32>,
    /// Further kills at each failpoint
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) per_failpoint: u32,
    /// Kills at no other failpoints than these
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(FAILPOINTS.map(|failpoint| failpoint.name)))]
    only: Vec<String>,
    /// Rounds in which the broker's responses are held back
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) hold: u32,
    /// Seed of the random choices [default: another one each time]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Major version of PostgreSQL
    #[arg(long = "postgres", value_name = "VERSION", env = "OUTBOX_PG_VERSION")]
    #[arg(default_value_t = 15, hide_env_values = true)]
    pub(crate) postgres_version: u16,
}

impl Args {
    /// Kills, alternately at random instants and at failpoints.
    pub(crate) fn kills(&self) -> u32 {
        self.kills.unwrap_or(if self.per_failpoint == 0 { 40 } else { 0 })
    }

    /// The failpoints at which the router is killed.
    pub(crate) fn failpoints(&self) -> Vec<&'static FailpointCase> {
        let is_asked = |failpoint: &&FailpointCase| {
            self.only.is_empty() || self.only.iter().any(|name| name == failpoint.name)
        };
        FAILPOINTS.iter().filter(is_asked).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_per_failpoint_forty_kills_are_the_default() {
        let kills = |line: &[&str]| Args::try_parse_from(line).unwrap().kills();
        assert_eq!(kills(&["crash-test"]), 40);
        assert_eq!(kills(&["crash-test", "--per-failpoint", "2"]), 0);
        assert_eq!(kills(&["crash-test", "--per-failpoint", "2", "--kills", "5"]), 5);
    }
}
