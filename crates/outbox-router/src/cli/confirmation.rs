//! Whether a command asks.

use clap::ValueEnum;

/// Whether to ask before something is dropped or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Confirmation {
    /// The slot's name must be typed.
    Ask,
    /// The answer is yes.
    Yes,
}
