//! `migrate debezium --take-over` and `--give-back`: checks, one after the other, what must be so
//! before the router streams from the connector's slot, or the connector from the router's.
//!
//! Everything is read and nothing is changed: what changes something is printed, and a person types
//! it. A step that cannot be checked does not keep the others from being checked.

mod connector;
mod differences;
mod held;
mod position;
mod print;
mod rest;
mod settings;
mod source;
mod step;
mod stopped;
mod tally;
mod topics;
mod waiting;
mod witness;

use std::{io, path::PathBuf};

use relay::{Failure, source::SlotHealth};

use super::{Direction, MigrateArgs};
use crate::{
    cli::{
        Exit, Form, Terminal,
        connect::Access,
        of_slot::{WithPolling, refuse},
        witness::{PipelineRecords, Records},
    },
    config::{Config, Environment},
    migrate::Migration,
    prepare,
    shell::SourceReading,
};
use connector::Connector;
use print::Steps;
use rest::ConnectorUrl;
use settings::{Settings, settings};
use step::Step;
use stopped::Asked;
use tally::Delivered;

/// Where the configuration comes from, beside the file of the connector.
pub(in crate::cli) struct Origin<'a> {
    /// The file that `run` would read; `None` where there is none.
    pub(in crate::cli) file: Option<PathBuf>,
    pub(in crate::cli) flags: Vec<String>,
    pub(in crate::cli) environment: &'a Environment,
    /// What the command does with a configuration by which rows are polled.
    pub(in crate::cli) with_polling: WithPolling,
}

/// Checks every step and prints them.
pub(super) async fn hand_over(
    direction: Direction,
    args: &MigrateArgs,
    migration: &Migration,
    origin: Origin<'_>,
    terminal: &mut Terminal<'_>,
) -> io::Result<Exit> {
    let Origin { file, flags, environment, with_polling } = origin;
    let Settings { config, step, file } =
        settings(args, migration, file.as_deref(), environment, &flags);
    if let Some(config) = &config
        && let Some(exit) = refuse(with_polling, config, terminal)?
    {
        return Ok(exit);
    }
    let asked = ask(args, migration).await;
    let mut steps = vec![step];
    match &config {
        Some(config) => {
            let access = Access::new(config, None, environment);
            let facts = Facts { config, access, asked: &asked, migration, file: &file };
            steps.extend(Box::pin(facts.steps(direction)).await);
        }
        None => steps.push(Step::not_checked("the rest", "it needs the configuration")),
    }
    let outcome = outcome(direction, args, migration, config.as_ref(), &file, steps);
    match args.form {
        Form::Text => outcome.text(terminal.out)?,
        Form::Json => writeln!(terminal.out, "{:#}", outcome.json())?,
    }
    Ok(if outcome.is_ready() { Exit::Done } else { Exit::Failure })
}

/// Asks Kafka Connect.
async fn ask(args: &MigrateArgs, migration: &Migration) -> Asked {
    let Some(url) = &args.connect_url else { return Asked::No };
    let name = migration.connector.as_deref().ok_or("the file does not name the connector");
    let url = name.map_err(str::to_owned).and_then(|name| ConnectorUrl::of(url, name));
    let connector = match url {
        Ok(url) => Connector::ask(url).await,
        Err(why) => Err(why),
    };
    connector.map_or_else(Asked::Silent, |connector| Asked::Known(Box::new(connector)))
}

fn outcome(
    direction: Direction,
    args: &MigrateArgs,
    migration: &Migration,
    config: Option<&Config>,
    file: &str,
    steps: Vec<Step>,
) -> Steps {
    let slot = config.map_or("the slot", |config| config.postgres.slot.as_str());
    let connector = migration.connector.as_deref().unwrap_or("the connector");
    let url = args.connect_url.as_deref();
    let again = |flag: &str| {
        let url = url.map(|url| format!(" --connect-url {url}")).unwrap_or_default();
        let from = args.file.display();
        format!("outbox-router migrate debezium {from} {flag}{url} --config {file}")
    };
    let run = format!("outbox-router run --config {file}");
    let (title, then, back) = match direction {
        Direction::TakeOver => (
            format!("take over: the router gets {slot} from {connector}"),
            run,
            format!("end the router (SIGTERM), then {}", again("--give-back")),
        ),
        Direction::GiveBack => (
            format!("give back: {connector} gets {slot} from the router"),
            url.zip(migration.connector.as_deref())
                .and_then(|(url, name)| ConnectorUrl::of(url, name).ok())
                .map_or_else(|| "resume the connector".to_owned(), |url| url.curl("PUT", "resume")),
            format!("stop the connector, then {}", again("--take-over")),
        ),
    };
    Steps { title, steps, then, back }
}

