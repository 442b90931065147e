//! Rows that neither the slot nor the tables would give to a worker or to the stream, once the
//! other one of them is done with: a row is known by its key, which may be changed, and a row that
//! is deleted is an event of the slot all the same.

use std::{collections::BTreeMap, io};

use relay::{Case, Failure, delivered::compared::FirstOfGap, handover::switch::SwitchState};
use tokio_postgres::{Client, Row};

use super::{
    COMMAND, Switching,
    delivered::{Keys, Visibility, seen_until},
    older::Events,
};
use crate::{
    cli::{TaskError, connect::with_connection, republication::session},
    polling::sql::{PolledTable, begin_snapshot, switch::UNDELIVERED},
    shell::OfSlot,
};

impl Switching<'_> {
    /// The slot is to be dropped. `unknown`: how many rows it has of other tables. Where it is
    /// refused, a router may stream again, since it alone can deliver them.
    ///
    /// # Errors
    /// A row that the reader has noted is not pending any more, or the slot has one of another
    /// table (P043).
    pub(super) async fn refuse_gone(
        &self,
        reader: &Client,
        tables: &[PolledTable],
        unknown: BTreeMap<String, u64>,
    ) -> Result<(), TaskError> {
        let mut gone = Vec::new();
        for table in tables {
            let row = reader.query_one(&table.undelivered_gone(), &[]).await?;
            gone.extend(some_of(&row, table)?);
        }
        let of_other = |(table, rows)| format!("{rows} of {table}, which is none of the tables");
        gone.extend(unknown.into_iter().map(of_other));
        if gone.is_empty() {
            return Ok(());
        }
        self.switched.set(self.books, SwitchState::Stream).await?;
        let what = format!(
            "the slot {} has rows that no router has delivered, and that are not pending in their \
             tables, or under another key: {}",
            self.slot(),
            gone.join("; ")
        );
        Err(Failure::of(Case::SwitchUnsent, what).into())
    }

    /// Leaves rows pending that may be those of the slot, under another key than it shows.
    ///
    /// # Errors
    /// Nothing says which transactions are earlier than those that the slot has (P043).
    pub(super) async fn leave_rewritten(
        &self,
        reader: &Client,
        (tables, events): (&[PolledTable], &mut [Events]),
        first: Option<FirstOfGap>,
        err: &mut (dyn io::Write + Send),
    ) -> Result<(), TaskError> {
        for (table, events) in tables.iter().zip(events) {
            if !reader.query_one(&table.undelivered_rewritten(), &[]).await?.try_get(0)? {
                continue;
            }
            let name = table.name();
            let Some(first) = first else {
                self.switched.set(self.books, SwitchState::Stream).await?;
                let what = format!(
                    "rows of {name} that no router has delivered were written again since, and it \
                     is not known which others their transactions may have changed"
                );
                return Err(Failure::of(Case::SwitchUnsent, what).into());
            };
            events.before = Some(first);
            writeln!(
                err,
                "note: rows of {name} that the slot has were written again since: rows of \
                 transaction {} and later ones stay pending, and workers send them, also those \
                 that are delivered",
                first.xid().as_u64()
            )?;
        }
        Ok(())
    }

    /// The stream is to begin, and no row is pending that was noted as older than the slot.
    ///
    /// # Errors
    /// A row is pending that the slot does not have (P043).
    pub(super) async fn refuse_unknown(&self, tables: &[PolledTable]) -> Result<(), TaskError> {
        let mut pending = 0;
        for table in tables {
            let rows: i64 =
                self.books.query_one(&table.count_pending("true"), &[]).await?.try_get(0)?;
            pending += rows;
        }
        if pending == 0 {
            return Ok(());
        }
        let looked_for = self.looked_for(tables).await?;
        let work = with_connection(self.access, COMMAND, async |reader| {
            reader.batch_execute(&session()).await?;
            reader.batch_execute(&begin_snapshot(None)).await?;
            let until = seen_until(reader).await?;
            self.switched.touch(self.books).await?;
            reader.batch_execute(UNDELIVERED).await?;
            let mut rows = self.source()?.slot_rows(looked_for).await?;
            let mut keys = Keys::of(tables);
            while let Some(sent) = rows.next(until).await? {
                if let OfSlot::Row(row) = sent {
                    keys.add(reader, row, Visibility::Seen).await?;
                }
            }
            keys.end(reader).await?;
            let mut neither = Vec::new();
            for table in tables {
                let row = reader.query_one(&table.pending_unnoted(), &[]).await?;
                neither.extend(some_of(&row, table)?);
            }
            reader.batch_execute("rollback").await?;
            Ok(neither)
        });
        let neither = Box::pin(work).await?;
        if neither.is_empty() {
            return Ok(());
        }
        let what = format!(
            "pending rows are neither among those that were sent nor in the slot, since their keys \
             were changed, or they were made pending, while rows were divided: {}",
            neither.join("; ")
        );
        Err(Failure::of(Case::SwitchAltered, what).into())
    }
}

/// How many rows a query has found, and some of their keys. `None`: it has found no row.
fn some_of(row: &Row, table: &PolledTable) -> Result<Option<String>, TaskError> {
    let (rows, keys): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let more = if rows > 5 { ", …" } else { "" };
    let some = || format!("{rows} of {} ({}{more})", table.name(), keys.unwrap_or_default());
    Ok((rows > 0).then(some))
}
