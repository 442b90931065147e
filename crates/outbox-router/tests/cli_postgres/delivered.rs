//! What a router has left that has delivered everything: a slot, and its record.

use std::{collections::BTreeMap, sync::Arc};

use outbox_router::cli::Audience;
use relay::{
    Lsn,
    delivered::{EventsSince, Place},
    source::{History, Oid},
    witness::Witness,
};

use crate::{
    kafka::{self, SharedState},
    server::{CommandOutput, Server, run_command_for},
};

/// Moves the slot to the end of WAL, and the record to the slot. Every row of a table is an event.
pub(crate) fn confirm(server: &Server) {
    confirm_since(server, |_| Some(EventsSince::FIRST_ROW));
}

/// The same. By name, from where on the rows of a table or partition are events; `None`: the record
/// does not say.
pub(crate) fn confirm_since(server: &Server, since: impl Fn(&str) -> Option<EventsSince>) {
    server.sql("select pg_replication_slot_advance('outbox_router', pg_current_wal_insert_lsn())");
    let known = record(server, since);
    kafka::put(&server.state.get_or_init(SharedState::start).bootstrap, "router", &known);
}

/// Types a command as this role, where the record of a router is.
pub(crate) async fn typed_as(server: &Server, user: &str, line: &[&str]) -> CommandOutput {
    answering(server, (Audience::Machine, user), line, "").await
}

/// The same, and answers what it asks.
pub(crate) async fn answering(
    server: &Server,
    (audience, user): (Audience, &str),
    line: &[&str],
    answer: &str,
) -> CommandOutput {
    let state = server.state.get_or_init(|| {
        let state = SharedState::start();
        let known = record(server, |_| Some(EventsSince::FIRST_ROW));
        kafka::put(&state.bootstrap, "router", &known);
        state
    });
    let line = kafka::with(&state.bootstrap, line);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    run_command_for(audience, &server.url(user), &line, answer).await
}

/// The record of a router that has delivered everything before its slot.
pub(crate) fn record(server: &Server, since: impl Fn(&str) -> Option<EventsSince>) -> Witness {
    let slot = server.sql("select max(confirmed_flush_lsn) from pg_replication_slots");
    let mut known = Witness::at(slot.parse().unwrap_or(Lsn::ZERO));
    known.history = Some(History {
        system_id: server.sql("select system_identifier from pg_control_system()"),
        timeline: server
            .sql("select timeline_id from pg_control_checkpoint()")
            .parse()
            .expect("a number"),
    });
    let tables = server.sql(
        "select coalesce(string_agg(concat_ws(' ', c.oid, c.relname, i.xmin), ';'), '') \
         from pg_class c left join pg_inherits i on i.inhrelid = c.oid \
         where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace",
    );
    let place = |table: &str| {
        let mut words = table.split(' ');
        let oid = Oid::from_u32(words.next()?.parse().expect("a number"));
        let since = since(words.next()?)?;
        let attached_by = words.next().map(|xid| xid.parse().expect("a number"));
        Some((Place { oid, attached_by }, since))
    };
    let places: BTreeMap<Place, EventsSince> = tables.split(';').filter_map(place).collect();
    known.since = Arc::new(places);
    known
}
