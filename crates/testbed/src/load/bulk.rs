//! Many events that the server writes by itself: one huge transaction, or a backlog for a
//! measurement.

use anyhow::{Context, ensure};
use tokio_postgres::Client;

use super::schema::Schema;

/// Writes about `rows` events in one transaction (equally many for each aggregate), each with its
/// row in the table of committed events, and returns how many.
///
/// # Errors
///
/// Fails when the server refuses; nothing is written then.
pub async fn big_transaction(
    client: &Client,
    schema: &Schema,
    rows: i64,
    payload_bytes: i32,
) -> anyhow::Result<u64> {
    let aggregates = rows.min(i64::from(schema.aggregates));
    ensure!(aggregates > 0, "a transaction of no rows and no aggregates");
    let each = rows / aggregates;
    let aggregates = i32::try_from(aggregates)?;
    let null_headers = if schema.columns().headers.is_some() { ", NULL" } else { "" };
    let sql = format!(
        "WITH a AS (UPDATE testbed.aggregate SET seq = seq + $2 WHERE n < $1 \
             RETURNING type, id, seq - $2 AS base), \
         o AS ({} SELECT gen_random_uuid(), a.type, a.id, 'bulk', \
             jsonb_build_object('seq', a.base + g, 'pad', repeat('x', $3)){null_headers} \
             FROM generate_series(1, $2::int8) g, a ORDER BY g, a.id RETURNING *) \
         {} SELECT {}, (o.{}->>'seq')::int8 FROM o",
        schema.insert_into(),
        Schema::insert_into_committed(),
        schema.committed_expressions(),
        schema.columns().payload,
    );
    client.batch_execute("BEGIN").await?;
    // In the order in which writers lock, to avoid a deadlock.
    let lock = "SELECT FROM testbed.aggregate WHERE n < $1 ORDER BY n FOR UPDATE";
    let written = async {
        client.execute(lock, &[&aggregates]).await?;
        let written = client.execute(&sql, &[&aggregates, &each, &payload_bytes]).await?;
        client.batch_execute("COMMIT").await?;
        anyhow::Ok(written)
    };
    match written.await {
        Ok(written) => Ok(written),
        Err(error) => {
            drop(client.batch_execute("ROLLBACK").await);
            Err(error).context("cannot write the big transaction")
        }
    }
}

/// A backlog: transactions of equal size, written one after another by the server, without rows in
/// the table of committed events. Events are numbered in member `seq` of the payload.
#[derive(Debug, Clone, Copy)]
pub struct Backlog {
    /// How many transactions.
    pub transactions: u64,
    /// Rows in each.
    pub rows_per_transaction: u64,
    /// Padding in each payload.
    pub payload_bytes: u64,
    /// The number of the first row; a later backlog on the same table continues where the one
    /// before has ended.
    pub first: u64,
}

/// Writes a backlog, and returns the number of its rows.
///
/// # Errors
///
/// Fails when the server refuses.
pub async fn backlog(client: &Client, schema: &Schema, size: Backlog) -> anyhow::Result<u64> {
    let Backlog { transactions, rows_per_transaction, payload_bytes, first } = size;
    let types: Vec<String> =
        schema.types.iter().map(|name| format!("'{}'", name.replace('\'', "''"))).collect();
    let null_headers = if schema.columns().headers.is_some() { ", NULL" } else { "" };
    let sql = format!(
        "DO $$ BEGIN FOR i IN 0..{transactions} - 1 LOOP \
         {} SELECT gen_random_uuid(), t.name, t.name || '-' || t.n, 'bulk', \
             jsonb_build_object('seq', {first} + i * {rows_per_transaction} + g, \
                                'pad', repeat('x', {payload_bytes})){null_headers} \
         FROM generate_series(0::int8, {rows_per_transaction} - 1) g, \
         LATERAL (SELECT a.n, (ARRAY[{}])[1 + a.n % {}] AS name FROM \
             (SELECT ({first} + i * {rows_per_transaction} + g) % {} AS n) a) t ORDER BY g; \
         COMMIT; END LOOP; END $$",
        schema.insert_into(),
        types.join(", "),
        types.len(),
        schema.aggregates,
    );
    client.batch_execute(&sql).await.context("cannot write the backlog")?;
    Ok(transactions * rows_per_transaction)
}
