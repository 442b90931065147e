//! The entry point: reads the command line and the configuration, executes the command, and returns
//! the exit code.

use std::{
    io::{self, IsTerminal},
    panic,
    process::ExitCode,
};

use outbox_router::{
    app::App,
    block_on::block_on,
    cli::{self, Audience, Cli, Command, Exit, ExitOnFatal, Production, Terminal},
    config::{Environment, Loaded},
    prepare::Prepared,
    telemetry,
};
use relay::{ExitReason, OnFailed};

/// librdkafka allocates memory in one thread and frees it in another; mimalloc halves the cost of
/// that. With mimalloc's feature `override`, librdkafka's C code uses mimalloc as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    if let Err(exit) = outbox_router::failpoint::arm(
        std::env::var(outbox_router::failpoint::VARIABLE).ok().as_deref(),
    ) {
        return exit;
    }
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let exit = panic::catch_unwind(panic::AssertUnwindSafe(|| command(&cli)));
    exit.unwrap_or(Exit::Bug).into()
}

fn command(cli: &Cli) -> Exit {
    let environment = Environment::new(std::env::vars_os());
    let with_configuration = |command: &dyn Fn(Loaded) -> Exit| {
        if let Some(note) = cli::no_file_note(cli, &environment) {
            say(&note);
        }
        cli::load_config(cli, &environment)
            .map_or_else(|errors| refuse(Exit::Configuration, &errors), command)
    };
    match &cli.command {
        Command::Explain(args) => match args.explanation {
            Some(explanation) => with_terminal(|terminal| cli::explain(explanation, terminal)),
            None => with_configuration(&|loaded| {
                to_its_end(async |terminal| {
                    cli::explain_row(args, &loaded, &environment, terminal).await
                })
            }),
        },
        Command::Migrate(from) => {
            to_its_end(async |terminal| cli::migrate(cli, from, &environment, terminal).await)
        }
        Command::Run(args) => with_configuration(&|loaded| match args.dry_run.production {
            Production::Real => run(loaded, args.exit_on_fatal, &environment),
            Production::Dry => to_its_end(async |terminal| {
                cli::dry_run(cli, &args.dry_run, &loaded, &environment, terminal).await
            }),
        }),
        Command::Task(task) => with_configuration(&|loaded| {
            to_its_end(async |terminal| {
                cli::execute(cli, task, &loaded, &environment, terminal).await
            })
        }),
    }
}

fn run(loaded: Loaded, exit_on_fatal: ExitOnFatal, environment: &Environment) -> Exit {
    let prepared = match Prepared::build(loaded, environment) {
        Ok(prepared) => prepared,
        Err(errors) => return refuse(Exit::Configuration, &errors),
    };
    telemetry::start(&prepared.config.log);
    let on_failed = match exit_on_fatal {
        ExitOnFatal::Stay => OnFailed::Stay,
        ExitOnFatal::Exit => OnFailed::Exit,
    };
    let ended = App::new(prepared, on_failed).run();
    telemetry::count_repeats();
    match ended {
        Ok(ExitReason::Drained) => Exit::Done,
        Ok(ExitReason::EventsUnconfirmed) => Exit::Unconfirmed,
        Ok(ExitReason::Failed) => Exit::PersonNeeded,
        Err(error) => {
            tracing::error!("{error}");
            error.exit()
        }
    }
}

/// Runs a command that connects.
fn to_its_end(command: impl AsyncFnOnce(&mut Terminal<'_>) -> Exit) -> Exit {
    with_terminal(|terminal| {
        block_on(command(terminal)).unwrap_or_else(|error| refuse(Exit::Failure, &error))
    })
}

fn with_terminal(command: impl FnOnce(&mut Terminal<'_>) -> Exit) -> Exit {
    let audience = if io::stdout().is_terminal() { Audience::Person } else { Audience::Machine };
    command(&mut Terminal {
        out: &mut io::stdout(),
        err: &mut io::stderr(),
        input: &mut io::BufReader::new(io::stdin()),
        audience,
    })
}

#[expect(clippy::print_stderr, reason = "the log is not open yet, and a person waits")]
fn say(text: &dyn std::fmt::Display) {
    eprintln!("{text}");
}

fn refuse(exit: Exit, error: &dyn std::fmt::Display) -> Exit {
    say(error);
    exit
}
