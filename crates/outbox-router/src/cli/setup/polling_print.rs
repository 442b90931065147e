//! The SQL of `setup` with `postgres.source = "polling"`, for reading and for `psql`. What depends
//! on the server is read from it, where it answers; what could not be read is said, with what to
//! type.

use std::io;

use relay::{Code, Failure, TableName};

use super::{
    dead_letters, partitions,
    polling::{abandoned_rows, shared},
    role::{self, RolePresence},
    typed::to_apply,
};
use crate::{
    cli::{
        DeadLetterTables, MissingTable, SetupArgs, TaskError,
        connect::{Access, with_connection},
        polled_tables::{settings, unpolled},
        sql,
    },
    codes::{ADMIN, hint},
    config::Config,
    held::schema::Statement,
    polling::sql::{IndexWork, NoteWork, PolledTable},
    postgres::quote_identifier,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// What the server says.
struct Known {
    /// Whether the router's role exists.
    role: Option<RolePresence>,
    tables: Vec<(TableName, Result<PolledTable, Failure>)>,
    /// Why workers would take no row of a table.
    unpolled: Vec<Failure>,
}

/// Prints every statement with its reason.
pub(super) async fn print(
    args: &SetupArgs,
    config: &Config,
    access: Access<'_>,
    out: Out<'_>,
) -> Result<(), TaskError> {
    let tables = config.polled_tables();
    let role = dead_letters::role(args, access);
    let known = Box::pin(read(config, access, role.as_deref())).await;
    if args.table == MissingTable::Create {
        for table in &tables {
            partitions::print(args.table_form, &table.outbox, config, out)?;
        }
    }
    if let Some(role) = &role {
        let presence = known.as_ref().ok().and_then(|known| known.role);
        print_role(args, (role, presence), access, out)?;
    }
    for Statement { purpose, sql } in shared(config, &tables, role.as_deref(), args.notify) {
        writeln!(out, "-- {purpose}\n{sql};\n")?;
    }
    if args.dead_letters == DeadLetterTables::Make {
        for line in abandoned_rows(config).lines() {
            writeln!(out, "-- {line}")?;
        }
        writeln!(out)?;
    }
    match known {
        Ok(known) => {
            for (name, table) in &known.tables {
                match table {
                    Ok(table) => {
                        if let Some(NoteWork { what, statement }) = table.note_work() {
                            let noted = format!("{}: noted that {what}", table.name());
                            writeln!(out, "-- {}\n{statement};\n", on_one_line(&noted))?;
                        }
                        print_indexes(table, out)?;
                    }
                    Err(failure) => print_unknown(name, failure, out)?,
                }
            }
            print_unpolled(&known.unpolled, out)?;
        }
        Err(failure) => {
            for table in &tables {
                print_unknown(&table.outbox.name, &failure, out)?;
            }
        }
    }
    writeln!(out, "-- to run it: {}    to undo it: outbox-router teardown", to_apply(args))?;
    Ok(())
}

/// Asks the server. What is printed has to be printed without one, too.
async fn read(config: &Config, access: Access<'_>, role: Option<&str>) -> Result<Known, Failure> {
    let asked = with_connection(access, "setup", async |client| {
        let role = match role {
            Some(role) => Some(role::presence(client, role).await?),
            None => None,
        };
        let unpolled = unpolled(client, config).await?;
        let mut tables = Vec::new();
        for table in config.polled_tables() {
            let read = PolledTable::read(client, &table, &settings(config)).await;
            if read.is_err() {
                // A statement that failed leaves its transaction open.
                client.batch_execute("rollback").await?;
            }
            tables.push((table.outbox.name, read));
        }
        Ok(Known { role, tables, unpolled })
    });
    match Box::pin(asked).await {
        Ok(known) => Ok(known),
        Err(TaskError::Failure(failure)) => Err(*failure),
        // Nothing is printed while the server is asked.
        Err(TaskError::Output(error)) => Err(Failure::from_error(Code::ServerError, error)),
    }
}

/// The role is made where it is to be, or where nobody has made it.
fn print_role(
    args: &SetupArgs,
    (role, presence): (&str, Option<RolePresence>),
    access: Access<'_>,
    out: Out<'_>,
) -> io::Result<()> {
    let quoted = quote_identifier(role);
    match (presence, &args.role) {
        (Some(RolePresence::There), _) => writeln!(out, "-- the role {quoted} exists already\n"),
        (None, None) => writeln!(
            out,
            "-- the role that the router runs as; where it does not exist, and with a password:\n\
             -- create role {quoted} login;\n"
        ),
        (Some(RolePresence::Missing), _) | (None, Some(_)) => {
            writeln!(out, "-- the role that the router runs as; set its password")?;
            writeln!(out, "create role {quoted} login;")?;
            // psql fills in its own database where the configuration does not name one.
            let grant = access.database().map_or_else(
                || format!("grant connect on database :\"DBNAME\" to {quoted}"),
                |database| sql::grant_connect(&database, role),
            );
            writeln!(out, "{grant};\n")
        }
    }
}

fn print_indexes(table: &PolledTable, out: Out<'_>) -> io::Result<()> {
    let work = table.index_work();
    if work.is_empty() {
        writeln!(out, "-- the indexes of {} exist already\n", table.name())?;
    }
    for IndexWork { purpose, statements, .. } in work {
        writeln!(out, "-- {purpose}; not in a transaction, so that writers go on")?;
        for statement in statements {
            writeln!(out, "{statement};")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn print_unknown(table: &TableName, failure: &Failure, out: Out<'_>) -> io::Result<()> {
    let why = on_one_line(&format!("{failure:#}"));
    writeln!(out, "-- the indexes of {table} depend on its columns, which could not be read:")?;
    writeln!(out, "--   {why}")?;
    writeln!(out, "-- after the statements above, and when that is mended, this prints them:")?;
    writeln!(out, "--   outbox-router setup {ADMIN}")?;
    writeln!(out, "-- and this makes them:")?;
    writeln!(out, "--   outbox-router setup --apply {ADMIN}\n")
}

fn print_unpolled(unpolled: &[Failure], out: Out<'_>) -> io::Result<()> {
    for failure in unpolled {
        writeln!(out, "-- warning: {}", on_one_line(&failure.to_string()))?;
        if let Some(hint) = hint(failure) {
            writeln!(out, "--   hint: {}", on_one_line(&hint))?;
        }
    }
    if !unpolled.is_empty() {
        writeln!(out, "-- what P043 says comes before outbox-router run\n")?;
    }
    Ok(())
}

/// A second line would be no comment.
fn on_one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
