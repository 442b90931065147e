//! `compare`: would the router write what the running connector writes? It reads a temporary copy
//! of the slot, computes every record, and looks for each in the topics, by event id. It writes
//! nothing to Kafka and leaves the slot where it is.

mod args;
mod follow;
mod render;
mod topics;

use std::io;

use relay::{Case, Code, Failure, OutboxTable, TopicName};
use tokio::time::{Duration, Instant};
use tokio_postgres::Client;

pub use args::CompareArgs;
use follow::{Ended, Scope, Sides, Until};
use render::Outcome;
use topics::Topics;

use super::{
    Audience, Exit, Form, TaskError, Terminal,
    connect::{Access, with_connection},
};
use crate::{
    compare::{Comparison, Limits},
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
    let id_header = id_header(&config.outbox)?;
    let source = prepare::source(config, access.endpoint("compare")?);
    let mut comparison = Comparison::new(&id_header, Limits::default());
    let mut topics = Topics::open(&prepare::kafka_settings(config))?;
    let now = follow::server_micros(client).await? / 1_000;
    for name in &args.topics {
        let name = TopicName::new(name)
            .map_err(|why| Failure::new(Code::TopicIllegal, format!("--topic {name}: {why}")))?;
        topics.facts(&name)?;
        let lookback = i64::try_from(args.lookback.as_millis()).unwrap_or(i64::MAX);
        topics.number(&name, now.saturating_sub(lookback), &mut comparison)?;
    }
    let since_micros = match &args.since {
        Some(time) => Some(follow::micros_of(client, time).await?),
        None => None,
    };
    let (stream, _) = source.dry_stream().await?;
    let until = match args.records {
        Some(count) => Until::Events(count.get()),
        None => Until::Position(follow::wal_end(client).await?),
    };
    let begins_at = stream.begins_at();
    let mut sides = Sides { stream, topics, comparison };
    let scope = Scope { since_micros, until, wait: args.wait, lookback: args.lookback, id_header };
    let mut shown = Instant::now();
    let is_person = terminal.audience == Audience::Person && args.form == Form::Text;
    let ended = sides
        .follow(&scope, client, |sides| {
            if is_person && shown.elapsed() >= PROGRESS_EVERY {
                shown = Instant::now();
                render::progress(sides, until, terminal.err)?;
            }
            Ok(())
        })
        .await?;
    if is_person {
        render::clear_progress(terminal.err)?;
    }
    let outcome = Outcome {
        slot: source.slot.clone(),
        from: begins_at,
        to: sides.stream.passed(),
        ended,
        report: sides.comparison.finish(),
        wait: args.wait,
    };
    show(&outcome, args.form, terminal)?;
    Ok(if outcome.is_same() { Exit::Done } else { Exit::Failure })
}

fn show(outcome: &Outcome, form: Form, terminal: &mut Terminal<'_>) -> io::Result<()> {
    match form {
        Form::Text => outcome.write(terminal.out),
        Form::Json => writeln!(terminal.out, "{:#}", outcome.as_json()),
    }
}

/// The name of the header that bears the event's id, which must be the same in all tables.
fn id_header(outboxes: &[OutboxTable]) -> Result<String, Failure> {
    let mut names = outboxes.iter().map(|table| table.headers.id.as_str());
    let first = names.next().unwrap_or("id");
    match names.find(|name| *name != first) {
        None => Ok(first.to_owned()),
        Some(other) => Err(Failure::of(
            Case::ProducerSettings,
            format!("the tables name their id's header differently: {first} and {other}"),
        )),
    }
}
