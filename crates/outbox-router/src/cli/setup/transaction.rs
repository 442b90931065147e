//! What `setup` makes in one transaction: all of it, or nothing.

use tokio_postgres::Client;

use crate::cli::TaskError;

/// Makes what `make` makes, or nothing at all; returns what to print of it.
///
/// # Errors
/// A statement is refused. The failure says that nothing was made, if there was anything to undo.
pub(super) async fn all_or_nothing(
    client: &Client,
    make: impl AsyncFnOnce(&mut Vec<u8>) -> Result<(), TaskError>,
) -> Result<Vec<u8>, TaskError> {
    let mut made = Vec::new();
    client.batch_execute("begin").await?;
    match make(&mut made).await {
        Ok(()) => client.batch_execute("commit").await?,
        Err(refusal) => {
            // If this fails, the connection is gone, and PostgreSQL rolls back by itself.
            let _rolled_back = client.batch_execute("rollback").await;
            return Err(if made.is_empty() { refusal } else { rolled_back(refusal) });
        }
    }
    Ok(made)
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
