//! `status`: how far behind the slot is, who is to blame, how long until PostgreSQL invalidates the
//! slot, and what to type. PostgreSQL is always asked, so that the command works while the router
//! is down. Where a router answers, verdict, blame, what to do and the limit are its own, so that
//! the two never disagree; where none answers, nothing shows that rows flow, and it is never OK.
//! For polled tables, `polling` has the same four answers.

mod blame;
mod finding;
mod limit;
mod overall;
mod polling;
mod reading;
mod recorded;
mod render;
mod router;
mod sample;
mod summary;
mod verdict;

use std::{pin::pin, time::Duration};

use super::{Audience, Exit, Form, Repeat, StatusArgs, TaskError, Terminal, connect::Access};
use crate::config::{Config, SourceKind};
use polling::PollingReading;
use reading::{StatusReading, read};
#[cfg(test)]
pub(super) use recorded::AtRisk;
pub(super) use summary::{Flow, OpenGap, Summary, Why, summary};

/// Time between two readings of `--watch`.
const PERIOD: Duration = Duration::from_secs(2);

/// Reads and shows once, or every two seconds.
pub(super) async fn status(
    args: &StatusArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    match args.repeat {
        Repeat::Once => Box::pin(once(args.form, config, access, terminal)).await,
        Repeat::Watch => Box::pin(watch(args.form, config, access, terminal)).await,
    }
}

/// Repeats until Ctrl-C. This also ends a reading that hangs, because the signal is awaited all the
/// time.
async fn watch(
    form: Form,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let mut stop = pin!(tokio::signal::ctrl_c());
    let mut exit = Exit::Done;
    loop {
        let clear = match terminal.audience {
            // Moves the cursor to the top left corner and clears the screen; written only when
            // there is something to show instead.
            Audience::Person => "\x1b[H\x1b[2J",
            Audience::Machine => "",
        };
        tokio::select! {
            biased;
            _ = &mut stop => return Ok(exit),
            status = Reading::take(config, access) => {
                write!(terminal.out, "{clear}")?;
                exit = status?.show(form, config, terminal)?;
            }
        }
        tokio::select! {
            biased;
            _ = &mut stop => return Ok(exit),
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

async fn once(
    form: Form,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    Reading::take(config, access).await?.show(form, config, terminal)
}

/// One reading of what the configured source is.
enum Reading {
    Stream(Box<StatusReading>),
    Polling(Box<PollingReading>),
}

impl Reading {
    async fn take(config: &Config, access: Access<'_>) -> Result<Self, TaskError> {
        Ok(match config.postgres.source {
            SourceKind::Stream => Self::Stream(Box::new(Box::pin(read(config, access)).await?)),
            SourceKind::Polling => {
                Self::Polling(Box::new(Box::pin(polling::read(config, access)).await))
            }
        })
    }

    fn show(
        &self,
        form: Form,
        config: &Config,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        match self {
            Self::Stream(reading) => show(form, reading, config, terminal),
            Self::Polling(reading) => polling::show(form, reading, config, terminal),
        }
    }
}

/// Shows one reading; findings decide the exit code.
fn show(
    form: Form,
    status: &StatusReading,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let verdict = verdict::judge(status, config);
    match form {
        Form::Text => render::text(status, &verdict, config, terminal.out)?,
        Form::Json => writeln!(terminal.out, "{}", render::json(status, &verdict, config))?,
    }
    terminal.out.flush()?;
    let is_well = verdict.findings.is_empty() && overall::overall(status, &verdict).is_well();
    Ok(if is_well { Exit::Done } else { Exit::Failure })
}
