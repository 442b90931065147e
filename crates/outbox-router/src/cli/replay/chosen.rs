//! Which rows a command line selects.

use relay::TableName;
use serde_json::json;
use tokio_postgres::{Client, error::SqlState};

use super::args::{Marker, ReplayArgs};
use crate::{
    cli::{TaskError, dead_letters::Since, republication::OutboxRows, since},
    postgres::sql_failure,
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

/// The rows of polled tables that ids name.
pub(super) struct Named {
    /// The columns that are compared with them, in words.
    pub(super) by: String,
    /// That a row is named so, for each id of the command line.
    pub(super) conditions: Vec<String>,
}

/// A command line that does not fit the table, for people.
pub(super) struct Unfit(pub(super) String);

/// The rows that `args` names; `named`: those of its ids, where rows are polled.
pub(super) async fn choose(
    client: &Client,
    args: &ReplayArgs,
    rows: &OutboxRows,
    named: Option<&Named>,
) -> Result<Result<Chosen, Unfit>, TaskError> {
    let (columns, table) = (&rows.columns, &rows.row.table);
    let mut query = rows.all();
    let mut shown = Vec::new();
    if let Some(Named { by, conditions }) = named {
        query.and(conditions.join(" or "));
        shown.push(shown_texts("id", by, &args.ids));
    }
    if let Err(unfit) = by_texts((args, named), columns, &mut query, &mut shown) {
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
    let canonical = canonical(args, table, &OutboxRows::read_as([rows]));
    Ok(Ok(Chosen { canonical, shown, query }))
}

fn by_texts(
    (args, named): (&ReplayArgs, Option<&Named>),
    columns: &Columns,
    query: &mut Query,
    shown: &mut Vec<String>,
) -> Result<(), Unfit> {
    let ids = if named.is_some() { &[][..] } else { args.ids.as_slice() };
    let keys = args.keys.as_slice();
    for (flag, column, texts) in [("id", &columns.id, ids), ("key", &columns.key, keys)] {
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
        shown.push(shown_texts(flag, &column.name, texts));
    }
    Ok(())
}

fn shown_texts(flag: &str, column: &str, texts: &[String]) -> String {
    match texts {
        [text] => format!("{flag}: {column} = {text}"),
        several => format!("{flag}: {} values of {column}", several.len()),
    }
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

fn canonical(args: &ReplayArgs, table: &TableName, read_as: &str) -> String {
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
        "read_as": read_as,
    })
    .to_string()
}
