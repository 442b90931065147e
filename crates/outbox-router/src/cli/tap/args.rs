//! What `tap` is asked.

use std::num::NonZeroU64;

use clap::{Args, ValueEnum};

use crate::cli::{flags::Overrides, form::Form};

/// `tap`
#[derive(Debug, Args)]
pub struct TapArgs {
    /// Only events of topics with this name, in which * stands for any characters and ? for one
    #[arg(long, value_name = "NAME")]
    pub topic: Option<String>,
    /// Only events whose record has this key; needs admin.tap = "content"
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// End after so many events
    #[arg(long, value_name = "N")]
    pub limit: Option<NonZeroU64>,
    /// Print one JSON object for each event, for programs; also without it, where the output is no
    /// terminal
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Show keys, headers and values, cut to a size; needs admin.tap = "content"
    #[arg(long = "content", num_args = 0, default_value = "hide")]
    #[arg(default_missing_value = "show")]
    pub content: TapContent,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// Whether `tap` shows what an event contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TapContent {
    /// Metadata alone.
    Hide,
    /// Keys, headers and values, too.
    Show,
}
