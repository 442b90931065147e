//! Sends rows that were left out, as `replay --id` does, and without its marker: no record of them
//! is in a topic.

use std::collections::BTreeSet;

use relay::{Code, RepublishSettings};
use tokio_postgres::Client;

use super::work::{Outcome, Work};
use crate::{
    cli::{
        TaskError, Terminal,
        connect::{denied, with_connection},
        republication::{BEGIN, HeldEvents, OutboxRows, Republication, Sent, place, session},
        witness::Records,
    },
    prepare,
    republish::{
        destination::Cluster,
        journal::Completeness,
        left_out::{Entry, LeftOut},
        selection::{OrderColumn, Query, is_one_of},
        sender::{BadRows, Ended},
    },
};

type Row = (Entry, Option<Outcome>);

/// Sends rows of one table. A row that PostgreSQL cannot print ends the reading of all, so those
/// before and behind it are sent apart.
pub(super) async fn requeue(
    work: &mut Work<'_>,
    rows: &mut [Row],
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    let mut parts = vec![rows];
    while let Some(part) = parts.pop() {
        send(work, part, terminal).await?;
        let unreadable = work.failure.take_if(|failure| failure.code == Code::ServerError);
        match (unreadable, part) {
            (None, _) if work.failure.is_some() => break,
            (None, _) => {}
            (Some(failure), [(entry, became)]) => {
                let (code, error) = (failure.code.to_string(), failure.message_with_causes());
                entry.row = LeftOut { code, error, ..entry.row.clone() };
                *became = Some(Outcome::LeftOut);
            }
            (Some(_), part) => {
                let (first, second) = part.split_at_mut(part.len() / 2);
                parts.extend([second, first]);
            }
        }
    }
    Ok(())
}

async fn send(
    work: &mut Work<'_>,
    rows: &mut [Row],
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    let first = rows.first().map(|(entry, _)| entry.clone());
    let Some((Entry { oid, root, .. }, name)) =
        first.and_then(|entry| Some((entry.clone(), entry.table?)))
    else {
        rows.iter_mut().for_each(|(_, became)| *became = Some(Outcome::WithoutRow));
        return Ok(());
    };
    let sent = with_connection(work.access, "dead-letters", async |reader| {
        reader.batch_execute(&session()).await?;
        let table = OutboxRows::describe(reader, work.config, &name).await?;
        let Ok(id) = &table.columns.id else {
            rows.iter_mut().for_each(|(_, became)| *became = Some(Outcome::WithoutId));
            return Ok(());
        };
        reader.batch_execute(BEGIN).await?;
        if table.row.oid != root {
            rows.iter_mut().for_each(|(_, became)| *became = Some(Outcome::WithoutRow));
            return Ok(());
        }
        let query = select(work, reader, (&table, id), rows).await?;
        if rows.iter().all(|(_, became)| became.is_some()) {
            return Ok(());
        }
        let total = reader.query_one(&query.count(), &[]).await?.try_get::<_, i64>(0)?;
        let records = Records::of(work.config, work.access)?;
        let republication = Republication {
            config: work.config,
            reader,
            rows: &table,
            query: &query,
            total: total.unsigned_abs(),
            bad_rows: BadRows::KeepFiltered(id.place),
            rate: None,
            // The records are those that the stream would have sent.
            different: RepublishSettings::default(),
            records: records.as_ref(),
        };
        let cluster = Cluster::open(&prepare::kafka_settings(work.config))?;
        let run = work.begin(rows).await?;
        let place = place(terminal.audience, work.args.decision.form);
        let sent = republication.send(cluster, None, (terminal.err, place)).await?;
        note(&sent, rows);
        let filtered = Code::TableUnconfigured.as_str();
        work.filtered += sent.kept.iter().filter(|row| row.code == filtered).count();
        let completeness = match sent.ended {
            Ended::Complete => Completeness::Complete,
            Ended::Interrupted | Ended::AtRow(_) | Ended::Failed(_) => Completeness::GivenUp,
        };
        run.note_left_out(oid, &sent.kept).await?;
        work.end(&run, rows, (&sent.outcome(), completeness)).await.map_err(denied)?;
        work.failure = match sent.ended {
            Ended::AtRow(failure) | Ended::Failed(failure) => Some(*failure),
            Ended::Complete | Ended::Interrupted => None,
        };
        Ok(())
    });
    Box::pin(sent).await
}

/// The rows to send; what becomes of the others is noted.
async fn select(
    work: &Work<'_>,
    reader: &Client,
    (table, id): (&OutboxRows, &OrderColumn),
    rows: &mut [Row],
) -> Result<Query, TaskError> {
    // By another column, the id may be that of another row.
    let is_by_id = |entry: &Entry| entry.row.column.as_deref() == Some(id.name.as_str());
    let by_id = rows.iter().filter(|(entry, _)| is_by_id(entry));
    let ids: Vec<String> = by_id.map(|(entry, _)| entry.row.id.clone()).collect();
    let mut query = table.all();
    if ids.is_empty() {
        rows.iter_mut().for_each(|(_, became)| *became = Some(Outcome::WithoutId));
        return Ok(query);
    }
    query.and(is_one_of(&query.column(id), &ids));
    let present = ids_of(reader, &query, id).await?;
    let (pipeline, slot) = (work.config.name.as_str(), work.config.postgres.slot.as_str());
    let held = HeldEvents { pipeline, slot, table: &table.row.table };
    if held.count(reader).await? > 0 {
        query.and(held.none_of(&query, id));
    }
    let free = ids_of(reader, &query, id).await?;
    for (entry, became) in rows {
        *became = match (present.contains(&entry.row.id), free.contains(&entry.row.id)) {
            _ if !is_by_id(entry) => Some(Outcome::WithoutId),
            (false, _) => Some(Outcome::WithoutRow),
            (true, false) => Some(Outcome::Held),
            (true, true) => None,
        };
    }
    Ok(query)
}

async fn ids_of(
    reader: &Client,
    query: &Query,
    id: &OrderColumn,
) -> Result<BTreeSet<String>, TaskError> {
    let ids = query.aggregate(&format!("distinct concat({})", query.column(id)));
    reader.query(&ids, &[]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Notes the outcomes of a run. One that did not come to its end says of no row that it was
/// acknowledged: they are sent again.
fn note(sent: &Sent, rows: &mut [Row]) {
    let of = |id: &str| sent.kept.iter().find(|kept| kept.id == id);
    for (entry, became) in rows.iter_mut().filter(|(_, became)| became.is_none()) {
        if let Some(kept) = of(&entry.row.id) {
            entry.row = kept.clone();
            *became = Some(Outcome::LeftOut);
        } else if matches!(sent.ended, Ended::Complete) {
            *became = Some(Outcome::Sent);
        }
    }
}
