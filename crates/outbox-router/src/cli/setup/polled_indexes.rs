//! The indexes of a polled table, made while it is written to.

use std::{io, pin::pin, time::Duration};

use relay::{Case, Failure, Name};
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::{
    cli::{
        TaskError,
        connect::{Access, with_connection},
        transaction_waits::{TransactionWaits, Waited},
    },
    polling::sql::{IndexTrouble, IndexWork, PolledTable, setup::Partitions},
    postgres::quote_identifier,
};

/// Nobody queues behind an index that is made concurrently, however long it waits for transactions
/// that are open: with a limit, the work of hours would be thrown away.
const CONCURRENT: &str = "set lock_timeout = 0; set statement_timeout = 0";

/// Writers queue behind that of a partitioned table.
const LOCKING: &str = "set lock_timeout = '5s'; set statement_timeout = 0";

/// How often it is looked at which transactions an index waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Makes those that are not as they should be.
pub(super) async fn make_indexes(
    client: &Client,
    table: &PolledTable,
    access: Access<'_>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let work = table.index_work();
    if work.is_empty() {
        return Ok(());
    }
    client
        .batch_execute(match table.partitions() {
            Partitions::None => CONCURRENT,
            Partitions::Some => LOCKING,
        })
        .await?;
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await?.try_get(0)?;
    let making = with_connection(access, "setup", async |watcher| {
        for index in &work {
            refuse_taken_name(client, table, index).await?;
            for statement in &index.statements {
                let mut running = pin!(client.batch_execute(statement));
                let mut waits = TransactionWaits::of(format!("the index {}", index.name));
                loop {
                    tokio::select! {
                        biased;
                        done = &mut running => break done?,
                        () = sleep(LOOK_EVERY) => waits.report(watcher, Waited::By(pid), out).await?,
                    }
                }
            }
            writeln!(out, "index of {}: {}", table.name(), index.purpose)?;
        }
        Ok(())
    });
    Box::pin(making).await
}

/// A table that was renamed keeps its indexes, and the new one of its name cannot have the same.
async fn refuse_taken_name(
    client: &Client,
    table: &PolledTable,
    index: &IndexWork,
) -> Result<(), TaskError> {
    if index.trouble != IndexTrouble::Missing {
        return Ok(());
    }
    let query = "select coalesce(i.indrelid::regclass::text, 'no table') \
                 from pg_class c left join pg_index i on i.indexrelid = c.oid \
                 where c.relname = $1 and c.relnamespace = $2::text::regnamespace";
    let (name, schema) = (&index.name, quote_identifier(&table.name().schema));
    let Some(row) = client.query_opt(query, &[name, &schema]).await? else { return Ok(()) };
    let of: String = row.try_get(0)?;
    let what = format!(
        "the index {schema}.{} that {} needs exists, and is of {of}",
        quote_identifier(name),
        table.name(),
    );
    let failure = Failure::of(Case::IndexNameTaken, what);
    Err(failure.naming(Name::Table, table.name()).into())
}
