//! The log: lines for people on a terminal, JSON for everybody else, always on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{Log, LogFormat};

/// Opens the log. Once per process; a second call changes nothing.
pub fn start(log: &Log) {
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let is_text = match log.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    // Colours are for a terminal: a file or a journal would keep their escape sequences.
    let has_colours = io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(has_colours);
    let opened = if is_text {
        lines.with_target(false).try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
    if opened.is_err() {
        tracing::debug!("the log was open already");
    }
}
