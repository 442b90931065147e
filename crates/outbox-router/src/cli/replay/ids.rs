//! What `--id` names: rows by the event's id, and, where they are polled and no row has that id, by
//! the primary key.

use relay::TableName;
use tokio_postgres::Client;

use super::{
    args::ReplayArgs,
    chosen::{Named, Unfit, refused},
};
use crate::{
    cli::{TaskError, connect, republication::OutboxRows},
    config::{Config, SourceKind},
    polling::sql::{NamedRows, RowNames},
    postgres::{quote_literal, quote_table},
    republish::selection::{OrderColumn, Query},
};

/// The rows of each id of the command line; `None` where the column of the id alone says whose it
/// is. Not for an open transaction.
pub(super) async fn named(
    client: &Client,
    config: &Config,
    args: &ReplayArgs,
    rows: &OutboxRows,
) -> Result<Result<Option<Named>, Unfit>, TaskError> {
    if args.ids.is_empty() || config.postgres.source == SourceKind::Stream {
        return Ok(Ok(None));
    }
    let id = rows.columns.id.as_ref().ok().map(|id| id.name.as_str());
    let names = RowNames::read(client, &rows.row.table, id).await.map_err(connect::denied)?;
    let table = quote_table(&rows.row.table);
    let mut conditions = Vec::with_capacity(args.ids.len());
    for id in &args.ids {
        match names.find(client, id).await.map_err(connect::denied)? {
            Ok(NamedRows { condition, by_id: None, .. }) => {
                conditions.push(format!("({condition})"));
            }
            // Of a row whose primary key is another event's id nobody has spoken.
            Ok(NamedRows { condition, by_id: Some(by_id), .. }) => conditions.push(format!(
                "({by_id} or (({condition}) and not exists (select from {table} where {by_id})))"
            )),
            Err(why) => return Ok(Err(Unfit(format!("--id {id}: {why}")))),
        }
    }
    Ok(Ok(Some(Named { by: names.words(), conditions })))
}

/// The ids of the command line that no row of the table has.
pub(super) async fn unknown(
    client: &Client,
    args: &ReplayArgs,
    rows: &OutboxRows,
    query: &Query,
    named: Option<&Named>,
) -> Result<Result<Vec<String>, Unfit>, TaskError> {
    let table = &rows.row.table;
    let statement = match (named, &rows.columns.id, args.ids.as_slice()) {
        (Some(named), _, [_, ..]) => without_rows(table, &named.conditions),
        (None, Ok(id), [_, ..]) => without_value(client, args, table, query, id).await?,
        (Some(_) | None, Ok(_) | Err(_), _) => return Ok(Ok(Vec::new())),
    };
    let rows = match client.query(&statement, &[]).await {
        Ok(rows) => rows,
        Err(error) => return refused(error, "--id").map(Err),
    };
    let mut unknown = Vec::new();
    for row in rows {
        let place: i32 = row.try_get(0)?;
        unknown.extend(usize::try_from(place).ok().and_then(|place| args.ids.get(place)).cloned());
    }
    Ok(Ok(unknown))
}

/// The places of the conditions that hold for no row.
fn without_rows(table: &TableName, conditions: &[String]) -> String {
    let table = quote_table(table);
    let one = |(place, condition): (usize, &String)| {
        format!("select {place} as place where not exists (select from {table} where {condition})")
    };
    let each: Vec<String> = conditions.iter().enumerate().map(one).collect();
    format!("{} order by 1", each.join(" union all "))
}

/// The places of the ids that are in no row's column.
async fn without_value(
    client: &Client,
    args: &ReplayArgs,
    table: &TableName,
    query: &Query,
    id: &OrderColumn,
) -> Result<String, TaskError> {
    let value = |(place, text): (usize, &String)| format!("({place}, {})", quote_literal(text));
    let values: Vec<String> = args.ids.iter().enumerate().map(value).collect();
    Ok(format!(
        "select given.place from (values {}) given (place, id) \
         where not exists (select from {} where {} = given.id::{}) order by 1",
        values.join(", "),
        quote_table(table),
        query.column(id),
        id.sql_type.cast_name(client).await?
    ))
}
