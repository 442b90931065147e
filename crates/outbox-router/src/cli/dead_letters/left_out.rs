//! Why an event that was selected is not decided about: somebody has decided, it is held behind a
//! dead letter, or there is none of its id.

use std::io;

use serde_json::{Value, json};
use tokio_postgres::Row;

use super::{
    args::EventRef,
    selection::{MATCHES, Selection},
    table::{EVENT, Event, IN_ORDER, OF_PIPELINE, Table, UNDECIDED, event},
};
use crate::{
    cli::{TaskError, shown_bytes},
    postgres::utc,
};

/// How many of them are read, and shown one by one.
const SHOWN_MAX: i64 = 20;

/// How many bytes of an id are shown.
const ID_MAX: usize = 80;

/// A selected event about which nothing is left to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    event: Event,
    /// The last decision about it: what, by whom, and when.
    decision: Option<String>,
}

/// What is left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    settled: Vec<Settled>,
    /// Ids of which there is no event.
    unknown: Vec<String>,
    /// The table in which they were looked for, if not in all.
    table: Option<String>,
}

impl LeftOut {
    /// Of the ids that a person named, those that are none of the dead letters to decide about;
    /// without ids, what else is selected where there is no such dead letter at all.
    pub(super) async fn read(
        ids: &[EventRef],
        selection: &Selection,
        undecided: &[Event],
        table: &Table<'_>,
    ) -> Result<Self, TaskError> {
        if ids.is_empty() {
            let settled =
                if undecided.is_empty() { table.settled(selection).await? } else { Vec::new() };
            return Ok(Self { settled, ..Self::default() });
        }
        let is_undecided = |id: &EventRef| undecided.iter().any(|event| event.is_named(id));
        let left: Vec<EventRef> = ids.iter().filter(|id| !is_undecided(id)).cloned().collect();
        if left.is_empty() {
            return Ok(Self::default());
        }
        let settled = table.settled(&selection.only_ids(&left)).await?;
        let is_settled = |id: &&EventRef| settled.iter().any(|one| one.event.is_named(id));
        let unknown = left.iter().filter(|id| !is_settled(id)).map(|id| id.text.clone()).collect();
        Ok(Self { settled, unknown, table: selection.table().map(str::to_owned) })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.unknown.is_empty()
    }

    /// A line for each.
    pub(super) fn text(&self, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        for Settled { event, decision } in &self.settled {
            let decision = decision.as_ref().map(|decision| format!(" ({decision})"));
            let (named, state) = (event.named(), event.state());
            writeln!(out, "  {named} is {state}{}", decision.unwrap_or_default())?;
        }
        let of = self.table.as_ref().map(|table| format!(" and of {table}")).unwrap_or_default();
        for id in &self.unknown {
            let id = shown_bytes::text(id.as_bytes(), ID_MAX);
            writeln!(out, "  {id} is no event of this pipeline{of} that is or was held")?;
        }
        Ok(())
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let settled = self.settled.iter().map(|Settled { event, decision }| {
            let mut members = event.json();
            members.insert("decision".to_owned(), json!(decision));
            Value::from(members)
        });
        let unknown = self.unknown.iter().map(|id| json!({ "id": id, "state": null }));
        settled.chain(unknown).collect()
    }
}

impl Table<'_> {
    /// Selected events about which nothing is left to decide, each with the last decision.
    async fn settled(&self, selection: &Selection) -> Result<Vec<Settled>, TaskError> {
        let query = format!(
            "select {EVENT}, (select action || ' by ' || decided_by || ' at ' || {} \
               from outbox_router.decision d \
               where (d.pipeline, d.slot) = ($1, $2) and d.commit_lsn = held.commit_lsn \
               and d.event_index = held.event_index order by d.id desc limit 1) \
             from outbox_router.held \
             where {OF_PIPELINE} and ({UNDECIDED}) is not true and {MATCHES} \
             {IN_ORDER} limit {SHOWN_MAX}",
            utc!("d.decided_at"),
        );
        let settled = |row: &Row| Ok(Settled { event: event(row)?, decision: row.try_get(8)? });
        self.query(&query, &self.with(selection)).await?.iter().map(settled).collect()
    }
}
