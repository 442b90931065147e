//! The SQL of `setup`, for reading and for `psql`. Printed without connecting anywhere, so what
//! depends on the server is a comment.

use super::{dead_letters, letter_topic, partitions, typed::to_apply, unused};
use crate::postgres::quote_identifier;
use std::io;

use relay::TableName;

use crate::{
    cli::{
        DeadLetterTables, MissingTable, RecordPart, SetupArgs, TaskError, connect::Access,
        hoster::Hoster, sql, witness::Records,
    },
    config::Config,
};

/// Prints every statement with its reason.
pub(super) fn print(
    args: &SetupArgs,
    config: &Config,
    access: Access<'_>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let outboxes = sql::outboxes(config);
    match args.table {
        MissingTable::Expect => {}
        MissingTable::Create => {
            for outbox in &outboxes {
                partitions::print(args.table_form, outbox, config, out)?;
            }
        }
    }
    if let Some(role) = &args.role {
        writeln!(out, "-- the role that the router runs as: it reads no table; set its password")?;
        for statement in sql::create_role(role, args.managed.unwrap_or(Hoster::None)) {
            writeln!(out, "{statement};")?;
        }
        // psql fills in its own database where the configuration does not name one.
        let grant = access.database().map_or_else(
            || format!("grant connect on database :\"DBNAME\" to {}", quote_identifier(role)),
            |database| sql::grant_connect(&database, role),
        );
        writeln!(out, "{grant};\n")?;
    }
    if args.dead_letters == DeadLetterTables::Make {
        dead_letters::print(dead_letters::role(args, access).as_deref(), out)?;
    }
    let tables: Vec<TableName> = outboxes.into_iter().map(|outbox| outbox.name).collect();
    let publication = config.postgres.publication.as_str();
    writeln!(out, "-- before the slot: the slot decodes WAL with the catalog of its time")?;
    writeln!(out, "{};\n", sql::create_publication(publication, &tables))?;
    writeln!(out, "-- from here on PostgreSQL keeps WAL until the router has confirmed it")?;
    writeln!(
        out,
        "-- PostgreSQL 17 and later: add `, failover => true`, to have it on standbys too"
    )?;
    writeln!(out, "{};\n", sql::create_slot(config.postgres.slot.as_str(), 0))?;
    if let (RecordPart::Include, Some(command)) = (args.record, Records::topic_command(config)) {
        writeln!(
            out,
            "-- the state topic, in a shell; the witness in it is created by --apply alone,"
        )?;
        writeln!(out, "-- and of a slot that is older than it, outbox-router accept closes K022")?;
        writeln!(out, "-- {command}\n")?;
    }
    letter_topic::print(config, out)?;
    for note in unused::notes(args, config) {
        writeln!(out, "-- note: {note}")?;
    }
    writeln!(out, "-- to run it: {}    to undo it: outbox-router teardown", to_apply(args))?;
    Ok(())
}
