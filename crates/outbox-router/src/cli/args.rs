//! Commands, flags and their help. Flags without a value are enums, because `SqlMode::Apply` reads
//! better than `true` where the flag is used.

use std::{ffi::OsString, path::PathBuf, sync::OnceLock};

use clap::{ArgGroup, Args, CommandFactory as _, Parser, Subcommand, ValueEnum, error::ErrorKind};
use relay::TableName;

use super::{
    alerts::AlertsArgs,
    cleanup::CleanupArgs,
    compare::CompareArgs,
    confirmation::Confirmation,
    dead_letters::DeadLetters,
    doctor::DoctorArgs,
    dry_run::DryRunArgs,
    explain_row::RowArgs,
    flags::{AdminArgs, Overrides, RecordPart, SqlMode},
    form::Form,
    gap_name::GapName,
    migrate::MigrateFrom,
    person,
    recover::RecoverArgs,
    replay::ReplayArgs,
    setup::SetupArgs,
    skip::SkipArgs,
    switch::Switch,
    tap::TapArgs,
    where_is::WhereArgs,
};
use crate::{
    codes::{Explanation, typed_code},
    config::table_name,
};

/// Routes a PostgreSQL outbox table into Kafka through a logical replication slot.
#[derive(Debug, Parser)]
#[command(name = "outbox-router", version = version(), max_term_width = 100)]
#[command(after_help = "Example:\n  outbox-router setup --apply && outbox-router run")]
pub struct Cli {
    /// The configuration file [env: OUTBOX_ROUTER_CONFIG] [default: ./outbox-router.toml, then
    /// /etc/outbox-router/outbox-router.toml, where they exist]
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What was set before the command.
    #[command(flatten)]
    pub overrides: Overrides,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// The error describes what is wrong with the command line, or holds the text of `--help` or
    /// `--version`. `clap` prints all of these and knows the exit code.
    pub fn read(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let cli = Self::try_parse_from(arguments)?;
        // clap's `requires` takes the default of a flag for the flag.
        let asks_in_vain = matches!(
            &cli.command,
            Command::Migrate(MigrateFrom::Debezium(args))
                if args.connect_url.is_some() && args.direction().is_none()
        );
        if asks_in_vain {
            let text = "--connect-url belongs to --take-over or --give-back";
            return Err(Self::command().error(ErrorKind::MissingRequiredArgument, text));
        }
        Ok(cli)
    }

    /// Every `--set`, in the order typed.
    pub fn flags(&self) -> Vec<String> {
        let after = match &self.command {
            Command::Run(args) => &args.overrides,
            Command::Task(Task::Setup(args)) => &args.overrides,
            Command::Task(Task::Teardown(args)) => &args.overrides,
            Command::Task(Task::Switch(command)) => command.overrides(),
            Command::Task(Task::Accept(args)) => &args.overrides,
            Command::Task(Task::Alerts(args)) => &args.overrides,
            Command::Task(Task::Check(args)) => &args.overrides,
            Command::Task(Task::Doctor(args)) => &args.overrides,
            Command::Task(Task::Cleanup(args)) => &args.overrides,
            Command::Task(Task::Compare(args)) => &args.overrides,
            Command::Task(Task::Status(args)) => &args.overrides,
            Command::Task(Task::Tap(args)) => &args.overrides,
            Command::Task(Task::DeadLetters(command)) => command.overrides(),
            Command::Task(Task::Skip(args)) => &args.overrides,
            Command::Task(Task::Where(args)) => &args.overrides,
            Command::Task(Task::Replay(args)) => &args.overrides,
            Command::Task(Task::Recover(args)) => &args.overrides,
            Command::Explain(args) => &args.overrides,
            // Its translation takes no keys; its checks take those before the command.
            Command::Migrate(_) => return self.overrides.set.clone(),
        };
        self.overrides.set.iter().chain(&after.set).cloned().collect()
    }
}

