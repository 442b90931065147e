//! `teardown` with `postgres.source = "polling"`: drops what `setup` has made for the tables: the
//! trigger, the indexes, and their rows in the tables by which workers share them. The tables and
//! their rows stay, and so do the tables of the schema `outbox_router`, which other pipelines of
//! the database use as well.

use relay::TableName;
use tokio_postgres::Client;

use super::{
    confirmed::is_confirmed,
    exists::{PUBLICATION, exists},
    role::{drop_role, print_role},
    typed::to_apply,
};
use crate::{
    cli::{
        Confirmation, Exit, SqlMode, TaskError, TeardownArgs, Terminal,
        connect::{Access, with_connection},
        polled_tables, sql,
    },
    codes::ADMIN,
    config::Config,
    held::schema::Statement,
    polling::sql::{
        PolledTable,
        setup::{
            Partitions, forget_mark, forget_own_statements, forget_switch, teardown_statements,
        },
        survey,
    },
    postgres::{quote_literal, quote_table},
};

/// Prints the SQL, or asks and runs it.
pub(super) async fn teardown(
    args: &TeardownArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    match args.write {
        SqlMode::Print => print(args, config, access, terminal),
        SqlMode::Apply => {
            let work = with_connection(access, "teardown", async |client| {
                apply(client, args, config, terminal).await
            });
            Box::pin(work).await
        }
    }
}

fn print(
    args: &TeardownArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let out = &mut terminal.out;
    writeln!(out, "-- pending rows stay pending, and nobody delivers them any more")?;
    for outbox in config.tables() {
        let objects = teardown_statements(&outbox.name, Partitions::None);
        let mark = forget_mark(&outbox.name, &config.name);
        let forgotten = forget_own_statements(&outbox.name, &config.name);
        for Statement { purpose, sql } in objects.into_iter().chain(forgotten).chain([mark]) {
            writeln!(out, "-- {purpose}\n{sql};")?;
        }
        let Statement { purpose, sql } = forget_switch(&outbox.name);
        writeln!(out, "-- {purpose}; only where no slot has rows of this one\n{sql};")?;
    }
    if let Some(role) = &args.role {
        print_role(role, access, terminal)?;
    }
    let out = &mut terminal.out;
    writeln!(out, "\n-- the outbox tables stay, and so do those of outbox_router")?;
    writeln!(out, "-- to run it: {}", to_apply(args))?;
    Ok(Exit::Done)
}

async fn apply(
    client: &Client,
    args: &TeardownArgs,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    client.batch_execute(sql::TIMEOUTS).await?;
    let has_leases = is_table(client, "outbox_router.worker").await?
        && is_table(client, "outbox_router.lease").await?;
    let has_marks = has_leases && is_table(client, "outbox_router.mark").await?;
    let has_switch = is_table(client, "outbox_router.switch").await?;
    let names: Vec<&TableName> = config.tables().map(|outbox| &outbox.name).collect();
    if has_leases && let Some(alive) = alive(client, &names).await? {
        writeln!(terminal.err, "error: nothing was dropped: {alive}")?;
        writeln!(
            terminal.err,
            "  hint: stop it; one that was killed counts as alive until its lease ends"
        )?;
        return Ok(Exit::Failure);
    }
    if has_switch && let Some(handed) = handed(client, config, &names).await? {
        writeln!(terminal.err, "error: nothing was dropped: {handed}")?;
        writeln!(terminal.err, "  hint: outbox-router switch polling {ADMIN} gives it back")?;
        return Ok(Exit::Failure);
    }
    say_pending(client, config, terminal).await?;
    if args.confirmation == Confirmation::Ask {
        let name = config.name.as_str();
        let question = format!(
            "pending rows stay, and nobody delivers them any more; type {name}, the \
             configuration's name, to go on: "
        );
        if !is_confirmed(name, &question, terminal)? {
            return Ok(Exit::Failure);
        }
    }
    for name in names {
        let quoted = quote_table(name);
        if !is_table(client, &quoted).await? {
            writeln!(terminal.out, "table {name}: does not exist")?;
            continue;
        }
        let mut statements = teardown_statements(name, partitions(client, &quoted).await?);
        if has_leases {
            statements.extend(forget_own_statements(name, &config.name));
        }
        if has_marks {
            statements.push(forget_mark(name, &config.name));
        }
        if has_switch {
            statements.push(forget_switch(name));
        }
        for Statement { sql, .. } in statements {
            client.batch_execute(&sql).await?;
        }
        writeln!(terminal.out, "table {name}: trigger, indexes and leases are dropped")?;
    }
    say_left(client, config, terminal).await?;
    if let Some(role) = &args.role {
        drop_role(client, role, terminal).await?;
    }
    Ok(Exit::Done)
}

