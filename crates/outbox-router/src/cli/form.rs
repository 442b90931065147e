//! For whom a command prints.

use clap::ValueEnum;

/// The form in which a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// For machines.
    Json,
}