/// The program's version, and that of librdkafka.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
        format!("{} (librdkafka {librdkafka})", env!("CARGO_PKG_VERSION"))
    })
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Follow the slot, or poll the tables, and produce to Kafka until SIGTERM or SIGINT
    #[command(
        after_help = "Examples:\n  outbox-router run --config /etc/outbox-router/shop.toml\n  \
        outbox-router run --dry-run --records 10\n\n\
        Exit code 1 of --dry-run: run could not deliver a row, or would wait for a topic."
    )]
    Run(RunArgs),
    /// Everything that does its work and ends.
    #[command(flatten)]
    Task(Task),
    /// Explain an error code and what to type, without a configuration or a connection; or what the
    /// router makes of one row
    #[command(after_help = "Examples:\n  outbox-router explain K010\n  \
        outbox-router explain --id 0198c3f2-7d1a-7c3e-8b4f-000000000001 --admin-url postgres://admin@db/shop\n  \
        outbox-router explain --row \"$(psql -Atc 'select to_jsonb(o) from outbox o limit 1')\"\n\n\
        --row needs no connection. Exit code 1: run could not deliver the row, or would wait for its\n\
        topic.")]
    Explain(ExplainArgs),
    /// Translate the configuration of another program into the router's, and check whether its slot
    /// can be taken over
    #[command(
        subcommand,
        after_help = "Example:\n  \
        outbox-router migrate debezium connector.json --out outbox-router.toml"
    )]
    Migrate(MigrateFrom),
}

