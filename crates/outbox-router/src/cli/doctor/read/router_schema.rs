//! What the tables of the schema `outbox_router` say.

use relay::{Case, Code, Failure, Name, handover::PastRun};
use tokio_postgres::Client;

use crate::{
    cli::doctor::facts::Part,
    config::Config,
    held,
    postgres::{one_row, sql_failure},
    republish::{journal, left_out},
};

/// A back-fill of the slot that is not complete, and that no command carries out.
pub(super) async fn unfinished_backfill(
    mut client: &Client,
    config: &Config,
) -> Part<Option<PastRun>> {
    refuse_unreadable(client, "republication").await?;
    let (pipeline, slot) = (config.name.as_str(), config.postgres.slot.as_str());
    let run = journal::unfinished_backfill(&mut client, pipeline, slot).await?;
    match run.is_some() && journal::is_at_work(&mut client, pipeline).await? {
        true => Ok(None),
        false => Ok(run),
    }
}

/// How many rows of each table were left out of what was sent.
pub(super) async fn left_out(
    mut client: &Client,
    config: &Config,
) -> Part<Vec<left_out::LeftOutRows>> {
    refuse_unreadable(client, "left_out").await?;
    left_out::count_of_tables(&mut client, &config.name).await
}

/// Refuses a table that is there, and that this role may not read: it says nothing then.
async fn refuse_unreadable(mut client: &Client, table: &'static str) -> Result<(), Failure> {
    if !held::exists(client, table).await.map_err(sql_failure)?
        || held::are_readable(&mut client, table, [table]).await?
    {
        return Ok(());
    }
    let mut row = one_row(&mut client, "the role", "select quote_ident(current_user)").await?;
    let role = row.text()?;
    let what = format!(
        "the router's role may not read outbox_router.{table}; to show it: grant usage on schema \
         outbox_router to {role}; grant select on outbox_router.{table} to {role}"
    );
    Err(Failure::of(Case::PermissionDenied, what))
}

/// Whether events can be held: the table exists, and the role may use it.
pub(super) async fn dead_letters(
    client: &Client,
    config: &Config,
    role: Option<&str>,
) -> Option<Vec<Failure>> {
    config.on_error.has_dead_letters().then_some(())?;
    let mut failures = Vec::new();
    match held::exists(client, "held").await {
        Ok(true) => match held::is_table_readable(client).await {
            Ok(true) => {}
            Ok(false) => failures.push(forbidden(role)),
            Err(error) => failures.push(sql_failure(error)),
        },
        Ok(false) => {
            let what = "table outbox_router.held does not exist";
            failures.push(Failure::new(Code::HeldTable, what));
        }
        Err(error) => failures.push(sql_failure(error)),
    }
    Some(failures)
}

fn forbidden(role: Option<&str>) -> Failure {
    let what = "the router's role may not use the table outbox_router.held";
    let failure = Failure::of(Case::HeldTableForbidden, what);
    match role {
        Some(role) => failure.naming(Name::Role, role),
        None => failure,
    }
}
