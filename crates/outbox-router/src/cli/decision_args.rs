//! The flags of commands by which a person decides about a row.

use std::io;

use clap::{Args, ValueEnum};

use super::{Exit, Terminal, confirmation::Confirmation, form::Form, person};
use crate::config::{Config, Environment};

/// How a decision is made: by whom and why, whether it is carried out, and what is printed.
#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// Why, as it is written beside the decision
    #[arg(long, value_name = "TEXT", value_parser = person::reason)]
    pub reason: Option<String>,
    /// By whom, and whether it is carried out.
    #[command(flatten)]
    pub how: HowArgs,
    /// Print one JSON object, for programs; it needs --yes or --dry-run
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
}

/// Who types a command that changes something, and whether it does.
#[derive(Debug, Args)]
pub struct HowArgs {
    /// Who does it, as it is recorded [default: the user and the host]
    #[arg(long, value_name = "NAME", value_parser = person::parse)]
    pub by: Option<String>,
    /// Show what would be done, and change nothing
    #[arg(long = "dry-run", num_args = 0, default_value = "real")]
    #[arg(default_missing_value = "dry")]
    pub effect: Effect,
    /// Do not ask
    #[arg(long = "yes", num_args = 0, default_value = "ask")]
    #[arg(default_missing_value = "yes")]
    pub confirmation: Confirmation,
}

impl HowArgs {
    /// The person named, or else the one who runs the command.
    pub(super) fn person(&self, environment: &Environment) -> String {
        self.by.clone().unwrap_or_else(|| person::current(environment))
    }
}

/// Who decides, and why.
pub(super) struct Decider<'a> {
    pub(super) by: String,
    pub(super) reason: Option<&'a str>,
}

impl DecisionArgs {
    /// Who decides: the person named, or else the one who runs the command.
    pub(super) fn decider(&self, environment: &Environment) -> Decider<'_> {
        Decider { by: self.how.person(environment), reason: self.reason.as_deref() }
    }

    /// Asks for the slot's name, `to` do something. Where the answer is no, says that nothing was
    /// `done`, and returns the exit code.
    pub(super) fn confirm(
        &self,
        config: &Config,
        (to, done): (&str, &str),
        terminal: &mut Terminal<'_>,
    ) -> io::Result<Option<Exit>> {
        self.how.confirmation.ask(self.form, config, (to, done), terminal)
    }
}

/// Whether anything is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Effect {
    /// It is.
    Real,
    /// Nothing is.
    Dry,
}
