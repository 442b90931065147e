//! What is typed after `doctor`.

use clap::{Args, ValueEnum};

use crate::{
    cli::{flags::Overrides, form::Form},
    codes::{Explanation, typed_code},
};

/// `doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON object, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Look for these codes alone: --only P020,P021
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = typed_code)]
    pub only: Vec<&'static Explanation>,
    /// Look for all codes but these
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = typed_code)]
    pub skip: Vec<&'static Explanation>,
    /// Exit with code 1 for a warning, too
    #[arg(long = "deny-warnings", num_args = 0, default_value = "allow")]
    #[arg(default_missing_value = "deny")]
    pub warnings: Warnings,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// What warnings mean for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Warnings {
    /// Nothing.
    Allow,
    /// As much as errors.
    Deny,
}

impl DoctorArgs {
    /// Whether somebody wants to know of this code.
    pub(super) fn wants(&self, code: &str) -> bool {
        let has = |codes: &[&Explanation]| codes.iter().any(|known| known.code == code);
        (self.only.is_empty() || has(&self.only)) && !has(&self.skip)
    }
}
