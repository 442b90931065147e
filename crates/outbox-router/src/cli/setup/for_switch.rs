//! What `switch stream` makes, which is what `setup` makes for the stream: role, publication, state
//! topic and witness. It makes the slot itself, since it needs the slot's snapshot.

use std::io;

use relay::{Failure, TableName};
use tokio_postgres::Client;

use super::{
    first::{self, Slot, SlotOrigin},
    mend_publication, preflight, publication, role, slot, transaction,
};
use crate::{
    cli::{RecordPart, TaskError, connect::Access, hoster::Hoster},
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
    let name = config.postgres.slot.as_str();
    if let Some(slot) = slot::find(client, name).await? {
        slot.check_purpose(name)?;
    }
    let name = config.postgres.publication.as_str();
    if let Some(known) = publication::find(client, name, version).await? {
        known.refuse_unfit(name, tables, &config.outboxes())?;
    }
    Ok(version)
}

/// Makes role and publication, in one transaction.
///
/// # Errors
/// The server refuses.
pub(in crate::cli) async fn make_stream(
    client: &Client,
    (config, access): (&Config, Access<'_>),
    of: (&[TableName], i32),
    router: Option<RouterRole<'_>>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let mut made = Vec::new();
    client.batch_execute("begin").await?;
    let work = async {
        if let Some(RouterRole { name, managed }) = router {
            let password = access.password_of_router(name);
            role::make(client, (name, password.as_ref()), managed, &mut made).await?;
        }
        mend_publication(client, config, of, &mut made).await
    };
    match Box::pin(work).await {
        Ok(()) => client.batch_execute("commit").await?,
        Err(refusal) => {
            // If this fails, the connection is gone, and PostgreSQL rolls back by itself.
            let _rolled_back = client.batch_execute("rollback").await;
            return Err(transaction::rolled_back(refusal));
        }
    }
    out.write_all(&made)?;
    Ok(())
}

/// Reads the state topic, to see that Kafka answers before anything is made.
///
/// # Errors
/// It does not.
pub(in crate::cli) async fn check_kafka(
    config: &Config,
    access: Access<'_>,
) -> Result<(), Failure> {
    first::check_kafka(RecordPart::Include, config, access).await
}

/// Makes the state topic.
///
/// # Errors
/// Kafka refuses.
pub(in crate::cli) async fn make_topic(config: &Config, access: Access<'_>) -> Result<(), Failure> {
    first::make_topic(RecordPart::Include, config, access).await
}

/// Writes the first witness, unless there is one. The command holds the slot by `holder`.
///
/// # Errors
/// The source does not fit, or Kafka refuses.
pub(in crate::cli) async fn record_beginning(
    (config, access): (&Config, Access<'_>),
    holder: Option<i32>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let made = Slot { origin: SlotOrigin::Now, holder };
    Box::pin(first::record(RecordPart::Include, made, config, access, out)).await.map(drop)
}
