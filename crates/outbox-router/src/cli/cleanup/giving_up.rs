//! Rows from before a table was an outbox are given up by a person, whom a line of
//! `outbox_router.republication` names. They are in no topic, and nothing else says so afterwards.

use relay::{Failure, TableName};
use serde_json::json;
use tokio_postgres::Client;

use super::args::{CleanupArgs, Older};
use crate::{
    cli::{
        connect::{Access, denied, lacks},
        decision_args::Effect,
        person,
    },
    config::Config,
    republish::journal::{self, Completeness, Run, Subject},
};

/// Refuses a role that could not note it, before anything is counted.
///
/// # Errors
/// The role lacks a privilege, or the connection breaks.
pub(super) async fn check(args: &CleanupArgs, client: &Client) -> Result<(), Failure> {
    if args.older == Older::Kept || args.effect == Effect::Dry {
        return Ok(());
    }
    let grants = journal::missing_grants(client).await?;
    if grants.is_empty() {
        return Ok(());
    }
    let what = "the role may not note in outbox_router.republication who gives rows up";
    Err(lacks(what.to_owned(), &grants))
}

/// Notes who gives up which tables' rows from before, and why; `None` where they stay.
///
/// # Errors
/// The role may not write it, or the connection breaks.
pub(super) async fn begin<'c>(
    args: &CleanupArgs,
    (client, config, access): (&'c Client, &Config, Access<'_>),
    tables: impl Iterator<Item = &TableName>,
) -> Result<Option<Run<'c>>, Failure> {
    if args.older == Older::Kept {
        return Ok(None);
    }
    let tables: Vec<String> = tables.map(ToString::to_string).collect();
    let selection = json!({ "tables": tables, "older": "given up" }).to_string();
    let subject = Subject {
        pipeline: &config.name,
        slot: config.postgres.slot.as_str(),
        command: "cleanup",
        selection: &selection,
    };
    let by = args.by.clone().unwrap_or_else(|| person::current(access.environment));
    journal::make(client).await.map_err(denied)?;
    let run = Run::begin(client, subject, &by, args.reason.as_deref()).await.map_err(denied)?;
    Ok(Some(run))
}

/// Notes how it ended.
///
/// # Errors
/// The role may not write it, or the connection breaks.
pub(super) async fn end(
    run: &Run<'_>,
    removed: u64,
    failure: Option<&Failure>,
) -> Result<(), Failure> {
    let removed = format!("{removed} rows removed, those from before among them");
    let (outcome, completeness) = match failure {
        None => (format!("complete: {removed}"), Completeness::Complete),
        Some(failure) => (format!("{removed}; {failure:#}"), Completeness::GivenUp),
    };
    run.end(&outcome, completeness).await
}