/// The commands that do their work and end.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Print the SQL that creates what the source needs, or run it: publication, slot and witness,
    /// the record in the state topic; with postgres.source = "polling" the tables of the leases,
    /// and indexes
    #[command(after_help = "Examples:\n  outbox-router setup | psql\n  \
        outbox-router setup --apply --create-table --role router --admin-url postgres://admin@db/shop")]
    Setup(SetupArgs),
    /// Print the SQL that drops what setup creates, or run it: slot and publication, with the
    /// witness, the record in the state topic; with postgres.source = "polling" the leases and the
    /// indexes. The outbox tables stay
    #[command(after_help = "Example:\n  outbox-router teardown --apply")]
    Teardown(TeardownArgs),
    /// Switch from polling the tables to the stream of a slot, or back, while writers go on
    #[command(
        subcommand,
        after_help = "Examples:\n  outbox-router switch stream --admin-url postgres://admin@db/shop\n  \
        outbox-router switch polling --admin-url postgres://admin@db/shop"
    )]
    Switch(Switch),
    /// Bring back what a gap has lost: make the slot anew, send the rows of the tables that are in
    /// no topic, and close the gap
    #[command(after_help = "Examples:\n  outbox-router status\n  \
        outbox-router recover --dry-run --admin-url postgres://admin@db/shop\n  \
        outbox-router recover --mend-publication --admin-url postgres://admin@db/shop\n\n\
        It shows what it will do and asks. A router may stay up meanwhile: it goes on when the gap\n\
        is closed. After a kill, the same command goes on (docs/recover.md).")]
    Recover(RecoverArgs),
    /// Accept that rows may be missing: close the open gaps, so that the router continues
    #[command(after_help = "Examples:\n  outbox-router status\n  \
        outbox-router accept --gap P010@0/16B3748 --admin-url postgres://admin@db/shop\n\n\
        It shows what is given up and asks. outbox-router recover sends the missing rows, and closes\n\
        the gap itself.")]
    Accept(AcceptArgs),
    /// List and show the events that could not be delivered, of polled tables the rows that are
    /// abandoned, and what is held behind them; deliver them after all, or give them up
    #[command(
        subcommand,
        after_help = "Examples:\n  outbox-router dead-letters list\n  \
        outbox-router dead-letters show --key order-7\n  \
        outbox-router dead-letters requeue --code R003 --reason \"the regex is extended\" \
        --admin-url postgres://admin@db/shop\n\n\
        It works on PostgreSQL alone, whether or not a router runs (README, \"When a row cannot be\n\
        delivered\")."
    )]
    DeadLetters(DeadLetters),
    /// Give up the one row at which the router stands, so that it goes on with the next
    #[command(after_help = "Examples:\n  outbox-router status\n  \
        outbox-router skip --lsn 0/16B3748 --id e-101 --reason \"a test row\" --admin-url postgres://admin@db/shop\n  \
        outbox-router skip --lsn 0/16B3748 --transaction --admin-url postgres://admin@db/shop\n\n\
        status names the row and its LSN. It shows what it will do and asks; the router goes on\n\
        within seconds. It needs the tables of setup --apply --dead-letters.")]
    Skip(SkipArgs),
    /// Remove delivered rows from the outbox tables once, as `[retention]` says; `run` does it
    /// beside its work
    #[command(after_help = "Examples:\n  outbox-router cleanup --dry-run\n  \
        outbox-router cleanup --yes --set retention.mode=delete --set retention.keep=1d\n\n\
        A row is removed only when the slot has confirmed its transaction, or, with polling, when\n\
        it is marked as published (docs/retention.md).\n\
        Exit code 1: a table could not be cleaned up, or nothing shows what is delivered.")]
    Cleanup(CleanupArgs),
    /// Send rows of the table again, through the same routing as the first time
    #[command(after_help = "Examples:\n  \
        outbox-router replay --id 0198c3f2-7d1a-7c3e-8b4f-000000000001 --admin-url postgres://admin@db/shop\n  \
        outbox-router replay --since '2026-01-31 10:00' --until '2026-01-31 11:00' --dry-run\n  \
        outbox-router replay --key order-7 --to-topic orders-copy --reason \"for the new consumer\"\n\n\
        It shows what it will do and asks. Several values of one flag mean any of them; several\n\
        flags must all apply. Exit code 1: not every selected row was sent (docs/replay.md).")]
    Replay(ReplayArgs),
    /// Check the configuration without connecting anywhere, and show it with every default
    #[command(after_help = "Example:\n  outbox-router check --config shop.toml")]
    Check(CheckArgs),
    /// Say what is wrong with both servers, or soon will be, and the statement that mends it
    #[command(after_help = "Examples:\n  outbox-router doctor\n  \
        outbox-router doctor --json --skip D010 --deny-warnings\n\n\
        It writes nothing, and needs no row and no running router (docs/doctor.md). Exit code 1: a\n\
        finding is an error; with --deny-warnings, or a warning.")]
    Doctor(DoctorArgs),
    /// Compare what the router would write with what is in Kafka, on a temporary copy of the slot
    #[command(after_help = "Examples:\n  outbox-router compare --config outbox-router.toml\n  \
        outbox-router compare --records 100000\n\n\
        It writes nothing to Kafka and leaves the slot where it is. Exit code 0: every event was\n\
        found and nothing differs.")]
    Compare(CompareArgs),
    /// Show how far behind the router is, who is to blame, how long until PostgreSQL invalidates
    /// the slot or, with polling, until nothing is pending, and what to type
    #[command(
        after_help = "Examples:\n  outbox-router status --watch\n  outbox-router status --json"
    )]
    Status(StatusArgs),
    /// Show events of the running router as they are routed: where each goes, but not what it says
    #[command(after_help = "Examples:\n  outbox-router tap\n  \
        outbox-router tap --topic 'outbox.event.*' --limit 10 --json\n\n\
        It asks the admin endpoint, and cannot slow the router: events that are routed faster than\n\
        they are read are not shown, and their number is. --content and --key need\n\
        admin.tap = \"content\" in the router's configuration. Exit code 1: no router answers.")]
    Tap(TapArgs),
    /// Say where an event is: acknowledged, and at which offset of which topic; or why it is not
    #[command(after_help = "Examples:\n  \
        outbox-router where 0198c3f2-7d1a-7c3e-8b4f-000000000001 --admin-url postgres://admin@db/shop\n  \
        outbox-router where --key order-7 --limit 20\n\n\
        It reads the row from the outbox table, and then the one partition that the row belongs\n\
        to. Exit code 0: the event is in its topic; of a key, each that is listed.")]
    Where(WhereArgs),
    /// Print the alert rules of Prometheus for this configuration, without connecting anywhere
    #[command(after_help = "Examples:\n  \
        outbox-router alerts --config shop.toml >/etc/prometheus/rules/shop.yml\n  \
        outbox-router alerts --format kubernetes | kubectl apply -f -\n\n\
        What each alert means and what to do: docs/runbook.")]
    Alerts(AlertsArgs),
}

