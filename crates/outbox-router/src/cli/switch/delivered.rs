//! Which rows the stream has delivered: those that a moment sees and that are pending, but for
//! those that are committed behind the position up to which it has delivered. These are read from a
//! copy of the slot, up to that moment.
//!
//! What commits after the moment is not seen, so it stays pending whatever it is. A run that is
//! interrupted leaves rows pending that are delivered; the slot stays where it is, so the next run
//! finds the same rows and those that came since.

use std::collections::BTreeMap;

use relay::{
    Code, Failure, Lsn,
    delivered::{
        HasEvents, RowAt, RowVersion, SentAgain, SentVersion, StreamEnd, Streamed, StreamedRows,
    },
    polling::{RequestNumber, RowId, SettleRequest, ShardSet, TableIndex},
    source::Oid,
};
use tokio::time::Instant;
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use super::{
    COMMAND, Described, Switching, TELL_EVERY, args::ToPollingArgs, commits::Seen, no_position,
    older::Events, polling::Delivered, unproved,
};
use crate::{
    cli::{TaskError, Terminal, connect::with_connection, republication::session},
    polling::sql::{
        Database, PolledTable, begin_snapshot,
        switch::{UNDELIVERED, Undelivered, note_undelivered},
    },
    shell::{Endpoint, OfSlot, RowOfSlot, RowsOf, SlotRows},
};

/// How many rows are noted, and marked, at a time.
const BATCH: usize = 1_000;

/// What became of the delivered rows.
#[derive(Debug, Default)]
pub(super) struct Marked {
    pub(super) rows: u64,
    /// Rows that stay pending, since they were left out of what was sent, of each table.
    pub(super) left_out: Vec<i64>,
    /// Rows that are in no stream, of each table.
    pub(super) older: Vec<i64>,
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
        args: &ToPollingArgs,
        Delivered { end, since, first }: &Delivered,
        terminal: &mut Terminal<'_>,
    ) -> Result<Marked, TaskError> {
        let Described { mut database, tables, .. } = self.described(Uuid::new_v4()).await?;
        let looked_for = self.looked_for(&tables).await?;
        let work = with_connection(self.access, COMMAND, async |reader| {
            reader.batch_execute(&session()).await?;
            reader.batch_execute(&begin_snapshot(None)).await?;
            // COPY FREEZE into a table that its transaction has truncated writes rows that every
            // snapshot sees: no transaction truncates it from here on, and the slot is read up to
            // here.
            for table in &tables {
                reader.batch_execute(&table.lock_against_truncate()).await?;
            }
            let read_until = seen_until(reader).await?;
            let catalog = self.catalog(Some(end.catalog())).await?;
            self.switched.touch(self.books).await?;
            reader.batch_execute(UNDELIVERED).await?;
            let rows = self.source()?.slot_rows(looked_for).await?;
            let Noted { rows: noted, again, unknown } =
                note(reader, rows, &tables, (end, read_until)).await?;
            let streamed = end.streamed(read_until, &catalog, again).map_err(unproved)?;
            writeln!(
                terminal.out,
                "slot {}: has {noted} rows that are not delivered",
                self.slot()
            )?;
            self.refuse_gone(reader, &tables, unknown).await?;
            let mut events = self.events(reader, &tables, since, args).await?;
            self.leave_rewritten(reader, (&tables, &mut events), *first, terminal.err).await?;
            let of = (&*tables, &*events, streamed);
            let marked = mark(reader, &mut database, of, terminal).await?;
            reader.batch_execute("rollback").await?;
            Ok(marked)
        });
        Box::pin(work).await
    }

    /// The tables as rows of the slot name them.
    pub(super) async fn looked_for(
        &self,
        tables: &[PolledTable],
    ) -> Result<Vec<RowsOf>, TaskError> {
        let partitions = "select relid::oid from pg_partition_tree($1::oid::regclass)";
        let mut looked_for = Vec::with_capacity(tables.len());
        for table in tables {
            let mut oids = vec![Oid::from_u32(table.oid())];
            for row in self.books.query(partitions, &[&table.oid()]).await? {
                oids.push(Oid::from_u32(row.try_get(0)?));
            }
            let identity = table.identity_names().into_iter().map(str::to_owned).collect();
            let filtered_by = table.filtered_by().map(str::to_owned);
            let columns = table.column_names();
            looked_for.push(RowsOf { oids, identity, filtered_by, columns });
        }
        Ok(looked_for)
    }
}

/// Whatever the reader's snapshot sees was committed before this.
pub(super) async fn seen_until(reader: &Client) -> Result<Lsn, TaskError> {
    let end = reader.query_one("select pg_current_wal_insert_lsn()::text", &[]).await?;
    let end: String = end.try_get(0)?;
    Ok(end.parse().map_err(|_| no_position())?)
}

/// What the slot has.
struct Noted {
    /// Rows that are not delivered.
    rows: u64,
    again: SentAgain,
    /// How many more of each table that is not looked for.
    unknown: BTreeMap<String, u64>,
}

