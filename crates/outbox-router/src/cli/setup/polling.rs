//! `setup` with `postgres.source = "polling"`: no publication and no slot, but the tables in which
//! workers share the polled ones, the indexes by which pending rows are found, the rights of the
//! router's role, and, with `--notify`, the trigger that announces new rows.
//!
//! Tables, role and rights are made in one transaction. The indexes follow, since they are built
//! while the tables are written to, which is not possible in a transaction.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
};

use postgres_protocol::password::scram_sha_256;
use relay::{Failure, OutboxTable};
use tokio_postgres::Client;

use super::{
    dead_letters, polled_indexes::make_indexes, router_schema, table::make_table,
    transaction::all_or_nothing,
};
use crate::{
    cli::{
        DeadLetterTables, Exit, NotifyTrigger, SetupArgs, TaskError, Terminal,
        connect::{Access, with_connection},
        polled_tables::{self, Tables},
        sql,
    },
    codes,
    config::{Config, RetentionMode},
    held::schema::Statement,
    polling::sql::{
        MarkHow, NoteWork, TableConfig,
        setup::{self as statements, Deletes},
    },
    postgres::{Password, quote_identifier},
};

/// Makes everything that is missing.
pub(super) async fn apply(
    args: &SetupArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let out = &mut *terminal.out;
    let configured = config.polled_tables();
    let role = dead_letters::role(args, access);
    let (tables, unpolled) = with_connection(access, "setup", async |client| {
        client.batch_execute(sql::TIMEOUTS).await?;
        let objects = Objects { args, config, access, tables: &configured, role: role.as_deref() };
        let make = async |made: &mut Vec<u8>| Box::pin(objects.make(client, made)).await;
        out.write_all(&all_or_nothing(client, access, make).await?)?;
        let tables = Tables::read(client, None, config).await?;
        for table in &tables.readable {
            if let Some(NoteWork { what, statement }) = table.note_work() {
                client.batch_execute(&statement).await?;
                writeln!(out, "table {}: noted that {what}", table.name())?;
            }
            Box::pin(make_indexes(client, table, access, out)).await?;
        }
        Ok((tables, polled_tables::unpolled(client, config).await?))
    })
    .await?;
    if args.dead_letters == DeadLetterTables::Make {
        terminal.out.write_all(abandoned_rows(config).as_bytes())?;
    }
    tables.print_failures(terminal.err)?;
    if !tables.failed.is_empty() {
        writeln!(terminal.out, "next: the same command again, when every table can be polled")?;
        return Ok(Exit::Failure);
    }
    say_run(&unpolled, terminal.out)?;
    Ok(Exit::Done)
}

/// The step that follows, after the failures that would stop it: nothing is refused because of
/// them, since a router may read the tables later.
pub(super) fn say_run(first: &[Failure], out: &mut dyn io::Write) -> io::Result<()> {
    for failure in first {
        writeln!(out, "warning: {failure}")?;
        if let Some(hint) = codes::hint(failure) {
            writeln!(out, "  hint: {hint}")?;
        }
    }
    let codes: BTreeSet<&str> = first.iter().map(|failure| failure.code.as_str()).collect();
    let codes: Vec<&str> = codes.into_iter().collect();
    match codes.as_slice() {
        [] => writeln!(out, "next: outbox-router run"),
        codes => {
            let codes = codes.join(" and ");
            writeln!(out, "next: what {codes} says, and only then: outbox-router run")
        }
    }
}

/// What is made in one transaction.
struct Objects<'a> {
    args: &'a SetupArgs,
    config: &'a Config,
    access: Access<'a>,
    tables: &'a [TableConfig],
    role: Option<&'a str>,
}

