//! `dead-letters list`: a line for each row that is abandoned, or waits for another attempt.

use std::io;

use serde_json::{Value, json};

use super::{
    super::{
        args::{Lines, ListArgs, Rows as Asked},
        wording::columns,
    },
    row::Naming,
    selection::{Rows, read, select},
    tables::with_tables,
};
use crate::{
    cli::{
        Exit, Form, TaskError, Terminal,
        connect::Access,
        polled_tables::{Failed, Tables},
    },
    config::Config,
    polling::sql::{Stuck, StuckFilter},
    wording::count,
};

/// Lists. Exit code 1 where an abandoned row waits for a decision, or a table cannot be read.
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
    let table = args.select.named.table.as_ref();
    let found = with_tables(table, config, access, async |client, mut tables| {
        let filter = match select(&args.select, client).await? {
            Ok(filter) => StuckFilter { limit: args.limit, ..filter },
            Err(message) => return Ok(Err(message)),
        };
        let rows = read(client, &mut tables, which, &filter).await?;
        Ok(Ok((rows, tables)))
    })
    .await?;
    let (rows, tables) = match found {
        Ok(found) => found,
        Err(message) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(Exit::Usage);
        }
    };
    match (args.form, args.lines) {
        (Form::Text, _) => text(&rows, &tables, which, Naming::of(config), terminal.out)?,
        (Form::Json, Lines::Key) => {
            writeln!(terminal.out, "{:#}", document(&rows, &tables, which, config))?;
        }
        (Form::Json, Lines::Event) => {
            for row in &rows.found {
                writeln!(terminal.out, "{}", Value::from(row.json()))?;
            }
        }
    }
    tables.print_failures(terminal.err)?;
    let is_found = which == Stuck::Abandoned && !rows.found.is_empty();
    Ok(if is_found || !tables.failed.is_empty() { Exit::Failure } else { Exit::Done })
}

fn text(
    rows: &Rows,
    tables: &Tables,
    which: Stuck,
    naming: Naming,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let is = match which {
        Stuck::Abandoned => "abandoned",
        Stuck::Waiting => "waiting for another attempt",
    };
    if rows.found.is_empty() {
        // Of a table that does not record it nothing is known.
        let unknown = match which {
            Stuck::Abandoned => 0,
            Stuck::Waiting => rows.without.len(),
        };
        if tables.failed.is_empty() && unknown == 0 {
            writeln!(out, "no row is {is}")?;
        } else if tables.readable.len() > unknown {
            writeln!(out, "no row of the other tables is {is}")?;
        }
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
            let named = first.named(naming);
            writeln!(out, "next: outbox-router dead-letters show --id {named}")?;
        }
    }
    for table in &rows.without {
        match which {
            Stuck::Abandoned => writeln!(
                out,
                "{table} cannot record such a row: it has no column abandoned_at timestamptz, or a \
                 status with a word for it"
            )?,
            Stuck::Waiting => writeln!(
                out,
                "{table} does not record such rows, so this list cannot know of them: \
                 outbox-router status counts those of the running worker; columns attempts integer \
                 and available_at timestamptz would record them"
            )?,
        }
    }
    Ok(())
}

fn document(rows: &Rows, tables: &Tables, which: Stuck, config: &Config) -> Value {
    json!({
        "name": config.name,
        "source": config.postgres.source.as_str(),
        "waiting": which == Stuck::Waiting,
        "rows": rows.found.iter().map(|row| Value::from(row.json())).collect::<Vec<_>>(),
        "rows_behind": rows.behind(),
        "cut": rows.is_cut,
        "without": rows.without.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "failed": tables.failed.iter().map(Failed::json).collect::<Vec<_>>(),
    })
}