/// `run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Exit with code 79 where the state would become failed, because a person is needed; what can
    /// be delivered is delivered first. Without it the process stays up and reports the state
    #[arg(long = "exit-on-fatal", num_args = 0, default_value = "stay")]
    #[arg(default_missing_value = "exit")]
    pub exit_on_fatal: ExitOnFatal,
    /// Whether anything is produced.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// What `run` does where its state would become `failed`: a person is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExitOnFatal {
    /// Stay up, not ready, and say why.
    Stay,
    /// End with exit code 79.
    Exit,
}

/// `teardown`
#[derive(Debug, Args)]
pub struct TeardownArgs {
    /// Run the SQL instead of printing it, after asking
    #[arg(long = "apply", num_args = 0, default_value = "print")]
    #[arg(default_missing_value = "apply")]
    pub write: SqlMode,
    /// Do not ask
    #[arg(long = "yes", num_args = 0, default_value = "ask")]
    #[arg(default_missing_value = "yes")]
    pub confirmation: Confirmation,
    /// Leave the witness in the state topic
    #[arg(long = "skip-kafka", num_args = 0, default_value = "include")]
    #[arg(default_missing_value = "skip")]
    pub record: RecordPart,
    /// Delete the witness even though it says that rows may be missing: the pipeline is abandoned
    #[arg(long = "forget", num_args = 0, default_value = "keep", conflicts_with = "record")]
    #[arg(default_missing_value = "forget")]
    pub open: OpenGaps,
    /// Drop this role too
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// What `teardown` does with a witness that says that rows may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OpenGaps {
    /// It stays, so that whoever creates the slot again learns of it.
    Keep,
    /// It is deleted.
    Forget,
}

/// `accept`
#[derive(Debug, Args)]
pub struct AcceptArgs {
    /// Accept only this gap, as `status` names it; may be given several times
    #[arg(long = "gap", value_name = "CODE@LSN")]
    pub gaps: Vec<GapName>,
    /// Close the gaps although this table left the publication and is not in it now: it is no
    /// outbox any more, and what was and will be written to it until it is published again is given
    /// up. May be given several times
    #[arg(long = "give-up", value_name = "SCHEMA.TABLE", value_parser = table_name)]
    pub given_up: Vec<TableName>,
    /// Who accepts it, as it is written to the witness [default: the user and the host]
    #[arg(long, value_name = "NAME", value_parser = person::parse)]
    pub by: Option<String>,
    /// Do not ask
    #[arg(long = "yes", num_args = 0, default_value = "ask")]
    #[arg(default_missing_value = "yes")]
    pub confirmation: Confirmation,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print one JSON object, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Repeat every two seconds until Ctrl-C
    #[arg(long = "watch", num_args = 0, default_value = "once")]
    #[arg(default_missing_value = "watch")]
    pub repeat: Repeat,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `explain`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("explained").required(true).args(["explanation", "id", "json_row"]))]
pub struct ExplainArgs {
    /// A code, such as K010, or a gap, such as P010@0/16B3748
    #[arg(value_name = "CODE", value_parser = typed_code)]
    pub explanation: Option<&'static Explanation>,
    /// The row.
    #[command(flatten)]
    pub row: RowArgs,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// How often `status` reads and prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Repeat {
    /// Once.
    Once,
    /// Until Ctrl-C.
    Watch,
}
