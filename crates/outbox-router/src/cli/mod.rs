//! The command line: flags and commands, and the work of every command except `run`. `run` is only
//! parsed here, and carried out by `app/`, unless it is a dry run.
//!
//! Commands write to a [`Terminal`] that they are given, so that tests read what a person would.
//! Printed SQL is exactly what `--apply` runs; `setup` and `teardown` create and drop nothing
//! without `--apply`.

mod accept;
mod alerts;
mod args;
mod backlog;
mod check;
mod cleanup;
mod compare;
mod confirmation;
mod connect;
mod dead_letters;
mod decision_args;
mod doctor;
mod dry_run;
mod exit;
mod explain_row;
mod first_of_gap;
mod flags;
mod flushed;
mod form;
mod gap_name;
mod hoster;
mod http;
mod migrate;
mod new_slot;
mod noted_left_out;
mod noted_topics;
mod of_slot;
mod one_table;
mod open_events;
mod person;
mod polled_tables;
mod print_failure;
mod recover;
mod replay;
mod republication;
mod router_status;
mod row_security;
mod same_server;
mod seen_topics;
mod setup;
mod shown_bytes;
mod since;
mod skip;
mod sql;
mod status;
mod switch;
mod tap;
mod task_error;
mod teardown;
mod terminal;
mod topic_lookups;
mod topic_ranges;
mod topic_template;
mod transaction_waits;
mod typed;
mod where_is;
mod witness;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use alerts::{AlertsArgs, Pipelines, RuleFormat};
pub use args::{
    AcceptArgs, CheckArgs, Cli, Command, ExitOnFatal, ExplainArgs, OpenGaps, Repeat, RunArgs,
    StatusArgs, Task, TeardownArgs,
};
pub use cleanup::{CleanupArgs, Pace};
pub use compare::CompareArgs;
pub use confirmation::Confirmation;
use connect::Access;
pub use dead_letters::{
    AdoptArgs, DeadLetters, DecideArgs, DropArgs, EventRef, Extent, HexKey, Lines, ListArgs,
    NamedArgs, Place, Rows, Scope, SelectArgs, ShowArgs, Since, Which,
};
pub use decision_args::{DecisionArgs, Effect, HowArgs};
pub use doctor::{Check, DoctorArgs, GROUPS, Group, Reports, Severity, Warnings};
pub use dry_run::{DryRunArgs, Production};
pub use exit::Exit;
pub use explain_row::{ColumnType, JsonRow, RowArgs};
pub use flags::{
    AdminArgs, DeadLetterTables, MissingTable, NotifyTrigger, Overrides, RecordPart, SqlMode,
};
pub use form::Form;
pub use gap_name::GapName;
pub use hoster::Hoster;
pub use migrate::{
    Converter, Direction, GiveBack, MigrateArgs, MigrateFrom, TakeOver, Unsupported,
};
pub use recover::{DroppedSlot, IdTrust, PublicationPart, RecoverArgs, RecoveredRows, WholeTable};
pub use replay::{Audit, BadRow, Marker, ReplayArgs, Selected, Start};
pub use setup::{BackfillArgs, OlderRows, SetupArgs, TableForm};
pub use skip::{GivenUp, SkipArgs};
pub use switch::{Switch, ToPollingArgs, ToStreamArgs};
pub use tap::{TapArgs, TapContent};
use task_error::TaskError;
pub use terminal::{Audience, Terminal};
pub use where_is::WhereArgs;

use crate::{
    codes,
    config::{self, Config, ConfigErrors, Environment, Loaded},
};

/// Where the configuration file is looked for when none is named.
const DEFAULT_FILES: [&str; 2] = ["outbox-router.toml", "/etc/outbox-router/outbox-router.toml"];

/// The file that applies: flag, `OUTBOX_ROUTER_CONFIG`, or the first default that exists.
pub fn config_file(cli: &Cli, environment: &Environment) -> Option<PathBuf> {
    let named = cli.config.clone();
    named.or_else(|| environment.get("OUTBOX_ROUTER_CONFIG").map(PathBuf::from)).or_else(|| {
        DEFAULT_FILES.into_iter().map(Path::new).find(|path| path.exists()).map(Path::to_owned)
    })
}

/// What a person is told where no file was found and nothing else sets a key either: what fails
/// then fails for that reason. With variables or `--set` no file is needed, as in a container.
pub fn no_file_note(cli: &Cli, environment: &Environment) -> Option<String> {
    let is_found = config_file(cli, environment).is_some();
    if is_found || environment.sets_keys() || !cli.flags().is_empty() {
        return None;
    }
    let here = Path::new(".").join(DEFAULT_FILES[0]);
    Some(format!(
        "note: no configuration file was found at {} and {}, so the defaults apply; --config FILE \
         names one",
        here.display(),
        DEFAULT_FILES[1]
    ))
}

/// Reads the configuration that a command line asks for.
///
/// # Errors
/// Everything that is wrong with the configuration; the exit code is [`Exit::Configuration`].
pub fn load_config(cli: &Cli, environment: &Environment) -> Result<Loaded, ConfigErrors> {
    config::load(config_file(cli, environment).as_deref(), environment, &cli.flags())
}

/// Prints what a code means. Needs no configuration: the configuration may be what is wrong.
pub fn explain(explanation: &codes::Explanation, terminal: &mut Terminal<'_>) -> Exit {
    let mut text = String::new();
    let printed = codes::explain(explanation, &mut text)
        .map_err(io::Error::other)
        .and_then(|()| terminal.out.write_all(text.as_bytes()));
    match printed {
        Ok(()) => Exit::Done,
        Err(error) => output_failed(&error, terminal),
    }
}

