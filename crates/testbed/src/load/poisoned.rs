//! Rows that can become no record, each followed by an event of its aggregate.

use anyhow::{Context, ensure};
use tokio_postgres::Client;

use super::schema::Schema;

/// The table of poisoned rows: one row for each, written in its transaction. Never published.
/// Their ids are not in the table of committed events, so each of their records is a phantom.
pub const POISONED: &str = "testbed.poisoned";

/// Writes a poisoned row and then an event for each of some aggregates, which the server chooses,
/// in one transaction. Returns how many aggregates have one.
///
/// # Errors
///
/// Fails when the server refuses, or the outbox has no column of headers; nothing is written then.
pub async fn poisoned_transaction(
    client: &Client,
    schema: &Schema,
    aggregates: i64,
) -> anyhow::Result<u64> {
    ensure!(schema.columns().headers.is_some(), "only a row with headers can be poisoned");
    client.batch_execute("BEGIN").await?;
    match write(client, schema, aggregates).await {
        Ok(written) => Ok(written),
        Err(error) => {
            drop(client.batch_execute("ROLLBACK").await);
            Err(error).context("cannot write poisoned rows")
        }
    }
}

async fn write(client: &Client, schema: &Schema, aggregates: i64) -> anyhow::Result<u64> {
    let choose = "SELECT n FROM testbed.aggregate ORDER BY random() LIMIT $1";
    let rows = client.query(choose, &[&aggregates]).await?;
    let chosen: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    // In the order in which writers lock, to avoid a deadlock.
    let lock = "SELECT FROM testbed.aggregate WHERE n = ANY ($1) ORDER BY n FOR UPDATE";
    client.execute(lock, &[&chosen]).await?;
    let insert = schema.insert_into();
    let poison = format!(
        "WITH o AS ({insert} SELECT gen_random_uuid(), type, id, 'poisoned', '{{}}', '[7]' \
             FROM testbed.aggregate WHERE n = ANY ($1) RETURNING id, aggregate_id) \
         INSERT INTO {POISONED} (id, aggregate_id) SELECT id, aggregate_id FROM o"
    );
    let written = client.execute(&poison, &[&chosen]).await?;
    let follow = format!(
        "WITH a AS (UPDATE testbed.aggregate SET seq = seq + 1 WHERE n = ANY ($1) \
             RETURNING type, id, seq), \
         o AS ({insert} SELECT gen_random_uuid(), a.type, a.id, 'behind', \
             jsonb_build_object('seq', a.seq), NULL FROM a RETURNING *) \
         {} SELECT {}, (o.{}->>'seq')::int8 FROM o",
        Schema::insert_into_committed(),
        schema.committed_expressions(),
        schema.columns().payload,
    );
    client.execute(&follow, &[&chosen]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(written)
}
