//! The entry point: reads the command line and the configuration, executes the command, and returns
//! the exit code.

use std::{
    io::{self, IsTerminal},
    panic,
    process::ExitCode,
};

use outbox_router::{
    app::App,
    cli::{self, Audience, Cli, Command, Exit, OnFatal, Terminal},
    config::{Environment, Loaded},
    prepare::Prepared,
    telemetry,
};
use relay::Outcome;

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
    let environment = Environment::new(std::env::vars_os());
    let loaded = match cli::load_config(&cli, &environment) {
        Ok(loaded) => loaded,
        Err(errors) => return refuse(Exit::Configuration, &errors),
    };
    let exit = panic::catch_unwind(panic::AssertUnwindSafe(|| match &cli.command {
        Command::Run(args) => run(loaded, args.on_fatal, &environment),
        Command::Task(task) => execute(&cli, task, &loaded, &environment),
    }));
    exit.unwrap_or(Exit::Bug).into()
}

fn run(loaded: Loaded, on_fatal: OnFatal, environment: &Environment) -> Exit {
    let prepared = match Prepared::build(loaded, environment) {
        Ok(prepared) => prepared,
        Err(errors) => {
            refuse(Exit::Configuration, &errors);
            return Exit::Configuration;
        }
    };
    telemetry::start(&prepared.config.log);
    let on_fatal = match on_fatal {
        OnFatal::Stay => relay::OnFatal::Stay,
        OnFatal::Exit => relay::OnFatal::Exit,
    };
    match App::new(prepared, on_fatal).run() {
        Ok(Outcome::Drained) => Exit::Done,
        Ok(Outcome::DeadlinePassed) => Exit::ShutdownDeadline,
        Ok(Outcome::Fatal) => Exit::Decision,
        Err(error) => {
            tracing::error!("{error}");
            error.exit()
        }
    }
}

fn execute(cli: &Cli, task: &cli::Task, loaded: &Loaded, environment: &Environment) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            refuse(Exit::Failure, &error);
            return Exit::Failure;
        }
    };
    let audience = if io::stdout().is_terminal() { Audience::Person } else { Audience::Machine };
    let mut terminal = Terminal {
        out: &mut io::stdout(),
        err: &mut io::stderr(),
        input: &mut io::BufReader::new(io::stdin()),
        audience,
    };
    let exit = runtime.block_on(cli::execute(cli, task, loaded, environment, &mut terminal));
    // Does not wait for blocking threads that still wait for Kafka.
    runtime.shutdown_background();
    exit
}

#[expect(clippy::print_stderr, reason = "the log is not open yet, and a person waits")]
fn refuse(exit: Exit, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    exit.into()
}
