//! `status`: how far behind, who is to blame, how long until PostgreSQL drops the slot, what to type. PostgreSQL is
//! asked in any case, so that it works with the router down; a router that answers adds its state and reason.

mod render;
mod sample;
mod verdict;

use std::time::Duration;

use relay::Failure;
use serde_json::Value;

use super::{
    Audience, Exit, Form, Repeat, StatusArgs, Terminal, Trouble,
    connect::{Access, with_connection},
    http,
};
use crate::config::Config;
use sample::Sample;
use verdict::Verdict;

/// Between two looks of `--watch`.
const PERIOD: Duration = Duration::from_secs(2);

/// Everything that one look found.
struct Status {
    /// What PostgreSQL says, or why it does not.
    sample: Result<Sample, Box<Failure>>,
    /// The router's own `/status.json`, where it answers.
    router: Option<Value>,
}

/// Looks once, or again and again.
pub(super) async fn status(
    args: &StatusArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, Trouble> {
    loop {
        let status = Box::pin(look(config, access)).await?;
        let verdict = verdict::judge(&status, config);
        match (args.repeat, terminal.audience) {
            // To the top left corner, and clear.
            (Repeat::Watch, Audience::Person) => write!(terminal.out, "\x1b[H\x1b[2J")?,
            (Repeat::Watch, Audience::Machine) | (Repeat::Once, _) => {}
        }
        show(args.form, &status, &verdict, config, terminal)?;
        let exit = if verdict.findings.is_empty() { Exit::Done } else { Exit::Failure };
        match args.repeat {
            Repeat::Once => return Ok(exit),
            Repeat::Watch => tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(exit),
                () = tokio::time::sleep(PERIOD) => {}
            },
        }
    }
}

async fn look(config: &Config, access: Access<'_>) -> Result<Status, Trouble> {
    let slot = config.postgres.slot.as_str();
    let sampled =
        with_connection(access, "status", async |client| sample::take(client, slot).await);
    let (sample, router) =
        tokio::join!(Box::pin(sampled), http::get(config.admin.listen, "/status.json"));
    let sample = match sample {
        Ok(sample) => Ok(sample),
        Err(Trouble::Failure(failure)) => Err(failure),
        Err(output @ Trouble::Output(_)) => return Err(output),
    };
    let router = router.and_then(|body| serde_json::from_str(&body).ok());
    Ok(Status { sample, router })
}

fn show(
    form: Form,
    status: &Status,
    verdict: &Verdict,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<(), Trouble> {
    match form {
        Form::Text => render::text(status, verdict, config, terminal.out)?,
        Form::Json => writeln!(terminal.out, "{}", render::json(status, verdict, config))?,
    }
    terminal.out.flush()?;
    Ok(())
}
