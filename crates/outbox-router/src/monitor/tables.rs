//! How large the outbox tables are, as PostgreSQL keeps count. Retention reads the same and more of
//! the tables that it sweeps; where it is off, nothing else shows that a table only grows.
//!
//! It costs a look at the catalog and at the size of each file, needs no right to the tables, and
//! is asked once a minute.

use std::collections::BTreeMap;

use relay::{TableName, source::Catalog};
use tokio_postgres::{Client, Error};

use super::brief;
use crate::postgres::table_size_sql;

/// The size of an outbox table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSize {
    /// The table.
    pub name: TableName,
    /// Its rows, as PostgreSQL estimates them, of all partitions.
    pub rows: u64,
    /// Its bytes on disk, with its indexes, of all partitions.
    pub bytes: u64,
}

/// Reads the sizes of the tables of `catalog`; `None` where PostgreSQL did not say.
pub(super) async fn sizes(client: &Client, catalog: &Catalog) -> Option<Vec<TableSize>> {
    let read = read(client, catalog).await;
    if let Err(error) = &read {
        tracing::debug!(%error, "the sizes of the outbox tables cannot be read");
        // Where the connection broke, the next reading finds that.
        let _ended = client.batch_execute("rollback").await;
    }
    read.ok()
}

async fn read(client: &Client, catalog: &Catalog) -> Result<Vec<TableSize>, Error> {
    let names: BTreeMap<u32, &TableName> =
        catalog.relations.iter().map(|table| (table.oid.as_u32(), &table.name)).collect();
    let oids: Vec<u32> = names.keys().copied().collect();
    // The size of a file is asked under a lock that a rewrite of the table refuses.
    brief::begin(client).await?;
    let mut sizes = Vec::with_capacity(oids.len());
    let query = format!(
        "select t.oid, s.* from unnest($1::oid[]) t (oid) join pg_class using (oid) \
         cross join lateral ({}) s",
        table_size_sql("t.oid")
    );
    for row in client.query(&query, &[&oids]).await? {
        let oid: u32 = row.try_get("oid")?;
        let whole = |column| {
            row.try_get::<_, i64>(column).map(|value| u64::try_from(value).unwrap_or_default())
        };
        let (rows, bytes) = (whole("size_rows")?, whole("size_bytes")?);
        if let Some(name) = names.get(&oid) {
            sizes.push(TableSize { name: (*name).clone(), rows, bytes });
        }
    }
    client.batch_execute("commit").await?;
    Ok(sizes)
}
