//! The statements of one transaction, and what a failure of one of them means for its events.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use tokio_postgres::Client;
use uuid::Uuid;

use super::schema::Schema;
use crate::postgres::copy_in;

/// An event that is not written yet: everything but its number.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) id: Uuid,
    pub(super) aggregate: i32,
    pub(super) event_type: &'static str,
    /// A JSON object.
    pub(super) payload: String,
    pub(super) headers: Option<String>,
}

/// A row of the outbox table, numbered.
#[derive(Debug, Clone)]
pub(super) struct NumberedRow {
    draft: Draft,
    aggregate_type: String,
    aggregate_id: String,
    seq: i64,
}

impl NumberedRow {
    /// The same id with another payload: what a second write of an event may carry.
    pub(super) fn rewritten(&self) -> Self {
        let mut other = self.clone();
        other.draft.payload = r#"{"rewritten": true}"#.to_owned();
        other
    }
}

/// How far a transaction has come, which decides what a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CommitState {
    /// No commit was sent: a failure rolls everything back.
    #[default]
    NotSent,
    /// A commit was sent: without a response to it, only the table of committed events shows the
    /// outcome.
    Sent,
}

/// The ids that a transaction has written.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub(super) commit: CommitState,
    pub(super) written: Vec<Uuid>,
    pub(super) rolled_back: Vec<Uuid>,
}

impl Attempt {
    /// The transaction, or what it wrote since its savepoint, is rolled back.
    pub(super) fn roll_back_to(&mut self, kept: usize) {
        self.rolled_back.extend(self.written.drain(kept..));
    }
}

/// Locks the aggregates of the drafts, in one order for all writers to avoid deadlocks, and numbers
/// the events. The locks stay until the transaction ends.
pub(super) async fn number(client: &Client, drafts: &[Draft]) -> anyhow::Result<Vec<NumberedRow>> {
    let mut counts = BTreeMap::<i32, i64>::new();
    for draft in drafts {
        *counts.entry(draft.aggregate).or_default() += 1;
    }
    let mut next = BTreeMap::new();
    for (aggregate, count) in counts {
        let row = client
            .query_one(
                "UPDATE testbed.aggregate SET seq = seq + $2 WHERE n = $1 \
                 RETURNING type, id, seq - $2",
                &[&aggregate, &count],
            )
            .await?;
        next.insert(aggregate, (row.get(0), row.get(1), row.get::<_, i64>(2)));
    }
    drafts
        .iter()
        .map(|draft| {
            let (aggregate_type, aggregate_id, last): &mut (String, String, i64) =
                next.get_mut(&draft.aggregate).context("an aggregate was not locked")?;
            *last += 1;
            Ok(NumberedRow {
                draft: draft.clone(),
                aggregate_type: aggregate_type.clone(),
                aggregate_id: aggregate_id.clone(),
                seq: *last,
            })
        })
        .collect()
}

/// One INSERT statement for all rows.
pub(super) async fn insert(
    client: &Client,
    schema: &Schema,
    rows: &[NumberedRow],
    on_conflict: &str,
) -> anyhow::Result<()> {
    let headers = if schema.columns().headers.is_some() { ", h::jsonb" } else { "" };
    let sql = format!(
        "{} SELECT i::uuid, t, a, e, p::jsonb{headers} FROM unnest($1::text[], $2::text[], \
         $3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY r(i, t, a, e, p, h, n) \
         ORDER BY n {on_conflict}",
        schema.insert_into()
    );
    let ids: Vec<String> = rows.iter().map(|row| row.draft.id.to_string()).collect();
    let types: Vec<&str> = rows.iter().map(|row| row.aggregate_type.as_str()).collect();
    let aggregates: Vec<&str> = rows.iter().map(|row| row.aggregate_id.as_str()).collect();
    let events: Vec<&str> = rows.iter().map(|row| row.draft.event_type).collect();
    let payloads: Vec<&str> = rows.iter().map(|row| row.draft.payload.as_str()).collect();
    let headers: Vec<Option<&str>> = rows.iter().map(|row| row.draft.headers.as_deref()).collect();
    client.execute(&sql, &[&ids, &types, &aggregates, &events, &payloads, &headers]).await?;
    Ok(())
}

/// COPY of all rows.
pub(super) async fn copy(
    client: &Client,
    schema: &Schema,
    rows: &[NumberedRow],
) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for row in rows {
        let id = row.draft.id.to_string();
        let fields = [
            id.as_str(),
            &row.aggregate_type,
            &row.aggregate_id,
            row.draft.event_type,
            &row.draft.payload,
        ];
        let mut text = fields.map(copy_escaped).join("\t");
        if schema.columns().headers.is_some() {
            text.push('\t');
            text.push_str(&row.draft.headers.as_deref().map_or("\\N".to_owned(), copy_escaped));
        }
        text.push('\n');
        lines.push(text);
    }
    let sql = format!("COPY {} ({}) FROM STDIN", schema.table, schema.column_list());
    copy_in(client, &sql, &lines, Duration::ZERO).await
}

/// Escapes the characters that have a meaning in COPY's text format.
fn copy_escaped(field: &str) -> String {
    field.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// Writes rows into the table of committed events, as the database has stored them.
pub(super) async fn note(
    client: &Client,
    schema: &Schema,
    rows: &[NumberedRow],
) -> anyhow::Result<()> {
    let sql = format!(
        "{} SELECT {}, w.seq FROM unnest($1::text[], $2::int8[]) w(id, seq) JOIN {} o \
         ON o.{} = w.id::uuid",
        Schema::insert_into_committed(),
        schema.committed_expressions(),
        schema.table,
        schema.columns().id,
    );
    let ids: Vec<String> = rows.iter().map(|row| row.draft.id.to_string()).collect();
    let numbers: Vec<i64> = rows.iter().map(|row| row.seq).collect();
    client.execute(&sql, &[&ids, &numbers]).await?;
    Ok(())
}

/// Deletes rows from the outbox table.
pub(super) async fn delete(
    client: &Client,
    schema: &Schema,
    rows: &[NumberedRow],
) -> anyhow::Result<()> {
    let sql = format!(
        "DELETE FROM {} WHERE {} = ANY ($1::text[]::uuid[])",
        schema.table,
        schema.columns().id
    );
    let ids: Vec<String> = rows.iter().map(|row| row.draft.id.to_string()).collect();
    client.execute(&sql, &[&ids]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_escapes_backslashes_tabs_and_line_ends() {
        assert_eq!(copy_escaped("a\\n\tb\nc"), "a\\\\n\\tb\\nc");
    }

    #[test]
    fn events_rolled_back_to_a_savepoint_count_as_rolled_back() {
        let [kept, gone] = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let mut attempt = Attempt { written: vec![kept, gone], ..Attempt::default() };
        attempt.roll_back_to(1);
        assert_eq!((attempt.written, attempt.rolled_back), (vec![kept], vec![gone]));
    }
}
