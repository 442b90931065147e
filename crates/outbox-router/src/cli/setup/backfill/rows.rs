//! The rows of each table, and how they are sent.

use relay::{RepublishSettings, handover::backfill::Reached, witness::ProducedTo};
use serde_json::Value;
use tokio_postgres::Client;

use super::work::Backfill;
use crate::{
    cli::{
        Form, TaskError, Terminal,
        explain_row::check_privilege,
        republication::{OutboxRows, Republication, place},
    },
    kafka::StoredOffsets,
    prepare,
    republish::{destination::Cluster, journal::Run, selection::Query, sender::Ended},
};

/// What is sent, and in which transaction it is read.
pub(super) struct Sending<'s> {
    pub(super) backfill: &'s Backfill<'s>,
    /// In a transaction with the snapshot of the slot.
    pub(super) reader: &'s Client,
    pub(super) run: &'s Run<'s>,
    pub(super) reached: &'s Reached,
}

/// What this process and earlier ones have done.
pub(super) struct Done {
    /// So many rows are settled.
    pub(super) settled: i64,
    /// The topics that records went to.
    pub(super) topics: ProducedTo,
    /// Where this process's records are.
    pub(super) stored: StoredOffsets,
}

/// The oldest transaction that was open when the snapshot of this session was taken.
pub(super) async fn snapshot_xmin(reader: &Client) -> Result<u64, TaskError> {
    let query = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
    let xmin: i64 = reader.query_one(query, &[]).await?.try_get(0)?;
    Ok(xmin.unsigned_abs())
}

impl Backfill<'_> {
    /// Reads the columns of the tables.
    pub(super) async fn describe(&self, reader: &Client) -> Result<Vec<OutboxRows>, TaskError> {
        let mut tables = Vec::with_capacity(self.tables.len());
        for table in self.tables {
            let rows = OutboxRows::describe(reader, self.config, table).await?;
            check_privilege(reader, &rows.row).await?;
            tables.push(rows);
        }
        Ok(tables)
    }
}

impl Sending<'_> {
    /// Sends the rows of all tables, after what was done before.
    pub(super) async fn send(
        &self,
        tables: &[OutboxRows],
        done: &mut Done,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let begun = tables.iter().position(|rows| {
            self.reached.table.as_deref() == Some(rows.row.table.to_string().as_str())
        });
        for (place, rows) in tables.iter().enumerate() {
            let progress = match begun {
                Some(begun) if place < begun => Progress::Complete,
                Some(begun) if place == begun => Progress::Begun,
                Some(_) | None => Progress::None,
            };
            for part in self.parts(rows, progress) {
                let ended = self.part(rows, &part, done, terminal).await?;
                if !matches!(ended, Ended::Complete) {
                    return Ok(ended);
                }
            }
        }
        Ok(Ended::Complete)
    }

    /// The rows of a table, in the parts in which they are sent.
    fn parts(&self, rows: &OutboxRows, progress: Progress) -> Vec<Part> {
        let mut all = rows.all();
        if let Some(condition) = &self.backfill.args.backfill.condition {
            all.and(condition.clone());
        }
        let since = come_since(rows.row.oid, self.reached.first_xmin);
        let behind = match progress {
            Progress::Complete => {
                all.and(since);
                return vec![Part { query: all, is_noted: false }];
            }
            Progress::None => None,
            Progress::Begun => self.reached.order.as_ref().and_then(|order| all.from(order)),
        };
        let Some(behind) = behind else { return vec![Part { query: all, is_noted: true }] };
        let mut late = all.clone();
        late.and(format!("not ({behind})"));
        late.and(since);
        all.and(behind);
        vec![Part { query: late, is_noted: false }, Part { query: all, is_noted: true }]
    }

    async fn part(
        &self,
        rows: &OutboxRows,
        part: &Part,
        done: &mut Done,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let Backfill { args, config, .. } = *self.backfill;
        let reader = self.reader;
        let row = reader.query_one(&part.query.count(), &[]).await?;
        let total = row.try_get::<_, i64>(0)?.unsigned_abs();
        let table = rows.row.table.to_string();
        if total == 0 {
            if part.is_noted {
                writeln!(terminal.out, "back-fill: {table} has no such row")?;
            }
            return Ok(Ended::Complete);
        }
        let what = if part.is_noted { "" } else { " written meanwhile" };
        let rows_of = if total == 1 { "row of" } else { "rows of" };
        writeln!(terminal.out, "back-fill: {total} {rows_of} {table}{what}")?;
        let republication = Republication {
            config,
            reader,
            rows,
            query: &part.query,
            total,
            bad_rows: args.backfill.bad.keeping(rows.columns.id.as_ref()),
            rate: args.backfill.rate,
            different: RepublishSettings::default(),
            // There is none before all rows were sent.
            records: None,
        };
        let frame = self.reached.frame(&table, &done.topics);
        if part.is_noted && self.reached.table.as_ref() != Some(&table) {
            // From here on, some of its rows may be in Kafka.
            self.run.note(&Value::Object(frame.clone())).await?;
        }
        let run = part.is_noted.then(|| self.run.in_frame(done.settled, frame));
        let cluster = Cluster::open(&prepare::kafka_settings(config))?;
        let place = place(terminal.audience, Form::Text);
        let sent = republication.send(cluster, run, (terminal.err, place)).await?;
        self.run.note_left_out(rows.row.oid, &sent.kept).await?;
        let settled = sent.counts.rows.saturating_sub(sent.counts.in_flight);
        done.settled = done.settled.saturating_add_unsigned(settled);
        if let Err(failure) = done.stored.follow(sent.stored) {
            return Ok(Ended::Failed(Box::new(failure)));
        }
        for (topic, uuid) in sent.produced_to {
            // The first id counts: records went to that topic.
            done.topics.entry(topic).or_insert(uuid);
        }
        for (topic, records) in &sent.topics {
            writeln!(terminal.out, "  {topic}: {records} records")?;
        }
        Ok(sent.ended)
    }
}

/// The condition that a row may have been written since the first snapshot, or that its partition
/// may have been attached since. Partitions are those of the present, and this transaction's
/// snapshot need not show that one of them is attached: it has then come since, too. Transaction
/// ids of rows have 32 bits, so their age is compared; a row so old that its id was used again
/// looks younger. Where half of all ids were given since the first snapshot, a row that came since
/// may look older, so every row counts.
fn come_since(table: u32, first: u64) -> String {
    let low = first & u64::from(u32::MAX);
    let is_since = |xmin: &str| format!("age({xmin}) between 0 and age('{low}'::xid)");
    let (written, attached) = (is_since("xmin"), is_since("i.xmin"));
    format!(
        "(pg_snapshot_xmax(pg_current_snapshot())::text::bigint - {first} >= {IDS_COMPARED} \
         or {written} or tableoid not in ( \
           with recursive old (oid) as ( \
             select {table}::oid \
             union all \
             select i.inhrelid \
             from old join pg_inherits i on i.inhparent = old.oid where not {attached}) \
           select oid from old))"
    )
}

/// Ids of rows that are further apart have no order.
const IDS_COMPARED: u64 = 1 << 31;

/// How far the rows of a table were sent by earlier processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    None,
    Begun,
    Complete,
}

/// Rows that are sent in one go.
struct Part {
    query: Query,
    /// Whether the run's place moves with them.
    is_noted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_too_far_apart_are_not_compared() {
        let since = come_since(77, 5_000_000_000);
        let is_far = "(pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 5000000000 >= \
                      2147483648 or age(xmin) between 0 and age('705032704'::xid) or ";
        assert!(since.starts_with(is_far), "{since}");
    }
}
