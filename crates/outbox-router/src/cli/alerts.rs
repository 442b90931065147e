//! `alerts`: prints the alert rules for this configuration. It connects nowhere.

use std::num::NonZeroU32;

use clap::{Args, ValueEnum};

use super::{Exit, Overrides, TaskError, Terminal};
use crate::{
    alerts::{DEFAULT_RUNBOOK, Form, Pace, Rules, Scope},
    config::Config,
};

/// `alerts`
#[derive(Debug, Args)]
pub struct AlertsArgs {
    /// The file to print: a rule file of Prometheus, or a PrometheusRule of its operator
    #[arg(long, value_enum, default_value = "prometheus")]
    pub format: RuleFormat,
    /// What precedes the names of the pages in runbook_url
    #[arg(long, value_name = "URL", default_value = DEFAULT_RUNBOOK)]
    pub runbook_base: String,
    /// The rules for every pipeline that is scraped, as they are in config/alerts
    #[arg(long = "every-pipeline", num_args = 0, default_value = "own")]
    #[arg(default_missing_value = "every")]
    pub pipelines: Pipelines,
    /// Divide every duration by N, to rehearse the way from the router to the pager
    #[arg(long, value_name = "N", default_value = "1")]
    pub faster: NonZeroU32,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// Which file is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RuleFormat {
    /// A rule file.
    Prometheus,
    /// A `PrometheusRule`.
    Kubernetes,
}

/// Whose rules are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pipelines {
    /// Those of the configuration's pipeline.
    Own,
    /// Those of every pipeline.
    Every,
}

/// Prints the rules.
pub(super) fn alerts(
    args: &AlertsArgs,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let scope = match args.pipelines {
        Pipelines::Every => Scope::Every,
        Pipelines::Own => {
            let slot = config.postgres.slot.to_string();
            Scope::One { pipeline: config.name.clone(), slot }
        }
    };
    let form = match args.format {
        RuleFormat::Prometheus => Form::Prometheus,
        RuleFormat::Kubernetes => Form::Kubernetes,
    };
    let rules =
        Rules { scope: &scope, pace: Pace::faster(args.faster), runbook: &args.runbook_base };
    write!(terminal.out, "{}", rules.print(form))?;
    Ok(Exit::Done)
}
