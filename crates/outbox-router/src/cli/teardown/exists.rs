//! Whether something is there that may be dropped.

use tokio_postgres::Client;

use crate::cli::TaskError;

/// Whether a query for something of this name finds it.
pub(super) async fn exists(client: &Client, query: &str, name: &str) -> Result<bool, TaskError> {
    Ok(client.query_opt(query, &[&name]).await?.is_some())
}

/// For a publication of this name.
pub(super) const PUBLICATION: &str = "select from pg_publication where pubname = $1";
