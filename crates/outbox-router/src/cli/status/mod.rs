//! `status`: how far behind, who is to blame, how long until PostgreSQL drops the slot, what to type. PostgreSQL is
//! asked in any case, so that it works with the router down; a router that answers adds its state and reason.

mod recorded;
mod render;
mod sample;
mod told;
mod verdict;

use std::{pin::pin, time::Duration};

use relay::Failure;
use serde_json::Value;

use super::{
    Audience, Exit, Form, Repeat, StatusArgs, Terminal, Trouble,
    connect::{Access, with_connection},
    http,
};
use crate::config::Config;
use recorded::Recorded;
use sample::Sample;

/// Between two looks of `--watch`.
const PERIOD: Duration = Duration::from_secs(2);

/// Everything that one look found.
struct Status {
    /// What PostgreSQL says, or why it does not.
    sample: Result<Sample, Box<Failure>>,
    /// The router's own `/status.json`, where it answers.
    router: Option<Value>,
    /// What is open and what was accepted.
    record: Recorded,
}

/// Looks once, or again and again.
pub(super) async fn status(
    args: &StatusArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, Trouble> {
    match args.repeat {
        Repeat::Once => Box::pin(once(args.form, config, access, terminal)).await,
        Repeat::Watch => Box::pin(watch(args.form, config, access, terminal)).await,
    }
}

/// Until Ctrl-C, which also ends a look that hangs: the signal is listened for all the time.
async fn watch(
    form: Form,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, Trouble> {
    let mut stop = pin!(tokio::signal::ctrl_c());
    let mut exit = Exit::Done;
    loop {
        let clear = match terminal.audience {
            // To the top left corner, and clear; written only when there is something to show instead.
            Audience::Person => "\x1b[H\x1b[2J",
            Audience::Machine => "",
        };
        tokio::select! {
            biased;
            _ = &mut stop => return Ok(exit),
            status = look(config, access) => {
                write!(terminal.out, "{clear}")?;
                exit = show(form, &status?, config, terminal)?;
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
) -> Result<Exit, Trouble> {
    show(form, &look(config, access).await?, config, terminal)
}

async fn look(config: &Config, access: Access<'_>) -> Result<Status, Trouble> {
    let slot = config.postgres.slot.as_str();
    let sampled =
        with_connection(access, "status", async |client| sample::take(client, slot).await);
    let told = async {
        let router = http::get(config.admin.listen, "/status.json").await;
        let router: Option<Value> = router.and_then(|body| serde_json::from_str(&body).ok());
        let router = router.filter(|router| follows(router, slot));
        let record = Box::pin(recorded::find(config, access, router.as_ref())).await;
        (router, record)
    };
    let (sample, (router, record)) = tokio::join!(Box::pin(sampled), told);
    let sample = match sample {
        Ok(sample) => Ok(sample),
        Err(Trouble::Failure(failure)) => Err(failure),
        Err(output @ Trouble::Output(_)) => return Err(output),
    };
    Ok(Status { sample, router, record })
}

/// A router of another slot may listen where ours would: what it says is not about us.
fn follows(router: &Value, slot: &str) -> bool {
    let theirs = router.get("slot").and_then(|slot| slot.get("name")?.as_str());
    theirs.is_none_or(|theirs| theirs == slot)
}

/// Shows a look; findings decide the exit code.
fn show(
    form: Form,
    status: &Status,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, Trouble> {
    let verdict = verdict::judge(status, config);
    match form {
        Form::Text => render::text(status, &verdict, config, terminal.out)?,
        Form::Json => writeln!(terminal.out, "{}", render::json(status, &verdict, config))?,
    }
    terminal.out.flush()?;
    Ok(if verdict.findings.is_empty() { Exit::Done } else { Exit::Failure })
}
