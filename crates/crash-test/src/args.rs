//! The command line.

use clap::Parser;

/// Kills the router at random instants and at every failpoint, and looks at the slot and the topics
/// before it may go on.
#[derive(Debug, Parser)]
#[command(name = "crash-test", max_term_width = 100)]
#[command(
    after_help = "Example:\n  scripts/crash-test.sh --kills 500\n  scripts/crash-test.sh --per-failpoint 20 --seed 7"
)]
pub(crate) struct Args {
    /// Kills, at random instants and at failpoints in turn [default: 40, or none with
    /// --per-failpoint]
    #[arg(long, value_name = "N")]
    kills: Option<u32>,
    /// Kills at each failpoint
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) per_failpoint: u32,
    /// Rounds in which the broker's answers are held back
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) hold: u32,
    /// Where random choices start [default: another one each time]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Major version of PostgreSQL
    #[arg(long = "postgres", value_name = "VERSION", env = "OUTBOX_PG_VERSION")]
    #[arg(default_value_t = 15, hide_env_values = true)]
    pub(crate) postgres_version: u16,
}

impl Args {
    /// Kills at random instants and failpoints in turn.
    pub(crate) fn kills(&self) -> u32 {
        self.kills.unwrap_or(if self.per_failpoint == 0 { 40 } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_in_turn_are_the_default_unless_failpoints_are_asked_for() {
        let kills = |line: &[&str]| Args::try_parse_from(line).unwrap().kills();
        assert_eq!(kills(&["crash-test"]), 40);
        assert_eq!(kills(&["crash-test", "--per-failpoint", "2"]), 0);
        assert_eq!(kills(&["crash-test", "--per-failpoint", "2", "--kills", "5"]), 5);
    }
}