/// Notes the rows that are committed behind the end of the stream and before `until`. Those that
/// the reader's snapshot does not see stay pending whatever they are, unless they were frozen as
/// they were written.
async fn note(
    reader: &Client,
    mut rows: SlotRows,
    tables: &[PolledTable],
    (end, until): (&StreamEnd, Lsn),
) -> Result<Noted, TaskError> {
    let seen = Seen::by(reader).await?;
    let (mut noted, mut again, mut covered) = (0, end.sent_again(), HasEvents::No);
    let mut unknown = BTreeMap::new();
    let mut keys = Keys::of(tables);
    while let Some(sent) = rows.next(until).await? {
        let row = match sent {
            OfSlot::Row(row) => row,
            OfSlot::Unknown { table, commit_at } => {
                if commit_at >= end.delivered_until() {
                    *unknown.entry(table).or_default() += 1;
                }
                continue;
            }
            OfSlot::Committed(transaction) => {
                let covered = std::mem::take(&mut covered);
                again.committed(transaction, covered).map_err(unproved)?;
                continue;
            }
        };
        if again.covers(row.relation, row.commit_at) {
            covered = HasEvents::Yes;
        }
        if row.commit_at < end.delivered_until() {
            continue;
        }
        noted += 1;
        let visibility = if seen.sees(row.xid) { Visibility::Seen } else { Visibility::Unseen };
        keys.add(reader, row, visibility).await?;
    }
    keys.end(reader).await?;
    Ok(Noted { rows: noted, again, unknown })
}

/// Whether the reader's snapshot sees a row of the slot. One that it does not see is looked for in
/// no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Seen,
    Unseen,
}

/// The keys of rows of the slot, on their way into the reader's table of undelivered ones.
pub(super) struct Keys<'t> {
    tables: &'t [PolledTable],
    /// Of each table.
    rows: Vec<Vec<Undelivered>>,
}

impl<'t> Keys<'t> {
    pub(super) fn of(tables: &'t [PolledTable]) -> Self {
        Self { tables, rows: tables.iter().map(|_| Vec::new()).collect() }
    }

    /// Notes a row, with others of its table.
    pub(super) async fn add(
        &mut self,
        reader: &Client,
        row: RowOfSlot,
        visibility: Visibility,
    ) -> Result<(), TaskError> {
        let (Some(rows), Some(table)) = (self.rows.get_mut(row.table), self.tables.get(row.table))
        else {
            return Ok(());
        };
        let is_event = visibility == Visibility::Seen && table.takes(row.said.as_deref());
        let RowOfSlot { id, content, xid, .. } = row;
        rows.push(Undelivered { id, is_event, xid: xid.as_u32(), content });
        if rows.len() >= BATCH { write(reader, table, rows).await } else { Ok(()) }
    }

    /// Notes those that are left.
    pub(super) async fn end(mut self, reader: &Client) -> Result<(), TaskError> {
        for (table, rows) in self.tables.iter().zip(&mut self.rows) {
            write(reader, table, rows).await?;
        }
        Ok(())
    }
}

async fn write(
    reader: &Client,
    table: &PolledTable,
    rows: &mut Vec<Undelivered>,
) -> Result<(), TaskError> {
    if !rows.is_empty() {
        reader.batch_execute(&note_undelivered(table, rows)).await?;
        rows.clear();
    }
    Ok(())
}

/// Marks what the reader's transaction sees and has not noted.
async fn mark(
    reader: &Client,
    database: &mut Database<Endpoint>,
    (tables, events, streamed): (&[PolledTable], &[Events], Streamed),
    terminal: &mut Terminal<'_>,
) -> Result<Marked, TaskError> {
    let (mut marked, mut told) = (Marked::default(), Instant::now());
    // It was opened before the reader's snapshot: while it lasts, no commit was lost since.
    let session = database.session();
    let fetch = format!("fetch {BATCH} from outbox_router_delivered");
    for (place, (table, of_table)) in tables.iter().zip(events).enumerate() {
        let Events { older, left_out, .. } = of_table;
        let streamed = of_table.streamed(streamed);
        let is_delivered = of_table.is_delivered(&streamed);
        let left = match left_out {
            Some(left_out) => {
                reader.query_one(&table.count_pending(left_out), &[]).await?.try_get(0)?
            }
            None => 0,
        };
        marked.left_out.push(left);
        marked.older.push(*older);
        reader.batch_execute(&table.declare_delivered(&is_delivered, left_out.as_deref())).await?;
        loop {
            let published = rows(&reader.simple_query(&fetch).await?, &streamed)?;
            if published.is_empty() {
                break;
            }
            let asked = u64::try_from(published.len()).unwrap_or(u64::MAX);
            let request = SettleRequest {
                session,
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

fn rows(
    answer: &[SimpleQueryMessage],
    streamed: &StreamedRows,
) -> Result<Vec<SentVersion>, TaskError> {
    let mut rows = Vec::new();
    for message in answer {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let mut columns = Vec::with_capacity(row.len());
        for place in 0..row.len() {
            columns.push(Box::from(row.try_get(place)?.unwrap_or_default()));
        }
        let xmin = columns.pop().and_then(|xmin: Box<str>| xmin.parse().ok());
        let version = RowVersion::of_xmin(xmin.ok_or_else(no_version)?);
        rows.push(streamed.row(RowAt { id: RowId(columns.into_boxed_slice()), version }));
    }
    Ok(rows)
}

fn no_version() -> Failure {
    Failure::new(Code::Protocol, "the server names no version of a row")
}
