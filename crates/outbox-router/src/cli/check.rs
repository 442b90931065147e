//! `check`: builds the same parts as `run`, tries everything that needs no connection, and shows
//! the complete configuration without its secrets. It connects nowhere.

use std::path::Path;

use super::{Exit, TaskError, Terminal};
use crate::{
    config::{Environment, Loaded, effective},
    prepare,
};

/// Prints what `run` would refuse; else where the configuration came from, and every value that
/// applies.
pub(super) fn check(
    file: Option<&Path>,
    loaded: &Loaded,
    environment: &Environment,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if let Err(errors) = prepare::check(loaded, environment) {
        writeln!(terminal.err, "{errors}")?;
        return Ok(Exit::Configuration);
    }
    let source = file.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    writeln!(terminal.out, "# valid; from flags, environment and {source}; with every default:")?;
    write!(terminal.out, "{}", effective(&loaded.config))?;
    Ok(Exit::Done)
}
