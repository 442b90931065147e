//! Runs the command as a person would.

use std::{ffi::OsString, io};

use outbox_router::{
    block_on::block_on,
    cli::{self, Audience, Cli, Command, Exit, Terminal},
    config::Environment,
};

/// How the command ended, and what it wrote.
pub(crate) struct Outcome {
    pub(crate) exit: Exit,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Gives the text on standard input.
pub(crate) fn run(text: &str, flags: &[&str]) -> Outcome {
    run_on("-", text, flags)
}

/// The same with variables of the environment.
pub(crate) fn run_in(variables: &[(&str, &str)], text: &str, flags: &[&str]) -> Outcome {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    run_with("-", text, flags, &Environment::new(variables))
}

/// Names a file; `text` is on standard input.
pub(crate) fn run_on(file: &str, text: &str, flags: &[&str]) -> Outcome {
    run_with(file, text, flags, &Environment::new([]))
}

fn run_with(file: &str, text: &str, flags: &[&str], environment: &Environment) -> Outcome {
    let arguments = ["outbox-router", "migrate", "debezium", file].into_iter();
    let cli = Cli::read(arguments.chain(flags.iter().copied()).map(OsString::from))
        .expect("a command line");
    let Command::Migrate(from) = &cli.command else { panic!("not migrate") };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut io::Cursor::new(text.as_bytes()),
        audience: Audience::Machine,
    };
    let exit = block_on(cli::migrate(&cli, from, environment, &mut terminal)).expect("a runtime");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Outcome { exit, out: text(out), err: text(err) }
}
