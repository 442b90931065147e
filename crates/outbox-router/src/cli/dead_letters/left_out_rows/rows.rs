//! The rows, as they are read and shown.

use std::io;

use relay::TableName;
use serde_json::{Map, Value, json};
use tokio_postgres::Client;

use super::super::{args::SelectArgs, wording::columns};
use crate::{
    cli::{TaskError, connect, shown_bytes, since},
    republish::left_out::{self, Entry, Selected},
};

/// How many bytes of an error are shown.
const ERROR_MAX: usize = 160;

/// The selected rows; `Err` within says what is wrong with the flags.
pub(super) async fn read(
    client: &Client,
    pipeline: &str,
    args: &SelectArgs,
) -> Result<Result<Vec<Entry>, String>, TaskError> {
    client.batch_execute("set timezone = 'UTC'").await?;
    let since = match &args.since {
        None => None,
        Some(since) => match since::read(client, "--since", since).await? {
            Ok(since) => Some(since),
            Err(message) => return Ok(Err(message)),
        },
    };
    if !left_out::exists(client).await? {
        return Ok(Ok(Vec::new()));
    }
    let ids: Vec<String> = args.named.ids.iter().map(|id| id.text.clone()).collect();
    let codes: Vec<&str> = args.codes.iter().map(|code| code.as_str()).collect();
    let selected = Selected {
        ids: (!ids.is_empty()).then_some(ids),
        codes: (!codes.is_empty()).then_some(codes),
        since,
        table: args.named.table.clone(),
    };
    Ok(Ok(left_out::entries(client, pipeline, &selected).await.map_err(connect::denied)?))
}

/// The table's name, or that it is gone.
pub(super) fn table(entry: &Entry) -> String {
    let gone = || format!("a table that is gone (oid {})", entry.oid);
    entry.table.as_ref().map_or_else(gone, TableName::to_string)
}

/// A line for each, at most `most` of them.
pub(super) fn listed(entries: &[Entry], most: usize, out: &mut dyn io::Write) -> io::Result<()> {
    let line = |entry: &Entry| {
        let Entry { row, rows, at, .. } = entry;
        let error = shown_bytes::text(row.error.as_bytes(), ERROR_MAX);
        let of_id = if *rows == 1 { String::new() } else { format!(" ({rows} rows)") };
        let id = shown_bytes::id(row.id.as_bytes()) + &of_id;
        [table(entry), id, at.clone(), row.code.clone(), error]
    };
    let lines: Vec<_> = entries.iter().take(most).map(line).collect();
    for line in columns(&lines) {
        writeln!(out, "  {line}")?;
    }
    match entries.len().saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

/// For programs.
pub(super) fn json_of(entry: &Entry) -> Map<String, Value> {
    let Entry { table, row, rows, at, run, .. } = entry;
    let mut members = Map::new();
    let of = json!({
        "table": table.as_ref().map(TableName::to_string),
        "id": row.id,
        "rows": rows,
        "code": row.code,
        "error": row.error,
        "left_out_at": at,
        "run": run,
    });
    if let Value::Object(of) = of {
        members.extend(of);
    }
    members
}
