//! Whether a command asks.

use std::io;

use clap::ValueEnum;

use super::{Audience, Exit, Terminal, form::Form};
use crate::config::{Config, SourceKind};

/// Whether to ask before something is dropped or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Confirmation {
    /// The slot's name must be typed; the configuration's, where rows are polled.
    Ask,
    /// The answer is yes.
    Yes,
}

impl Confirmation {
    /// Asks for the slot's name, `to` do something. Where the answer is no, says that nothing was
    /// `done`, and returns the exit code.
    pub(super) fn ask(
        self,
        form: Form,
        config: &Config,
        (to, done): (&str, &str),
        terminal: &mut Terminal<'_>,
    ) -> io::Result<Option<Exit>> {
        match (self, terminal.audience, form) {
            (Self::Yes, ..) => Ok(None),
            (Self::Ask, Audience::Person, Form::Text) => {
                let (name, whose) = match config.postgres.source {
                    SourceKind::Stream => (config.postgres.slot.as_str(), "the slot's name"),
                    SourceKind::Polling => (config.name.as_str(), "the configuration's name"),
                };
                let question = format!("type {name}, {whose}, to {to}: ");
                if terminal.confirms(name, &question)? {
                    return Ok(None);
                }
                writeln!(terminal.err, "nothing was {done}")?;
                Ok(Some(Exit::Failure))
            }
            (Self::Ask, ..) => {
                writeln!(terminal.err, "error: nothing was {done}: there is nobody to ask")?;
                writeln!(terminal.err, "  hint: the same command with --yes, or with --dry-run")?;
                Ok(Some(Exit::Usage))
            }
        }
    }
}
