//! `compare`: shows whether the router writes the records that the connector writes. It reads a
//! temporary copy of the slot, computes every record, and looks for each in the topics, by event
//! id. It writes nothing to Kafka and leaves the slot where it is.

mod args;
mod follow;
mod render;
mod server;
mod sides;
mod topics;

use std::io;

use relay::{Code, Failure, TopicName};
use tokio::time::{Duration, Instant};
use tokio_postgres::Client;

pub use args::CompareArgs;
use follow::Completion;
use render::{Printed, Progress};
use sides::{LastEvent, Scope, Sides};
use topics::ReadTopics;

use super::{
    Audience, Exit, Form, TaskError, Terminal,
    connect::{Access, with_connection},
    since,
};
use crate::{
    compare::{Comparison, IdHeaders, Limits},
    config::Config,
    prepare,
};

/// How often the progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Compares, and prints what differs; any difference gives exit code 1.
pub(super) async fn compare(
    args: &CompareArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    with_connection(access, "compare", async |client| {
        Box::pin(with_client(args, config, access, client, terminal)).await
    })
    .await
}

async fn with_client(
    args: &CompareArgs,
    config: &Config,
    access: Access<'_>,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let id_headers = IdHeaders::new(config.tables().map(|table| table.headers.id.as_str()));
    let source = prepare::source(config, access.endpoint("compare")?);
    let mut topics = ReadTopics::open(config)?;
    for name in &args.topics {
        let name = TopicName::new(name)
            .map_err(|why| Failure::new(Code::TopicIllegal, format!("--topic {name}: {why}")))?;
        topics.add_named(name)?;
    }
    let since_micros = match &args.since {
        Some(time) => Some(since::micros_of(client, time).await?),
        None => None,
    };
    let (stream, _) = source.dry_stream().await?;
    let last = match args.records {
        Some(count) => LastEvent::Number(count.get()),
        None => LastEvent::Before(server::wal_end(client).await?),
    };
    let begins_at = stream.begins_at();
    let comparison = Comparison::new(id_headers.clone(), Limits::default());
    let mut sides = Sides { stream, topics, comparison };
    let scope = Scope { since_micros, last, wait: args.wait, lookback: args.lookback, id_headers };
    let mut shown = Instant::now();
    let is_person = terminal.audience == Audience::Person && args.form == Form::Text;
    let completion = sides
        .follow(&scope, client, |sides| {
            if is_person && shown.elapsed() >= PROGRESS_EVERY {
                shown = Instant::now();
                let (report, passed) = (sides.comparison.report(), sides.stream.passed());
                Progress { report, last, begins_at, passed }.write(terminal.err)?;
            }
            Ok(())
        })
        .await?;
    if is_person {
        render::clear_progress(terminal.err)?;
    }
    let to = sides.stream.passed();
    let report = match completion {
        Completion::Complete | Completion::Stuck => sides.comparison.finish(),
        // What waits is neither missing nor additional: nothing more was waited for.
        Completion::Interrupted => sides.comparison.report().clone(),
    };
    let printed = Printed {
        slot: source.slot.clone(),
        from: begins_at,
        to,
        completion,
        report,
        wait: args.wait,
        since: args.since.clone(),
    };
    show(&printed, args.form, terminal)?;
    Ok(if printed.is_same() { Exit::Done } else { Exit::Failure })
}

fn show(printed: &Printed, form: Form, terminal: &mut Terminal<'_>) -> io::Result<()> {
    match form {
        Form::Text => printed.write(terminal.out),
        Form::Json => writeln!(terminal.out, "{:#}", printed.as_json()),
    }
}
