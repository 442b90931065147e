//! Which rows the stream has delivered: those that a moment sees and that are pending, but for
//! those that are committed behind the position up to which it has delivered. These are read from a
//! copy of the slot, up to that moment.
//!
//! What commits after the moment is not seen, so it stays pending whatever it is. A run that is
//! interrupted leaves rows pending that are delivered; the slot stays where it is, so the next run
//! finds the same rows and those that came since.

use relay::{
    Code, Failure, Lsn,
    polling::{RequestNumber, RowId, SettleRequest, ShardSet, TableIndex},
    source::Oid,
};
use tokio::time::Instant;
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use super::{COMMAND, Described, Switching, TELL_EVERY};
use crate::{
    cli::{TaskError, Terminal, connect::with_connection, republication::SESSION},
    polling::sql::{
        Database, PolledTable, begin_snapshot,
        switch::{UNDELIVERED, note_undelivered},
    },
    shell::{Endpoint, RowsOf, SlotRows},
};

/// How many rows are noted, and marked, at a time.
const BATCH: usize = 1_000;

/// What became of the delivered rows.
#[derive(Debug, Default)]
pub(super) struct Marked {
    pub(super) rows: u64,
    /// Rows that were not as they were when they were read.
    pub(super) changed_meanwhile: u64,
}

impl Switching<'_> {
    /// Marks them.
    ///
    /// # Errors
    /// The slot or the tables cannot be read, or rows cannot be marked.
    pub(super) async fn mark_delivered(
        &self,
        delivered_until: Lsn,
        terminal: &mut Terminal<'_>,
    ) -> Result<Marked, TaskError> {
        let Described { mut database, tables, .. } = self.described(Uuid::new_v4()).await?;
        let looked_for = self.looked_for(&tables).await?;
        let work = with_connection(self.access, COMMAND, async |reader| {
            reader.batch_execute(SESSION).await?;
            reader.batch_execute(&begin_snapshot(None)).await?;
            // Whatever the snapshot sees was committed before this.
            let end = reader.query_one("select pg_current_wal_insert_lsn()::text", &[]).await?;
            let end: String = end.try_get(0)?;
            let end: Lsn = end.parse().map_err(|_| no_position())?;
            self.switched.touch(self.books).await?;
            reader.batch_execute(UNDELIVERED).await?;
            let rows = self.source()?.slot_rows(looked_for).await?;
            let noted = note(reader, rows, &tables, (delivered_until, end)).await?;
            writeln!(
                terminal.out,
                "slot {}: has {noted} rows that are not delivered",
                self.slot()
            )?;
            let marked = mark(reader, &mut database, &tables, terminal).await?;
            reader.batch_execute("rollback").await?;
            Ok(marked)
        });
        Box::pin(work).await
    }

    /// The tables as rows of the slot name them.
    async fn looked_for(&self, tables: &[PolledTable]) -> Result<Vec<RowsOf>, TaskError> {
        let partitions = "select relid::oid from pg_partition_tree($1::oid::regclass)";
        let mut looked_for = Vec::with_capacity(tables.len());
        for table in tables {
            let mut oids = vec![Oid::from_u32(table.oid())];
            for row in self.books.query(partitions, &[&table.oid()]).await? {
                oids.push(Oid::from_u32(row.try_get(0)?));
            }
            let identity = table.identity_names().into_iter().map(str::to_owned).collect();
            looked_for.push(RowsOf { oids, identity });
        }
        Ok(looked_for)
    }
}

fn no_position() -> Failure {
    Failure::new(Code::Protocol, "the server names no position of its WAL")
}

/// Notes the rows that are committed from the first position on, and before the second.
async fn note(
    reader: &Client,
    mut rows: SlotRows,
    tables: &[PolledTable],
    (from, until): (Lsn, Lsn),
) -> Result<u64, TaskError> {
    let mut noted = 0;
    let mut pending: Vec<Vec<Vec<String>>> = vec![Vec::new(); tables.len()];
    while let Some(row) = rows.next(until).await? {
        if row.commit_at < from {
            continue;
        }
        noted += 1;
        let (Some(ids), Some(table)) = (pending.get_mut(row.table), tables.get(row.table)) else {
            continue;
        };
        ids.push(row.id);
        if ids.len() >= BATCH {
            write(reader, table, ids).await?;
        }
    }
    for (table, ids) in tables.iter().zip(&mut pending) {
        write(reader, table, ids).await?;
    }
    Ok(noted)
}

async fn write(
    reader: &Client,
    table: &PolledTable,
    ids: &mut Vec<Vec<String>>,
) -> Result<(), TaskError> {
    if !ids.is_empty() {
        let statement = note_undelivered(table, ids.iter().map(Vec::as_slice));
        reader.batch_execute(&statement).await?;
        ids.clear();
    }
    Ok(())
}

/// Marks what the reader's transaction sees and has not noted.
async fn mark(
    reader: &Client,
    database: &mut Database<Endpoint>,
    tables: &[PolledTable],
    terminal: &mut Terminal<'_>,
) -> Result<Marked, TaskError> {
    let (mut marked, mut told) = (Marked::default(), Instant::now());
    let fetch = format!("fetch {BATCH} from outbox_router_delivered");
    for (place, table) in tables.iter().enumerate() {
        reader.batch_execute(&table.declare_delivered()).await?;
        loop {
            let published = ids(&reader.simple_query(&fetch).await?)?;
            if published.is_empty() {
                break;
            }
            let asked = u64::try_from(published.len()).unwrap_or(u64::MAX);
            let request = SettleRequest {
                table: TableIndex(place),
                // No worker has any while the table is streamed.
                shards: ShardSet::NONE,
                as_of: RequestNumber::default(),
                published,
                failed: Vec::new(),
                released: Vec::new(),
            };
            reached!(PollingMarking);
            let settled = database.settle(&request).await?;
            let settled = u64::try_from(settled.published).unwrap_or(u64::MAX);
            marked.rows += settled;
            marked.changed_meanwhile += asked.saturating_sub(settled);
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                writeln!(terminal.err, "rows: {} are marked so far", marked.rows)?;
            }
        }
        reader.batch_execute("close outbox_router_delivered").await?;
    }
    Ok(marked)
}

fn ids(answer: &[SimpleQueryMessage]) -> Result<Vec<RowId>, TaskError> {
    let mut ids = Vec::new();
    for message in answer {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let mut columns = Vec::with_capacity(row.len());
        for place in 0..row.len() {
            columns.push(Box::from(row.try_get(place)?.unwrap_or_default()));
        }
        ids.push(RowId(columns.into_boxed_slice()));
    }
    Ok(ids)
}
