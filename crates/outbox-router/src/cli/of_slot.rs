//! Which commands have a meaning where rows are polled (`postgres.source = "polling"`). Those that
//! are about the slot have none, and say so before they connect.

use std::io;

use super::{
    BackfillArgs, Command, Exit, MigrateFrom, OlderRows, Production, RunArgs, SetupArgs, Task,
    Terminal,
};
use crate::config::{Config, SourceKind};

/// What a command does where rows are polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithPolling {
    /// Its work, or as much of it as has a meaning.
    Works,
    /// Nothing: it is refused.
    Refused(Refusal),
}

/// Why a command is refused, and what does the work in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The command, as it is typed.
    pub(super) command: &'static str,
    /// Why it has no meaning.
    pub(super) why: &'static str,
    /// What to type.
    pub(super) instead: &'static str,
}

const ACCEPT: Refusal = Refusal {
    command: "accept",
    why: "gaps are of a slot, and a row that is polled is pending until it is delivered",
    instead: "outbox-router status says which rows are not delivered",
};

const RECOVER: Refusal = Refusal {
    command: "recover",
    why: "gaps are of a slot, and a row that is polled is pending until it is delivered",
    instead: "outbox-router replay sends rows again that are marked as delivered",
};

const BACKFILL: Refusal = Refusal {
    command: "setup --backfill",
    why: "it sends rows that are older than a slot, and of a table that is polled every pending \
          row is delivered, however old",
    instead: "outbox-router run delivers the rows that are pending; outbox-router replay sends rows \
              again that are marked as delivered",
};

const SKIP: Refusal = Refusal {
    command: "skip",
    why: "it names a row by its LSN, and a row that is polled has none",
    instead: "set on_error to \"dead_letter\": the row is abandoned after retry.max_attempts, and \
              outbox-router dead-letters shows it; or mark the row as delivered by SQL",
};

const COMPARE: Refusal = Refusal {
    command: "compare",
    why: "it reads a temporary copy of the slot",
    instead: "outbox-router explain --id ID shows the record of a row, and outbox-router where ID \
              what its topic has",
};

const DRY_RUN: Refusal = Refusal {
    command: "run --dry-run",
    why: "it reads a temporary copy of the slot",
    instead: "outbox-router explain --id ID shows the record that run would make of a row",
};

const HAND_OVER: Refusal = Refusal {
    command: "migrate debezium --take-over and --give-back",
    why: "they hand over a slot",
    instead: "set postgres.source = \"stream\" to take the connector's slot over; without these flags \
              migrate debezium translates the connector's configuration",
};

/// What a command line does where rows are polled.
pub(super) fn with_polling(command: &Command) -> WithPolling {
    match command {
        Command::Run(RunArgs { dry_run, .. }) => match dry_run.production {
            Production::Real => WithPolling::Works,
            Production::Dry => WithPolling::Refused(DRY_RUN),
        },
        Command::Task(task) => task_with_polling(task),
        Command::Explain(_) => WithPolling::Works,
        Command::Migrate(MigrateFrom::Debezium(args)) => match args.direction() {
            None => WithPolling::Works,
            Some(_) => WithPolling::Refused(HAND_OVER),
        },
    }
}

/// A command that does its work and ends. A new one has to be decided about here.
const fn task_with_polling(task: &Task) -> WithPolling {
    match task {
        Task::Accept(_) => WithPolling::Refused(ACCEPT),
        Task::Recover(_) => WithPolling::Refused(RECOVER),
        Task::Skip(_) => WithPolling::Refused(SKIP),
        Task::Compare(_) => WithPolling::Refused(COMPARE),
        Task::Setup(SetupArgs { backfill: BackfillArgs { rows, .. }, .. }) => match rows {
            OlderRows::Leave => WithPolling::Works,
            OlderRows::Send => WithPolling::Refused(BACKFILL),
        },
        // Slot and publication may be there before a switch, or after it.
        Task::Teardown(_) => WithPolling::Works,
        // From one to the other.
        Task::Switch(_) => WithPolling::Works,
        // A record is looked for by its row's key, with or without a slot.
        Task::Where(_) => WithPolling::Works,
        Task::DeadLetters(_)
        | Task::Cleanup(_)
        | Task::Replay(_)
        | Task::Check(_)
        | Task::Doctor(_)
        | Task::Status(_)
        | Task::Tap(_)
        | Task::Alerts(_) => WithPolling::Works,
    }
}

/// Says why the command is refused, if it is with this configuration; `None` where it is not.
pub(super) fn refuse(
    command: WithPolling,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> io::Result<Option<Exit>> {
    let WithPolling::Refused(Refusal { command, why, instead }) = command else { return Ok(None) };
    if config.postgres.source == SourceKind::Stream {
        return Ok(None);
    }
    let source = SourceKind::Polling.as_str();
    writeln!(
        terminal.err,
        "error: {command} has no meaning with postgres.source = \"{source}\": {why}"
    )?;
    writeln!(terminal.err, "  hint: {instead}")?;
    Ok(Some(Exit::Usage))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    const PAGE: &str = include_str!("../../../../docs/polling.md");

    /// A line of each command, and of each flag that makes another command of one.
    const LINES: &[&str] = &[
        "run",
        "run --dry-run",
        "setup",
        "setup --apply --backfill",
        "teardown",
        "switch stream",
        "switch polling",
        "recover",
        "accept",
        "dead-letters list",
        "skip --lsn 0/1 --id 1 --reason r",
        "cleanup",
        "replay --id 1",
        "check",
        "doctor",
        "compare",
        "status",
        "tap",
        "where 1",
        "alerts",
        "explain K010",
        "migrate debezium f",
        "migrate debezium f --take-over",
        "migrate debezium f --give-back",
    ];

    fn read(line: &str) -> Command {
        let arguments = std::iter::once("outbox-router").chain(line.split_whitespace());
        Cli::read(arguments).unwrap_or_else(|error| panic!("{line}: {error}")).command
    }

    /// The first word of the line, which is the command.
    fn name(line: &str) -> &str {
        line.split_whitespace().next().unwrap()
    }

    #[test]
    fn every_command_is_decided_about() {
        let command = Cli::command();
        let all: BTreeSet<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let decided: BTreeSet<&str> = LINES.iter().map(|line| name(line)).collect();
        assert_eq!(decided, all);
        let refused: Vec<&str> = LINES
            .iter()
            .filter(|line| matches!(with_polling(&read(line)), WithPolling::Refused(_)))
            .copied()
            .collect();
        let expected = [
            "run --dry-run",
            "setup --apply --backfill",
            "recover",
            "accept",
            "skip --lsn 0/1 --id 1 --reason r",
            "compare",
            "migrate debezium f --take-over",
            "migrate debezium f --give-back",
        ];
        assert_eq!(refused, expected);
    }

    #[test]
    fn the_page_has_every_command() {
        for line in LINES {
            let command = name(line);
            assert!(PAGE.contains(&format!("`{command}")), "docs/polling.md lacks {command}");
            if let WithPolling::Refused(refusal) = with_polling(&read(line)) {
                let row = format!("| `{}` | refused: {}", refusal.command, refusal.why);
                assert!(PAGE.contains(&row), "docs/polling.md lacks:\n{row}");
            }
        }
    }
}
