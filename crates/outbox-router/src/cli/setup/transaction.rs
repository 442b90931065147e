//! What `setup` makes in one transaction: all of it, or nothing.

use std::{io, pin::pin, time::Duration};

use relay::Case;
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::cli::{
    TaskError,
    connect::{Access, with_connection},
    transaction_waits::{TransactionWaits, Waited},
};

/// How often another session looks which locks a statement waits for, and for how long it may do so
/// before.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Makes what `make` makes, or nothing at all; returns what to print of it.
///
/// # Errors
/// A statement is refused. The failure says that nothing was made, if there was anything to undo.
pub(super) async fn all_or_nothing(
    client: &Client,
    access: Access<'_>,
    make: impl AsyncFnOnce(&mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<Vec<u8>, TaskError> {
    let mut made = Vec::new();
    client.batch_execute("begin").await?;
    match naming_holders(client, access, make(&mut made)).await {
        Ok(()) => client.batch_execute("commit").await?,
        Err(refusal) => {
            // If this fails, the connection is gone, and PostgreSQL rolls back by itself.
            let _rolled_back = client.batch_execute("rollback").await;
            return Err(if made.is_empty() { refusal } else { rolled_back(refusal) });
        }
    }
    Ok(made)
}

/// Does the work. Where it gives up because of a lock, the failure names who held that.
async fn naming_holders<T>(
    client: &Client,
    access: Access<'_>,
    work: impl Future<Output = Result<T, TaskError>>,
) -> Result<T, TaskError> {
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await?.try_get(0)?;
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = sleep(LOOK_EVERY) => {}
    }
    let watched = with_connection(access, "setup", async |watcher| {
        let mut waits = TransactionWaits::of("a lock");
        loop {
            waits.report(watcher, Waited::Blocking(pid), &mut io::sink()).await?;
            tokio::select! {
                biased;
                done = &mut work => break Ok((done, waits)),
                () = sleep(LOOK_EVERY) => {}
            }
        }
    });
    match Box::pin(watched).await? {
        (Err(TaskError::Failure(failure)), waits) if failure.case == Some(Case::LockTimeout) => {
            Err(waits.named_in(*failure).into())
        }
        (done, _) => done,
    }
}

/// Makes what `make` makes, and undoes it: to see that the server refuses none of it.
///
/// # Errors
/// A statement is refused.
pub(super) async fn rehearse(
    client: &Client,
    make: impl AsyncFnOnce(&mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    client.batch_execute("begin").await?;
    let made = make(&mut Vec::new()).await;
    let undone = client.batch_execute("rollback").await;
    made?;
    Ok(undone?)
}

/// A statement was refused, and those before it are undone.
fn rolled_back(refusal: TaskError) -> TaskError {
    match refusal {
        TaskError::Failure(mut failure) => {
            failure.message.push_str("; nothing was made, since all of it is one transaction");
            TaskError::Failure(failure)
        }
        other @ TaskError::Output(_) => other,
    }
}
