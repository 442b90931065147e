//! What `switch stream` makes, which is what `setup` makes for the stream: role, publication, state
//! topic and witness. It makes the slot itself, since it needs the slot's snapshot.

use std::io;

use relay::{Case, Failure, TableName, witness::ProducedTo};
use tokio_postgres::Client;

use super::{
    check_slot,
    first::{self, Divided, Slot, SlotOrigin},
    mend_publication, preflight, publication, role, router_schema, transaction,
};
use crate::{
    cli::{RecordPart, TaskError, connect::Access, hoster::Hoster, witness::Records},
    config::Config,
};

/// The role that the router runs as.
#[derive(Clone, Copy)]
pub(in crate::cli) struct RouterRole<'a> {
    pub(in crate::cli) name: &'a str,
    pub(in crate::cli) managed: Option<Hoster>,
}

/// Checks that a slot can be made, and that the publication does not leave out inserts. Returns the
/// server's version.
///
/// # Errors
/// What does not fit.
pub(in crate::cli) async fn check_stream(
    client: &Client,
    config: &Config,
    tables: &[TableName],
) -> Result<i32, TaskError> {
    let version = preflight::server(client).await?;
    check_slot(client, config.postgres.slot.as_str()).await?;
    let name = config.postgres.publication.as_str();
    if let Some(known) = publication::find(client, name, version).await? {
        known.refuse_unfit(name, tables, &config.outboxes())?;
    }
    Ok(version)
}

/// Makes role and publication, and undoes it: what the server refuses, or would refuse of the
/// router's own tables, is known before workers give back their keys.
///
/// # Errors
/// The server refuses.
pub(in crate::cli) async fn rehearse_stream(
    client: &Client,
    (config, access): (&Config, Access<'_>),
    of: (&[TableName], i32),
    (router, role): (Option<RouterRole<'_>>, Option<&str>),
) -> Result<(), TaskError> {
    let work = async |made: &mut Vec<u8>| {
        make_role(client, access, router, made).await?;
        refuse_unready(client, role).await?;
        mend_publication(client, config, of, made).await
    };
    Box::pin(transaction::rehearse(client, work)).await
}

/// Makes the role, or gives it the right to replicate, where it lacks that.
///
/// # Errors
/// The server refuses.
pub(in crate::cli) async fn make_role(
    client: &Client,
    access: Access<'_>,
    router: Option<RouterRole<'_>>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let Some(RouterRole { name, managed }) = router else { return Ok(()) };
    let password = access.password_of_router(name);
    role::make(client, (name, password.as_ref()), managed, out).await
}

/// Refuses to make the router's own tables, and to grant them to a role that does not exist.
///
/// # Errors
/// The schema belongs to somebody else, or the role does not exist.
pub(in crate::cli) async fn refuse_unready(
    client: &Client,
    role: Option<&str>,
) -> Result<(), TaskError> {
    router_schema::refuse_unready(client, role).await
}

/// Reads the state topic, to see that Kafka answers before anything is made.
///
/// # Errors
/// It does not.
pub(in crate::cli) async fn check_kafka(
    config: &Config,
    access: Access<'_>,
) -> Result<(), Failure> {
    match Records::of(config, access)? {
        Some(records) => records.read().await.map(drop),
        None => Ok(()),
    }
}

/// Makes the state topic.
///
/// # Errors
/// Kafka refuses.
pub(in crate::cli) async fn make_topic(config: &Config, access: Access<'_>) -> Result<(), Failure> {
    match Records::of(config, access)? {
        Some(records) => records.make_topic().await,
        None => Ok(()),
    }
}

/// Writes the first witness, unless there is one, of a slot that the command holds by `holder`;
/// `sent`: the tables of which every row that is older than the slot was sent; `produced_to`: the
/// topics that pending rows were sent to.
///
/// # Errors
/// The source does not fit, or is not as it was when rows were `divided`, or Kafka refuses.
pub(in crate::cli) async fn record_beginning(
    (config, access): (&Config, Access<'_>),
    (divided, holder): (Option<Divided<'_>>, Option<i32>),
    (sent, produced_to): (&[TableName], &ProducedTo),
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let origin = if divided.is_some() { SlotOrigin::Now } else { SlotOrigin::Before };
    let made = Slot { origin, holder, sent, divided, produced_to };
    let recorded = Box::pin(first::record(RecordPart::Include, made, config, access, out)).await;
    recorded.map(drop).map_err(|mut error| {
        if let TaskError::Failure(failure) = &mut error
            && failure.case == Some(Case::FirstWitnessUnwritten)
        {
            failure.case = Some(Case::SwitchWitnessUnwritten);
            "every pending row is sent, but the witness is missing in the state topic"
                .clone_into(&mut failure.message);
        }
        error
    })
}