/// Translates another program's configuration, or checks whether its slot can be handed over.
pub async fn migrate(
    cli: &Cli,
    from: &MigrateFrom,
    environment: &Environment,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let MigrateFrom::Debezium(args) = from;
    let done = match args.direction() {
        None => migrate::debezium(args, terminal),
        Some(direction) => {
            let file = config_file(cli, environment);
            let with_polling = of_slot::with_polling(&cli.command);
            let origin = migrate::Origin { file, flags: cli.flags(), environment, with_polling };
            Box::pin(migrate::hand_over(direction, args, origin, terminal)).await
        }
    };
    done.unwrap_or_else(|error| output_failed(&error, terminal))
}

/// The output of a command could not be written.
fn output_failed(error: &io::Error, terminal: &mut Terminal<'_>) -> Exit {
    // The reader of the output may have closed it, as `head` does.
    if error.kind() != io::ErrorKind::BrokenPipe {
        let _written = writeln!(terminal.err, "error: cannot write the output: {error}");
    }
    Exit::Failure
}

/// Carries out a command other than `run`.
pub async fn execute(
    cli: &Cli,
    task: &Task,
    loaded: &Loaded,
    environment: &Environment,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let admin = match task {
        Task::Setup(args) => args.admin.admin_url.as_ref(),
        Task::Teardown(args) => args.admin.admin_url.as_ref(),
        Task::Switch(command) => command.admin().admin_url.as_ref(),
        Task::Accept(args) => args.admin.admin_url.as_ref(),
        Task::Compare(args) => args.admin.admin_url.as_ref(),
        Task::Cleanup(args) => {
            args.admin.admin_url.as_ref().or(loaded.config.retention.url.as_ref())
        }
        Task::DeadLetters(command) => command.admin().admin_url.as_ref(),
        Task::Skip(args) => args.admin.admin_url.as_ref(),
        Task::Where(args) => args.admin.admin_url.as_ref(),
        Task::Replay(args) => args.admin.admin_url.as_ref(),
        Task::Recover(args) => args.admin.admin_url.as_ref(),
        Task::Alerts(_) | Task::Check(_) | Task::Doctor(_) | Task::Status(_) | Task::Tap(_) => None,
    };
    let config = &loaded.config;
    if let Some(exit) = without_meaning(cli, config, terminal) {
        return exit;
    }
    let access = Access::new(config, admin, environment);
    let outcome = match task {
        Task::Setup(args) => Box::pin(setup::setup(args, config, access, terminal)).await,
        Task::Teardown(args) => Box::pin(teardown::teardown(args, config, access, terminal)).await,
        Task::Switch(command) => Box::pin(switch::switch(command, config, access, terminal)).await,
        Task::Accept(args) => Box::pin(accept::accept(args, config, access, terminal)).await,
        Task::DeadLetters(command) => {
            Box::pin(dead_letters::dead_letters(command, config, access, terminal)).await
        }
        Task::Skip(args) => Box::pin(skip::skip(args, config, access, terminal)).await,
        Task::Replay(args) => Box::pin(replay::replay(args, config, access, terminal)).await,
        Task::Recover(args) => Box::pin(recover::recover(args, config, access, terminal)).await,
        Task::Check(_) => {
            let file = config_file(cli, environment);
            check::check(file.as_deref(), loaded, environment, terminal)
        }
        Task::Alerts(args) => alerts::alerts(args, config, terminal),
        Task::Doctor(args) => {
            let file = config_file(cli, environment);
            let configuration = (loaded, environment);
            Box::pin(doctor::doctor(args, file.as_deref(), configuration, access, terminal)).await
        }
        Task::Cleanup(args) => Box::pin(cleanup::cleanup(args, config, access, terminal)).await,
        Task::Compare(args) => Box::pin(compare::compare(args, config, access, terminal)).await,
        Task::Status(args) => Box::pin(status::status(args, config, access, terminal)).await,
        Task::Tap(args) => Box::pin(tap::tap(args, config, terminal)).await,
        Task::Where(args) => Box::pin(where_is::where_is(args, config, access, terminal)).await,
    };
    exit_of(outcome, terminal)
}

/// Prints what `run` would produce.
pub async fn dry_run(
    cli: &Cli,
    args: &DryRunArgs,
    loaded: &Loaded,
    environment: &Environment,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let config = &loaded.config;
    if let Some(exit) = without_meaning(cli, config, terminal) {
        return exit;
    }
    let access = Access::new(config, None, environment);
    let outcome = Box::pin(dry_run::dry_run(args, config, access, terminal)).await;
    exit_of(outcome, terminal)
}

/// Prints what the router makes of one row.
pub async fn explain_row(
    args: &ExplainArgs,
    loaded: &Loaded,
    environment: &Environment,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let config = &loaded.config;
    let access = Access::new(config, args.admin.admin_url.as_ref(), environment);
    let outcome = Box::pin(explain_row::explain_row(&args.row, config, access, terminal)).await;
    exit_of(outcome, terminal)
}

/// Refuses a command that has no meaning with this source of rows.
fn without_meaning(cli: &Cli, config: &Config, terminal: &mut Terminal<'_>) -> Option<Exit> {
    match of_slot::refuse(of_slot::with_polling(&cli.command), config, terminal) {
        Ok(refused) => refused,
        Err(error) => Some(output_failed(&error, terminal)),
    }
}

fn exit_of(outcome: Result<Exit, TaskError>, terminal: &mut Terminal<'_>) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(TaskError::Failure(failure)) => {
            // If the message cannot be written either, the exit code is all that is left.
            let _written = print_failure::print_failure(terminal.err, &failure);
            Exit::Failure
        }
        Err(TaskError::Output(error)) => output_failed(&error, terminal),
    }
}
