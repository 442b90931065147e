//! Which rows a command line selects.

use relay::TableName;
use serde_json::json;
use tokio_postgres::{Client, error::SqlState};

use super::args::{Marker, ReplayArgs};
use crate::{
    cli::{TaskError, dead_letters::Since, republication::OutboxRows, since},
    postgres::{quote_literal, quote_table, sql_failure},
    republish::selection::{Columns, OrderColumn, Query, is_one_of, time_literal},
};

/// The rows, and what is said about them.
pub(super) struct Chosen {
    pub(super) query: Query,
    /// Which rows go where, in one form for the same rows.
    pub(super) canonical: String,
    /// For people: a line for each condition.
    pub(super) shown: Vec<String>,
}

/// A command line that does not fit the table, for people.
pub(super) struct Unfit(pub(super) String);

/// The rows that `args` names.
pub(super) async fn choose(
    client: &Client,
    args: &ReplayArgs,
    rows: &OutboxRows,
) -> Result<Result<Chosen, Unfit>, TaskError> {
    let (columns, table) = (&rows.columns, &rows.row.table);
    let mut query = rows.all();
    let mut shown = Vec::new();
    if let Err(unfit) = by_texts(args, columns, &mut query, &mut shown) {
        return Ok(Err(unfit));
    }
    let bounds = [("since", ">=", args.since.as_ref()), ("until", "<", args.until.as_ref())];
    for (flag, comparison, time) in bounds {
        let Some(time) = time else { continue };
        let column = match time_column(columns, table, flag) {
            Ok(column) => column,
            Err(unfit) => return Ok(Err(unfit)),
        };
        let at = match since::read(client, &format!("--{flag}"), time).await? {
            Ok(at) => at,
            Err(why) => return Ok(Err(Unfit(why))),
        };
        let name = query.column(column);
        query.and(format!("{name} {comparison} {}", time_literal(column, &at)));
        shown.push(format!("{flag}: {} {comparison} {at}", column.name));
    }
    if let Some(condition) = &args.condition {
        query.and(condition.clone());
        shown.push(format!("where: {condition}"));
    }
    let order: Vec<&str> = query.order.iter().map(|column| column.name.as_str()).collect();
    let canonical = canonical(args, table, &order);
    Ok(Ok(Chosen { canonical, shown, query }))
}

fn by_texts(
    args: &ReplayArgs,
    columns: &Columns,
    query: &mut Query,
    shown: &mut Vec<String>,
) -> Result<(), Unfit> {
    for (flag, column, texts) in [("id", &columns.id, &args.ids), ("key", &columns.key, &args.keys)]
    {
        if texts.is_empty() {
            continue;
        }
        let column = column.as_ref().map_err(|template| {
            let what = format!(
                "--{flag}: the {flag} of this table's records is the text {template}, and no \
                 column; use --where with its columns"
            );
            Unfit(what)
        })?;
        query.and(is_one_of(&query.column(column), texts));
        shown.push(match texts.as_slice() {
            [text] => format!("{flag}: {} = {text}", column.name),
            several => format!("{flag}: {} values of {}", several.len(), column.name),
        });
    }
    Ok(())
}

fn time_column<'c>(
    columns: &'c Columns,
    table: &TableName,
    flag: &str,
) -> Result<&'c OrderColumn, Unfit> {
    match &columns.time {
        Some(column) if column.is_time() => Ok(column),
        Some(column) => Err(Unfit(format!(
            "--{flag}: column {} of {table} has no type of time; use --where",
            column.name
        ))),
        None => Err(Unfit(format!(
            "--{flag}: {table} has no column that says when a row was made; name it as \
             columns.timestamp, or use --where"
        ))),
    }
}

/// A statement that the server refused because of what a person has typed, in the server's words.
///
/// # Errors
/// It was refused for another reason.
pub(super) fn refused(error: tokio_postgres::Error, what: &str) -> Result<Unfit, TaskError> {
    let Some(server) = error.as_db_error() else { return Err(error.into()) };
    // "Syntax Error or Access Rule Violation", "Data Exception", "Cardinality Violation", and a
    // WHERE that writes.
    let state = server.code();
    let is_typed = ["42", "22", "21", "25", "0A"].iter().any(|of| state.code().starts_with(of));
    if !is_typed || *state == SqlState::INSUFFICIENT_PRIVILEGE {
        return Err(sql_failure(error).into());
    }
    let more = [server.detail(), server.hint()].into_iter().flatten();
    let more: String = more.map(|text| format!("; {text}")).collect();
    Ok(Unfit(format!("{what}: PostgreSQL says: {}{more}", server.message())))
}

fn canonical(args: &ReplayArgs, table: &TableName, order: &[&str]) -> String {
    let sorted = |texts: &[String]| {
        let mut texts = texts.to_vec();
        texts.sort();
        texts.dedup();
        texts
    };
    let time = |time: &Option<Since>| {
        time.as_ref().map(|time| match time {
            Since::Ago(ago) => format!("{} s ago", ago.as_secs_f64()),
            Since::Time(time) => time.trim().to_owned(),
        })
    };
    json!({
        "table": table.to_string(),
        "ids": sorted(&args.ids),
        "keys": sorted(&args.keys),
        "since": time(&args.since),
        "until": time(&args.until),
        "where": args.condition.as_deref().map(str::trim),
        "to_topic": args.to_topic.as_ref().map(relay::TopicName::as_str),
        "marker": args.marker == Marker::Write,
        "order": order,
    })
    .to_string()
}

/// The ids of the command line that no row of the table has.
pub(super) async fn unknown_ids(
    client: &Client,
    args: &ReplayArgs,
    table: &TableName,
    query: &Query,
    id: &OrderColumn,
) -> Result<Result<Vec<String>, Unfit>, TaskError> {
    let values: Vec<String> = args
        .ids
        .iter()
        .enumerate()
        .map(|(place, text)| format!("({place}, {})", quote_literal(text)))
        .collect();
    let column = query.column(id);
    let statement = format!(
        "select given.place from (values {}) given (place, id) \
         where not exists (select from {} where {column} = \
           given.id::{}) order by 1",
        values.join(", "),
        quote_table(table),
        id.sql_type.cast_name(client).await?
    );
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
