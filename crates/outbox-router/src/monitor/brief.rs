//! A transaction that reads for people: it gives up where a table is locked or rewritten, since the
//! slot is more important.

use tokio_postgres::{Client, Error};

/// The statements of a transaction that ends soon.
pub(super) const BEGIN: [&str; 4] = [
    "begin read only",
    "set local lock_timeout = '200ms'",
    "set local statement_timeout = '1s'",
    "set local jit = off",
];

/// Begins one.
///
/// # Errors
/// The connection breaks.
pub(super) async fn begin(client: &Client) -> Result<(), Error> {
    client.batch_execute(&BEGIN.join("; ")).await
}
