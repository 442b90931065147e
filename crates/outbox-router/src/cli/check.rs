//! `check`: the configuration was read without complaint, so show it whole, without its secrets. Connects nowhere.

use std::path::Path;

use super::{Exit, Terminal, Trouble};
use crate::config::{Config, effective};

/// Prints where the configuration came from, and what it amounts to.
pub(super) fn check(
    file: Option<&Path>,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, Trouble> {
    let source = file.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    writeln!(terminal.out, "# valid; from flags, environment and {source}; with every default:")?;
    write!(terminal.out, "{}", effective(config))?;
    Ok(Exit::Done)
}
