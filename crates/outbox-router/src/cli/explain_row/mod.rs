//! `explain --id` and `explain --row`: what the router makes of one row, and which rule decided.
//! The row is put into the messages that a walsender would send, and given to the core; so the
//! answer is the core's own.

mod args;
mod event_columns;
mod event_rows;
mod explained;
mod json_row;
mod jsonb;
mod origins;
mod read;
mod render;
mod sought;
mod written;

use relay::{Name, OnError, Outboxes, Role, TableName, TopicFacts, source::Oid};
use tokio_postgres::Client;

pub use args::{ColumnType, RowArgs};
pub(super) use event_rows::{EventRow, EventRows, Placed, Placement, check_privilege};
pub use json_row::JsonRow;
pub(super) use sought::Sought;

use super::{
    Exit, TaskError, Terminal,
    connect::{Access, with_connection},
    form::Form,
    one_table::one_table,
    print_failure::print_failure,
    row_security,
    topic_lookups::{Topic, TopicLookups},
};
use crate::{
    config::{Config, SourceKind},
    postgres::quote_table,
    prepare,
    republish::table_row::{Found, TableRow},
};
use explained::{Explained, Outcome, explain};
pub(super) use explained::{dry_run_of, why_none_fits};
use read::{Read, read};

/// Why nothing is explained: the command line does not fit the configuration, or there is no such
/// row.
struct Unexplained {
    exit: Exit,
    message: String,
}

/// The OID of the table of a row that is not read from PostgreSQL.
const OID_OF_JSON_ROW: u32 = 1;

/// Prints what the router makes of a row. A row that `run` could not deliver gives exit code 1, and
/// so does one whose topic is missing or refused: `run` would wait for a person there.
pub(super) async fn explain_row(
    args: &RowArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let answer = match (one_table(args.table.as_ref(), config), &args.row, &args.id) {
        (Err(message), ..) => Err(usage(message)),
        (Ok(table), Some(row), _) => from_json(args, row, table, config, terminal)?,
        (Ok(table), None, id) => {
            let id = id.as_deref().unwrap_or_default();
            with_connection(access, "explain", async |client| {
                from_table(client, id, &table, config, terminal).await
            })
            .await?
        }
    };
    let mut explained = match answer {
        Ok(explained) => explained,
        Err(Unexplained { exit, message }) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(exit);
        }
    };
    // The core does not know how the cluster is reached.
    if let Outcome::Refused(failure) = &mut explained.outcome {
        failure.names.set(Name::Brokers, config.kafka.bootstrap_servers.clone());
        let is_polled = config.postgres.source == SourceKind::Polling;
        if is_polled && config.on_error.of(failure.code) == OnError::DeadLetter {
            failure.names.set(Name::OnError, OnError::DeadLetter.as_str().to_owned());
        }
        if let Ok(table) = one_table(args.table.as_ref(), config) {
            failure.names.set(Name::QuotedTable, quote_table(&table));
        }
    }
    let of = (config.on_error, config.postgres.source);
    match args.form {
        Form::Text => render::text(&explained, of, terminal.out)?,
        Form::Json => writeln!(terminal.out, "{:#}", render::json(&explained, of))?,
    }
    if let Some(Topic::Unusable(failure)) = &explained.topic {
        print_failure(terminal.err, failure)?;
        return Ok(Exit::Failure);
    }
    Ok(match explained.outcome {
        Outcome::Produced(_) | Outcome::FilteredOut => Exit::Done,
        Outcome::Refused(_) => Exit::Failure,
    })
}

fn usage(message: String) -> Unexplained {
    Unexplained { exit: Exit::Usage, message }
}

/// The row of `--row`, by the configuration alone.
fn from_json(
    args: &RowArgs,
    row: &JsonRow,
    table: TableName,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Result<Explained, Unexplained>, TaskError> {
    let types: Vec<_> =
        args.types.iter().map(|given| (given.column.as_str(), given.sql_type)).collect();
    let columns = match row.columns(&types) {
        Ok(columns) => columns,
        Err(message) => return Ok(Err(usage(message))),
    };
    let assumed = row.assumed(&types);
    if !assumed.is_empty() {
        let assumed: Vec<_> =
            assumed.into_iter().map(|(name, sql_type)| format!("{name} {sql_type}")).collect();
        let assumed = assumed.join(", ");
        writeln!(
            terminal.err,
            "note: assumed types: {assumed}; give another by --type COLUMN=TYPE"
        )?;
    }
    let row = TableRow { oid: OID_OF_JSON_ROW, table, columns, types: Vec::new() };
    let given = |partitions| Topic::Exists(TopicFacts { partitions, max_message_bytes: None });
    let topic = args.partitions.map(given);
    let (outboxes, row_bytes) = (config.outboxes(), prepare::size(config.limits.row_bytes));
    let mut explained = explain(&row, &outboxes, row_bytes, |_| Ok(topic.clone()))?;
    if config.postgres.source == SourceKind::Polling {
        let run = dry_run_of(&row, &outboxes, row_bytes)?;
        let mapping = run.mapping(Oid::from_u32(row.oid));
        let column = mapping.and_then(|mapping| written::column(&row, mapping));
        explained.of_polled_row(written::by_column(column));
    }
    Ok(Ok(explained))
}

/// The row with this id, as PostgreSQL has it now, and its topic as Kafka has it.
async fn from_table(
    client: &Client,
    id: &str,
    table: &TableName,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Result<Explained, Unexplained>, TaskError> {
    let outboxes: Outboxes = config.outboxes();
    let row_bytes = prepare::size(config.limits.row_bytes);
    let mut row = TableRow::describe(client, table).await?;
    row_security::check(client, &row).await?;
    let run = dry_run_of(&row, &outboxes, row_bytes)?;
    let mut time = None;
    // Where the columns do not fit, every row is refused for that, whatever its values.
    if let Some(mapping) = run.mapping(Oid::from_u32(row.oid)) {
        let column = mapping.column(Role::Id).unwrap_or_default();
        let source = config.postgres.source;
        let Read { found, by } = match read(client, &mut row, (column, source), id).await? {
            Ok(read) => read,
            Err(why) => return Ok(Err(usage(why))),
        };
        match found {
            Found::One => {}
            Found::Several => {
                writeln!(terminal.err, "note: several rows have this id; this is one of them")?;
            }
            Found::None => {
                let message = format!(
                    "{table} has no row whose {by} is {id}: it was deleted, or never committed; \
                     --row explains a row that is in no table"
                );
                return Ok(Err(Unexplained { exit: Exit::Failure, message }));
            }
        }
        if source == SourceKind::Polling {
            let unit = mapping.table().timestamp_unit;
            time = Some(written::at(client, written::column(&row, mapping), unit).await?);
        }
    }
    let topics = TopicLookups::open(config)?;
    let mut explained = explain(&row, &outboxes, row_bytes, |name| topics.look_up(name).map(Some))?;
    if let Some(time) = time {
        explained.of_polled_row(time);
    }
    Ok(Ok(explained))
}
