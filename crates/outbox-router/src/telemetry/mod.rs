//! The log: by default text on a terminal and JSON elsewhere, always on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{LogFormat, LogSection};

/// Opens the log of the process. A second call changes nothing.
pub fn start(log: &LogSection) {
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let is_text = match log.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    // Colours only on a terminal: a file or a journal would keep the escape sequences.
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