/// What the steps are about.
struct Facts<'a> {
    config: &'a Config,
    access: Access<'a>,
    asked: &'a Asked,
    migration: &'a Migration,
    file: &'a str,
}

impl Facts<'_> {
    async fn steps(self, direction: Direction) -> Vec<Step> {
        let stored = self.stored().await;
        let mut steps = match direction {
            Direction::TakeOver => vec![stopped::stopped(self.asked, self.migration)],
            Direction::GiveBack => Vec::new(),
        };
        let reading = self.reading(&stored).await;
        let reading = match reading {
            Ok(reading) => reading,
            Err(failure) => {
                steps.push(source::of_failure("PostgreSQL", &failure));
                return steps;
            }
        };
        let (step, slot) =
            source::slot(self.config, self.access, &reading.slot_reading, direction).await;
        let slot = slot.cloned();
        steps.extend([step, source::publication(self.config, &reading.catalog)]);
        let known = stored.as_ref().ok().and_then(Option::as_ref);
        let witness = known.and_then(|stored| stored.witness.as_ref());
        let relied_on = witness.map(|witness| witness.held_table);
        let of_table = (reading.held, relied_on);
        steps.extend(held::step(self.config, self.access, of_table, direction).await);
        match direction {
            Direction::TakeOver => {
                steps.extend(self.rows(slot.as_ref()).await);
                steps.push(match &stored {
                    Ok(stored) => {
                        witness::for_router(self.config, stored.as_ref(), reading, self.file)
                    }
                    Err(failure) => source::of_failure("witness", failure),
                });
            }
            Direction::GiveBack => {
                steps.push(self.against_witness(slot.as_ref(), &stored).await);
                steps.push(stopped::forgotten(self.asked));
                steps.push(stopped::configured(self.asked, self.config));
            }
        }
        steps
    }

    /// What the state topic holds; `None` where none is kept.
    async fn stored(&self) -> Result<Option<PipelineRecords>, Failure> {
        match Records::of(self.config, self.access)? {
            Some(records) => records.read().await.map(Some),
            None => Ok(None),
        }
    }

    async fn reading(
        &self,
        stored: &Result<Option<PipelineRecords>, Failure>,
    ) -> Result<SourceReading, Failure> {
        let source = prepare::source(self.config, self.access.endpoint("migrate")?);
        let known = stored.as_ref().ok().and_then(Option::as_ref);
        let known = known.and_then(|stored| Some(&stored.witness.as_ref()?.catalog));
        Box::pin(source.read(known)).await
    }

    /// The topics and the position, by what the slot has still to send; and a row at which `run`
    /// would stop.
    async fn rows(&self, slot: Option<&SlotHealth>) -> Vec<Step> {
        let connector = self.asked.connector();
        let waiting = match slot {
            Some(_) => {
                let delivered = position::delivered(connector);
                Some(waiting::read(self.config, self.access, delivered).await)
            }
            None => None,
        };
        let read = waiting.as_ref().and_then(|waiting| waiting.as_ref().ok());
        let written = connector.into_iter().flat_map(|connector| &connector.topics);
        let in_use = written.chain(read.into_iter().flat_map(|read| &read.topics)).cloned();
        let mut steps = vec![topics::topics(self.config, in_use).await];
        if let Some(failure) = read.and_then(|read| read.refused.as_ref()) {
            steps.push(source::of_failure("rows", failure).detail("run would stop at this row"));
        }
        steps.push(match (slot, &waiting) {
            (Some(slot), Some(waiting)) => position::against_offset(slot, waiting, connector),
            _ => position::unknown(),
        });
        steps
    }

    async fn against_witness(
        &self,
        slot: Option<&SlotHealth>,
        stored: &Result<Option<PipelineRecords>, Failure>,
    ) -> Step {
        let Some(slot) = slot else { return position::unknown() };
        let stored = match stored {
            Ok(stored) => stored.as_ref(),
            Err(failure) => return source::of_failure(position::NAME, failure),
        };
        let witness = stored.and_then(|stored| stored.witness.as_ref());
        if let Some(failure) = witness.and_then(witness::open_gap) {
            return source::of_failure(position::NAME, &failure);
        }
        let delivered =
            witness.map_or(Delivered::Unknown, |witness| Delivered::Commit(witness.position));
        let waiting = waiting::read(self.config, self.access, delivered).await;
        position::come_twice(slot, &waiting)
    }
}
