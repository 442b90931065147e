//! `dead-letters list --left-out`.

use serde_json::{Value, json};

use super::{
    super::args::{ListArgs, Rows},
    rows,
    work::count_of,
};
use crate::{
    cli::{
        Exit, Form, TaskError, Terminal,
        connect::{Access, with_connection},
    },
    codes::ADMIN,
    config::Config,
};

/// Lists. Exit code 1 where a row waits for a decision.
pub(super) async fn list(
    args: &ListArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    if args.rows == Rows::Waiting || args.limit.is_some() {
        writeln!(terminal.err, "error: --waiting and --limit have no meaning with --left-out")?;
        return Ok(Exit::Usage);
    }
    let read = with_connection(access, "dead-letters", async |client| {
        rows::read(client, &config.name, &args.select).await
    });
    let entries = match Box::pin(read).await? {
        Ok(entries) => entries,
        Err(message) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(Exit::Usage);
        }
    };
    match args.form {
        Form::Json => {
            let rows: Vec<Value> = entries.iter().map(|it| rows::json_of(it).into()).collect();
            let document = json!({ "name": config.name, "left_out": rows });
            writeln!(terminal.out, "{document:#}")?;
        }
        Form::Text if entries.is_empty() => writeln!(terminal.out, "no row is left out")?,
        Form::Text => {
            rows::listed(&entries, usize::MAX, terminal.out)?;
            writeln!(
                terminal.out,
                "\n{}, in no topic; when its cause is removed (outbox-router explain --id ID):\n\
                 outbox-router dead-letters requeue --left-out --id ID {ADMIN}\n\
                 sends a row, and drop in the place of requeue gives it up",
                count_of(&entries)
            )?;
        }
    }
    Ok(if entries.is_empty() { Exit::Done } else { Exit::Failure })
}
