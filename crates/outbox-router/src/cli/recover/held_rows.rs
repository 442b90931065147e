//! Events from before the gaps that are held, or were dropped, and those of a table by another name,
//! which this one perhaps had. Each stands for its own row, which has all the columns that the event
//! has: the id alone may be that of a corrected row by now, or of another table.

use std::collections::BTreeMap;

use relay::{Lsn, source::Gap};
use tokio_postgres::Client;

use super::table::{ComparedTable, decided_since, of_table_or_former_name};
use crate::{
    cli::{TaskError, dead_letters::columns},
    config::Config,
    postgres::{content, content_sql, quote_identifier, quote_literal, quote_table},
    republish::selection::Query,
};

/// How many events are read at once: each has its whole row.
const CHUNK: usize = 500;

/// Ids and contents of events, by the names of their columns.
type Contents = BTreeMap<Vec<String>, Vec<String>>;

/// Conditions by which none of these rows is the row of such an event.
///
/// # Errors
/// The table cannot be read, or an event is damaged.
pub(super) async fn is_of_none(
    client: &Client,
    config: &Config,
    (table, rows): (&ComparedTable, &Query),
    gaps: &[Gap],
) -> Result<Vec<String>, TaskError> {
    let Ok(id) = &table.rows.columns.id else { return Ok(Vec::new()) };
    let id = format!("concat({})", rows.column(id));
    let contents =
        contents(client, config, (table, &rows.aggregate(&id)), decided_since(gaps)).await?;
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
    since: Lsn,
) -> Result<Contents, TaskError> {
    let query = format!(
        "select h.event_id, h.messages, h.commit_lsn::text, h.event_index from outbox_router.held h \
         where {} and h.state <> 'delivered' \
           and (h.commit_lsn < '{since}' or h.table_name <> {}) and h.event_id in ({ids}) \
           and (h.commit_lsn, h.event_index) > ($1::text::pg_lsn, $2::int8) \
         order by h.commit_lsn, h.event_index limit {CHUNK}",
        of_table_or_former_name(config, &table.rows),
        quote_literal(&table.rows.row.table.to_string())
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
