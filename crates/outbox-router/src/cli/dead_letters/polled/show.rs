//! `dead-letters show`: everything of a row that is abandoned or waits.

use std::io;

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::{
    super::args::ShowArgs,
    row::{Found, Naming},
    selection::{filter, read},
    tables::with_tables,
};
use crate::{
    cli::{Exit, Form, TaskError, Terminal, connect::Access, polled_tables::Tables, shown_bytes},
    config::Config,
    polling::sql::{Stuck, StuckFilter, columns_of},
};

/// More bytes of a value are not shown to people.
const VALUE_MAX: usize = 2_000;

type Columns = Vec<(String, Option<String>)>;

/// A row with its columns.
struct Whole {
    found: Found,
    /// What follows `--id`.
    named: String,
    which: Stuck,
    columns: Columns,
}

/// Shows. Exit code 1 where there is no such row, or a table cannot be read.
pub(super) async fn show(
    args: &ShowArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let filter = match filter(&args.named) {
        Ok(filter) => filter,
        Err(message) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(Exit::Usage);
        }
    };
    let (table, naming) = (args.named.table.as_ref(), Naming::of(config));
    let (rows, tables) = with_tables(table, config, access, async |client, mut tables| {
        let rows = wholes(client, &mut tables, &filter, naming).await?;
        Ok((rows, tables))
    })
    .await?;
    if rows.is_empty() && tables.is_any_read() {
        writeln!(terminal.err, "error: no row that is abandoned or waits is selected")?;
        writeln!(
            terminal.err,
            "  hint: outbox-router dead-letters list; outbox-router where ID looks for any row"
        )?;
    }
    for (place, whole) in rows.iter().enumerate() {
        match args.form {
            Form::Json => writeln!(terminal.out, "{}", whole.json())?,
            Form::Text => {
                if place > 0 {
                    writeln!(terminal.out)?;
                }
                whole.text(terminal.out)?;
            }
        }
    }
    tables.print_failures(terminal.err)?;
    let is_whole = !rows.is_empty() && tables.failed.is_empty();
    Ok(if is_whole { Exit::Done } else { Exit::Failure })
}

async fn wholes(
    client: &Client,
    tables: &mut Tables,
    filter: &StuckFilter,
    naming: Naming,
) -> Result<Vec<Whole>, TaskError> {
    let mut all = Vec::new();
    for which in [Stuck::Abandoned, Stuck::Waiting] {
        let rows = read(client, tables, which, filter).await?;
        for found in rows.found {
            let table = tables.readable.iter().find(|table| *table.name() == found.table);
            let Some(table) = table else { continue };
            // A row that has left meanwhile is none to show.
            if let Some(columns) = columns_of(client, table, &found.row.row.id).await? {
                let named = found.named(naming);
                all.push(Whole { found, named, which, columns });
            }
        }
    }
    Ok(all)
}

impl Whole {
    const fn state(&self) -> &'static str {
        match self.which {
            Stuck::Abandoned => "abandoned",
            Stuck::Waiting => "waiting for another attempt",
        }
    }

    fn hints(&self) -> Vec<String> {
        let id = &self.named;
        let mut hints = vec![format!("outbox-router explain --id {id}")];
        if self.which == Stuck::Abandoned {
            hints.push(format!("outbox-router dead-letters requeue --id {id}"));
            hints.push(format!("outbox-router dead-letters drop --id {id}"));
        }
        hints
    }

    fn text(&self, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        let Found { table, row } = &self.found;
        writeln!(out, "event      {}", self.found.id())?;
        writeln!(out, "table      {table}")?;
        writeln!(out, "key        {}", self.found.key())?;
        writeln!(out, "state      {}, {}", self.state(), self.found.when(self.which))?;
        writeln!(out, "attempts   {}", self.found.attempts())?;
        writeln!(out, "behind     {} pending rows of its key", row.behind)?;
        let error = row.error.as_deref().unwrap_or("the table keeps no error");
        writeln!(out, "why        {}", shown_bytes::text(error.as_bytes(), VALUE_MAX))?;
        for (place, (name, value)) in self.columns.iter().enumerate() {
            let head = if place == 0 { "columns" } else { "" };
            let value = value.as_deref().map_or_else(
                || "null".to_owned(),
                |value| shown_bytes::text(value.as_bytes(), VALUE_MAX),
            );
            writeln!(out, "{head:10} {name}  {value}")?;
        }
        for (place, hint) in self.hints().iter().enumerate() {
            let head = if place == 0 { "to do" } else { "" };
            writeln!(out, "{head:10} {hint}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let mut members = self.found.json();
        let columns = self.columns.iter();
        let columns: Vec<Value> =
            columns.map(|(name, value)| json!({ "name": name, "value": value })).collect();
        members.insert("state".to_owned(), json!(self.state()));
        members.insert("columns".to_owned(), Value::from(columns));
        members.insert("hint".to_owned(), json!(self.hints().join("; ")));
        Value::from(members)
    }
}
