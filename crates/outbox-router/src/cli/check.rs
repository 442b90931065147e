//! `check`: the configuration was read without complaint, so show it whole, without its secrets. Connects nowhere.

use super::{Exit, Terminal, Trouble};
use crate::config::{Config, effective};

/// Prints the effective configuration.
pub(super) fn check(config: &Config, terminal: &mut Terminal<'_>) -> Result<Exit, Trouble> {
    write!(
        terminal.out,
        "# the configuration is valid; with every default it is\n{}",
        effective(config)
    )?;
    Ok(Exit::Done)
}
