//! `doctor`: reads both servers and says what is wrong, or soon will be, with the statement or
//! command that mends it. It writes nothing, needs no row and no running router (one that
//! answers is asked, too), and does not let one server that is down hide what is wrong with the
//! other.
//!
//! Facts and judgement are apart: [`read`] asks, everything else is a plain function of [`facts`].
//! What `run`, the monitor or `setup` refuse is found by the same functions and has the same code;
//! [`Advice`](crate::codes::Advice) is what nothing refuses. A file for each subject has its list
//! of checks; [`groups`] has them all, and docs/doctor.md is made of that list.

mod args;
mod check;
mod cluster;
mod configuration;
mod connection;
mod facts;
mod finding;
mod groups;
mod not_run;
mod polled;
mod publication;
mod read;
mod render;
mod report;
mod router;
#[cfg(test)]
mod samples;
mod slot;
mod table;
mod topics;
mod versions;
mod wal;
mod witness;
mod writing_order;
mod zones;

use std::path::Path;

pub use args::{DoctorArgs, Warnings};
pub use check::{Check, Group, Reports};
pub use finding::Severity;
pub use groups::GROUPS;

use super::{Exit, Form, TaskError, Terminal, connect::Access};
use crate::{
    config::{Environment, Loaded},
    prepare,
};
use report::Report;

/// Reads, judges and prints. What `check` refuses is refused here, too: nothing can be asked then.
pub(super) async fn doctor(
    args: &DoctorArgs,
    file: Option<&Path>,
    (loaded, environment): (&Loaded, &Environment),
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if let Err(errors) = prepare::check(loaded, environment) {
        writeln!(terminal.err, "{errors}")?;
        return Ok(Exit::Configuration);
    }
    let facts = Box::pin(read::facts(file, loaded, environment, access)).await;
    let report = Report::of(&facts, args);
    match args.form {
        Form::Text => render::text(&report, terminal.out)?,
        Form::Json => writeln!(terminal.out, "{:#}", render::json(&report, &loaded.config.name))?,
    }
    terminal.out.flush()?;
    let refused = match args.warnings {
        Warnings::Allow => report.count(Severity::Error),
        Warnings::Deny => report.count(Severity::Error) + report.count(Severity::Warning),
    };
    Ok(if refused == 0 && report.has_run() { Exit::Done } else { Exit::Failure })
}

#[cfg(test)]
mod tests;
