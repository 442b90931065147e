//! Rows among the missing ones about whose events somebody has decided: they are held, or were
//! dropped or skipped. A held or dropped event stands for its own row, which has all the columns
//! that the event has. By the id alone, as a skip has it, the event may be that of a former row, in
//! whose place a corrected one was written under its id; only events of the gaps count by it, and a
//! person is asked.

use std::collections::BTreeMap;

use relay::{
    Case, Failure,
    source::{Gap, History},
};
use tokio_postgres::Client;

use super::{
    args::{IdTrust, RecoverArgs, RecoveredRows},
    table::{ComparedTable, DecidedRows, count_of, of_table_or_former_name},
};
use crate::{
    cli::{TaskError, dead_letters::columns},
    config::Config,
    postgres::{content, content_sql, quote_identifier, quote_literal, quote_table},
    republish::selection::Query,
    wording,
};

/// How many events are read at once: each has its whole row.
const CHUNK: usize = 500;

/// Ids and contents of events, by the names of their columns.
type Contents = BTreeMap<Vec<String>, Vec<String>>;

/// Missing rows, divided by whether somebody has decided about their events.
pub(super) struct Divided {
    /// The rows that are to be sent.
    pub(super) to_send: Query,
    /// How many rows are left out.
    pub(super) left_out: u64,
    /// How many have the id of such an event, and are to be sent all the same.
    pub(super) sent: u64,
}

/// Divides the missing rows of a table, and `all` is how many those are.
///
/// # Errors
/// [`Case::RecoverIdAmbiguous`]: rows have the ids of such events, and nothing says that these are
/// theirs; the tables cannot be read; or an event is damaged.
pub(super) async fn divided(
    client: &Client,
    (args, config): (&RecoverArgs, &Config),
    (table, missing, all): (&ComparedTable, &Query, u64),
    (gaps, here): (&[Gap], &History),
) -> Result<Divided, TaskError> {
    let whole = missing.clone();
    let Some(by_id) = table.without_decided(client, config, (missing, gaps), here).await? else {
        return Ok(Divided { to_send: whole, left_out: 0, sent: 0 });
    };
    let none_of = is_of_none(client, config, (table, missing)).await?;
    let and_none_of = |query: &Query| {
        let mut query = query.clone();
        none_of.iter().for_each(|condition| query.and(condition.clone()));
        query
    };
    let (by_content, by_both) = (and_none_of(missing), and_none_of(&by_id));
    let others = count_of(client, &by_content).await?;
    let rest = count_of(client, &by_both).await?;
    let by_id_alone = others.saturating_sub(rest);
    match (table.decided, args.ids, args.selected) {
        (DecidedRows::Sent, ..) => {
            Ok(Divided { to_send: whole, left_out: 0, sent: all.saturating_sub(rest) })
        }
        (DecidedRows::LeftOut, IdTrust::Indexed, RecoveredRows::All) => {
            let left_out = all.saturating_sub(others);
            Ok(Divided { to_send: by_content, left_out, sent: by_id_alone })
        }
        (DecidedRows::LeftOut, IdTrust::Indexed, RecoveredRows::Missing) if by_id_alone > 0 => {
            Err(ambiguous(table, by_id_alone).into())
        }
        (DecidedRows::LeftOut, ..) => {
            Ok(Divided { to_send: by_both, left_out: all.saturating_sub(rest), sent: 0 })
        }
    }
}

fn ambiguous(table: &ComparedTable, rows: u64) -> Failure {
    let rows = wording::count(i64::try_from(rows).unwrap_or(i64::MAX), "missing row");
    let what = format!(
        "{rows} of {} with the id of an event that is held, or was dropped or skipped, and not with \
         its columns, which a skip does not have: they were updated since, or are other rows under \
         the id of a former one",
        table.rows.row.table
    );
    Failure::of(Case::RecoverIdAmbiguous, what)
}

/// Conditions by which none of these rows is the row of such an event.
///
/// # Errors
/// The table cannot be read, or an event is damaged.
async fn is_of_none(
    client: &Client,
    config: &Config,
    (table, rows): (&ComparedTable, &Query),
) -> Result<Vec<String>, TaskError> {
    let Ok(id) = &table.rows.columns.id else { return Ok(Vec::new()) };
    let id = format!("concat({})", rows.column(id));
    let contents = contents(client, config, (table, &rows.aggregate(&id))).await?;
    let name = quote_table(&table.rows.row.table);
    let none_of = contents.iter().map(|(columns, events)| {
        let texts: Vec<String> = columns
            .iter()
            .map(|column| format!("{name}.{}", quote_identifier(column)))
            .map(|column| format!("case when {column} is not null then concat({column}) end"))
            .collect();
        format!(
            "not exists (select from (values {}) of_event (id, content) \
               where of_event.id = {id} and of_event.content = {})",
            events.join(", "),
            content_sql(texts.iter().map(String::as_str))
        )
    });
    Ok(none_of.collect())
}

async fn contents(
    client: &Client,
    config: &Config,
    (table, ids): (&ComparedTable, &str),
) -> Result<Contents, TaskError> {
    let query = format!(
        "select h.event_id, h.messages, h.commit_lsn::text, h.event_index from outbox_router.held h \
         where {} and h.state <> 'delivered' \
           and h.event_id in ({ids}) \
           and (h.commit_lsn, h.event_index) > ($1::text::pg_lsn, $2::int8) \
         order by h.commit_lsn, h.event_index limit {CHUNK}",
        of_table_or_former_name(config, &table.rows)
    );
    let known = |name: &String| table.rows.row.columns.iter().any(|column| column.name == *name);
    let (mut contents, mut place) = (Contents::new(), ("0/0".to_owned(), -1_i64));
    loop {
        let read = client.query(&query, &[&place.0, &place.1]).await?;
        for row in &read {
            let (id, messages): (String, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
            place = (row.try_get(2)?, row.try_get(3)?);
            // A row that did not arrive whole, or has a column that is gone, is known by its id
            // alone.
            let Some(columns) = columns::read(&messages)? else { continue };
            let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
            if !names.iter().all(known) {
                continue;
            }
            let content = content(columns.iter().map(|column| column.value.as_deref()));
            let event = format!("({}, '{content}')", quote_literal(&id));
            contents.entry(names).or_default().push(event);
        }
        if read.len() < CHUNK {
            return Ok(contents);
        }
    }
}
