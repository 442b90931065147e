//! The form in which a command prints.

use clap::ValueEnum;

/// See the module's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}
