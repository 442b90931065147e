//! `dead-letters list`: a line for each row that is given up, or waits for another attempt.

use std::io;

use serde_json::{Value, json};

use super::{
    super::{
        args::{Lines, ListArgs, Rows as Asked},
        wording::columns,
    },
    selection::{Rows, read, select, with_tables},
};
use crate::{
    cli::{Exit, Form, TaskError, Terminal, connect::Access},
    config::Config,
    polling::sql::{Stuck, StuckFilter},
    wording::count,
};

/// Lists. Exit code 1 where a row that is given up waits for a decision.
pub(super) async fn list(
    args: &ListArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let which = match args.rows {
        Asked::Abandoned => Stuck::Abandoned,
        Asked::Waiting => Stuck::Waiting,
    };
    let found = with_tables(config, access, async |client, tables| {
        let filter = match select(&args.select, client).await? {
            Ok(filter) => StuckFilter { limit: args.limit, ..filter },
            Err(message) => return Ok(Err(message)),
        };
        Ok(Ok(read(client, tables, which, &filter).await?))
    })
    .await?;
    let rows = match found {
        Ok(rows) => rows,
        Err(message) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(Exit::Usage);
        }
    };
    match (args.form, args.lines) {
        (Form::Text, _) => text(&rows, which, terminal.out)?,
        (Form::Json, Lines::Key) => {
            writeln!(terminal.out, "{:#}", document(&rows, which, config))?;
        }
        (Form::Json, Lines::Event) => {
            for row in &rows.found {
                writeln!(terminal.out, "{}", Value::from(row.json()))?;
            }
        }
    }
    let is_found = which == Stuck::Abandoned && !rows.found.is_empty();
    Ok(if is_found { Exit::Failure } else { Exit::Done })
}

fn text(rows: &Rows, which: Stuck, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    let is = match which {
        Stuck::Abandoned => "given up",
        Stuck::Waiting => "waiting for another attempt",
    };
    if rows.found.is_empty() {
        writeln!(out, "no row is {is}")?;
    } else {
        let head = ["table", "id", "key", "attempts", "behind", "since", "last error"];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(rows.found.iter().map(|found| {
            [
                found.table.to_string(),
                found.id(),
                found.key(),
                found.attempts(),
                found.row.behind.to_string(),
                found.when(which),
                found.error(),
            ]
        }));
        for line in columns(&lines) {
            writeln!(out, "{line}")?;
        }
        let number = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
        let behind = i64::try_from(rows.behind()).unwrap_or(i64::MAX);
        writeln!(
            out,
            "\n{} {is}, {} of their keys behind them",
            count(number(rows.found.len()), "row"),
            count(behind, "row")
        )?;
        if rows.is_cut {
            writeln!(out, "there are more; --limit says how many are listed")?;
        }
        if let (Stuck::Abandoned, Some(first)) = (which, rows.found.first()) {
            writeln!(out, "next: outbox-router dead-letters show --id {}", first.named())?;
        }
    }
    for table in &rows.without {
        let column = match which {
            Stuck::Abandoned => "abandoned_at timestamptz, or a status with a word for it",
            Stuck::Waiting => "available_at timestamptz and attempts integer",
        };
        writeln!(out, "{table} cannot record such a row: it has no column {column}")?;
    }
    Ok(())
}

fn document(rows: &Rows, which: Stuck, config: &Config) -> Value {
    json!({
        "name": config.name,
        "source": config.postgres.source.as_str(),
        "waiting": which == Stuck::Waiting,
        "rows": rows.found.iter().map(|row| Value::from(row.json())).collect::<Vec<_>>(),
        "rows_behind": rows.behind(),
        "cut": rows.is_cut,
        "without": rows.without.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