impl Objects<'_> {
    async fn make(&self, client: &Client, out: &mut Vec<u8>) -> Result<(), TaskError> {
        let Self { args, config, access, tables, role } = *self;
        for table in tables {
            make_table(client, &table.outbox, args, config, out).await?;
        }
        if let Some(name) = &args.role {
            make_role(client, name, access.password_of_router(name).as_ref(), out).await?;
        }
        router_schema::refuse_unready(client, role).await?;
        for Statement { sql, .. } in shared(config, tables, role, args.notify) {
            client.batch_execute(&sql).await?;
        }
        let may = role.map(|role| format!(", {role} may use them")).unwrap_or_default();
        writeln!(out, "tables outbox_router.lease and outbox_router.worker: there{may}")?;
        if args.notify == NotifyTrigger::Make {
            for OutboxTable { name, .. } in tables.iter().map(|table| &table.outbox) {
                writeln!(out, "table {name}: announces new rows")?;
            }
            say_prepared(client, out).await?;
        }
        Ok(())
    }
}

/// A server that refuses NOTIFY in a transaction that is prepared would end that of a writer.
async fn say_prepared(client: &Client, out: &mut Vec<u8>) -> Result<(), TaskError> {
    let query = "select current_setting('max_prepared_transactions')::int4";
    let most: i32 = client.query_one(query, &[]).await?.try_get(0)?;
    if most > 0 {
        writeln!(
            out,
            "note: max_prepared_transactions is {most}, and a transaction with an announcement \
             cannot be prepared: where writers use PREPARE TRANSACTION (two-phase commit, XA), set \
             polling.notify = false and drop the trigger: outbox-router doctor says how"
        )?;
    }
    Ok(())
}

/// What `--dead-letters` means here, and what an abandoned row takes; lines for a person.
pub(super) fn abandoned_rows(config: &Config) -> String {
    let mut text = "\
dead letters: --dead-letters makes no table, since an abandoned row stays in its own one
  that one needs a column abandoned_at, or a status with a word for abandoned; of a table without:
  alter table TABLE add column abandoned_at timestamptz, then outbox-router setup --apply again
"
    .to_owned();
    if !config.on_error.has_dead_letters() {
        text.push_str(
            "note: no class of [on_error] is \"dead_letter\", so a row that cannot be delivered is \
             never abandoned\n",
        );
    }
    text
}

/// The statements that depend on no column.
pub(super) fn shared(
    config: &Config,
    tables: &[TableConfig],
    role: Option<&str>,
    notify: NotifyTrigger,
) -> Vec<Statement> {
    let mut all = statements::lease_statements(role);
    let retention = &config.retention;
    // With a connection of its own, retention has a role of its own.
    let removes = retention.mode != RetentionMode::Off && retention.url.is_none();
    for table in tables {
        let name = &table.outbox.name;
        let is_deleted = removes || table.mark.how == MarkHow::Delete;
        let deletes = if is_deleted { Deletes::Yes } else { Deletes::No };
        all.extend(
            role.into_iter().flat_map(|role| statements::grant_statements(name, role, deletes)),
        );
        if notify == NotifyTrigger::Make {
            all.extend(statements::notify_statements(name));
        }
    }
    all
}

/// A role that may log in, and nothing else: a new one gets the password with which the router will
/// log in; that of an existing one is left alone.
async fn make_role(
    client: &Client,
    role: &str,
    password: Option<&Password>,
    out: &mut Vec<u8>,
) -> Result<(), TaskError> {
    let query = "select rolcanlogin from pg_roles where rolname = $1";
    let quoted = quote_identifier(role);
    match client.query_opt(query, &[&role]).await? {
        Some(row) if row.try_get(0)? => writeln!(out, "role {role}: exists already")?,
        Some(_) => {
            client.batch_execute(&format!("alter role {quoted} login")).await?;
            writeln!(out, "role {role}: may now log in")?;
        }
        None => {
            client.batch_execute(&format!("create role {quoted} login")).await?;
            // Not the password itself, which the server's log might show.
            match password.map(|it| scram_sha_256(it.expose())) {
                Some(verifier) => {
                    client.batch_execute(&sql::set_password(role, &verifier)).await?;
                    writeln!(out, "role {role}: created with the password of the router")?;
                }
                None => writeln!(
                    out,
                    "role {role}: created without a password; in psql: \\password {role}"
                )?,
            }
        }
    }
    let database: String =
        client.query_one("select current_database()::text", &[]).await?.try_get(0)?;
    client.batch_execute(&sql::grant_connect(&database, role)).await?;
    Ok(())
}
