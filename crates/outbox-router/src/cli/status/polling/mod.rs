//! `status` with `postgres.source = "polling"`: how many rows are pending and for how long, who is
//! to blame, in what time nothing is pending, and what to type. The tables are always counted by
//! SQL, so that the command works while no router runs: then it shows from the leases which worker
//! holds what, and is never OK.

mod judge;
mod reading;
mod render;

use super::{Exit, Form, TaskError, Terminal};
use crate::config::Config;
pub(super) use reading::{PollingReading, read};

/// Shows one reading; findings decide the exit code.
pub(super) fn show(
    form: Form,
    reading: &PollingReading,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let judged = judge::judge(reading, config);
    match form {
        Form::Text => render::text(reading, &judged, config, terminal.out)?,
        Form::Json => writeln!(terminal.out, "{}", render::json(reading, &judged, config))?,
    }
    terminal.out.flush()?;
    let is_well = judged.verdict.findings.is_empty() && judged.overall.is_well();
    Ok(if is_well { Exit::Done } else { Exit::Failure })
}