/// Says which objects of a stream stay.
async fn say_left(
    client: &Client,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    for (what, query, name) in [
        ("slot", SLOT, config.postgres.slot.as_str()),
        ("publication", PUBLICATION, config.postgres.publication.as_str()),
    ] {
        if exists(client, query, name).await? {
            writeln!(
                terminal.out,
                "{what} {name}: left; to drop it: outbox-router teardown --apply, with a \
                 configuration of postgres.source = \"stream\""
            )?;
        }
    }
    Ok(())
}

const SLOT: &str = "select from pg_replication_slots where slot_name = $1";

async fn is_table(client: &Client, quoted: &str) -> Result<bool, TaskError> {
    let row = client.query_one("select to_regclass($1) is not null", &[&quoted]).await?;
    Ok(row.try_get(0)?)
}

async fn partitions(client: &Client, quoted: &str) -> Result<Partitions, TaskError> {
    let query = "select relkind = 'p' from pg_class where oid = to_regclass($1)";
    let has: bool = client.query_one(query, &[&quoted]).await?.try_get(0)?;
    Ok(if has { Partitions::Some } else { Partitions::None })
}

/// A table whose switch can be completed, or whose slot is there: it would be polled and streamed
/// when it is set up again.
async fn handed(
    client: &Client,
    config: &Config,
    names: &[&TableName],
) -> Result<Option<String>, TaskError> {
    let slot = config.postgres.slot.as_str();
    let has_slot = exists(client, SLOT, slot).await?;
    let query = "select relation::regclass::text, state in ('closing', 'sent', 'marked') \
                 from outbox_router.switch \
                 where relation in (select to_regclass(t) from unnest($1::text[]) t) \
                   and ($2 or state in ('closing', 'sent', 'marked')) order by 1 limit 1";
    let tables: Vec<String> = names.iter().map(|name| quote_table(name)).collect();
    let Some(row) = client.query_opt(query, &[&tables, &has_slot]).await? else { return Ok(None) };
    let (table, is_under_way): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
    let what = if is_under_way {
        "a switch of it is not complete".to_owned()
    } else {
        format!("it was handed to the stream, whose slot {slot} is there")
    };
    Ok(Some(format!("table {table}: {what}")))
}

/// Says of each table which rows no worker has sent. Where a stream goes on, they are older than
/// its slot.
async fn say_pending(
    client: &Client,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    let settings = polled_tables::settings(config);
    for table in config.polled_tables() {
        let name = &table.outbox.name;
        let counted = async {
            let known = PolledTable::read(client, &table, &settings).await?;
            survey(client, &known).await
        };
        let counted = counted.await;
        if counted.is_err() {
            // The statement that was refused leaves its transaction open.
            client.batch_execute("rollback").await?;
        }
        let out = &mut terminal.out;
        match counted {
            Ok(rows) => {
                for rows in rows.unsent() {
                    writeln!(out, "table {name}: {rows}, and sent by nobody from now on")?;
                }
            }
            Err(why) => {
                writeln!(
                    out,
                    "table {name}: which rows are pending is not known: {}",
                    why.message
                )?;
            }
        }
    }
    Ok(())
}

/// A worker that runs would go on without its index and announcements.
async fn alive(client: &Client, names: &[&TableName]) -> Result<Option<String>, TaskError> {
    let tables: Vec<String> = names
        .iter()
        .map(|name| format!("to_regclass({})", quote_literal(&quote_table(name))))
        .collect();
    let query = format!(
        "select name, relation::regclass::text from outbox_router.worker \
         where relation in ({}) and seen_until > now() order by seen_until desc limit 1",
        tables.join(", ")
    );
    let Some(row) = client.query_opt(&query, &[]).await? else { return Ok(None) };
    let (worker, table): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Some(format!("a worker of {worker} polls {table}")))
}
