//! `check`: builds what `run` starts with and tries what needs no connection, then shows the
//! configuration whole, without its secrets. Connects nowhere.

use std::path::Path;

use super::{Exit, Terminal, Trouble};
use crate::{
    config::{Environment, Loaded, effective},
    prepare,
};

/// Prints what `run` would refuse, or where the configuration came from and what it amounts to.
pub(super) fn check(
    file: Option<&Path>,
    loaded: &Loaded,
    environment: &Environment,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, Trouble> {
    if let Err(errors) = prepare::check(loaded, environment) {
        writeln!(terminal.err, "{errors}")?;
        return Ok(Exit::Configuration);
    }
    let source = file.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    writeln!(terminal.out, "# valid; from flags, environment and {source}; with every default:")?;
    write!(terminal.out, "{}", effective(&loaded.config))?;
    Ok(Exit::Done)
}
