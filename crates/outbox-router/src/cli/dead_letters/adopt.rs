//! `dead-letters adopt`: makes the rows of a table that was copied from another database cluster
//! rows of this one.
//!
//! A row is known by its place in the WAL of the cluster that wrote it. In another cluster the same
//! place may be that of another event, which the router would take for one that it has settled; and
//! of two events of one key, the new one may have the smaller place. So every row of the pipeline,
//! and every decision, gets a new place before the beginning of any WAL, in the former order: no
//! event of this cluster has it, and all come later. The messages of what is open get the OID that
//! their table has here.
//!
//! `held_version` keeps its numbers, by which the witness recognises a table that lacks writes.

use std::{collections::HashMap, io};

use relay::{Code, Failure};
use serde_json::json;
use tokio_postgres::{Client, types::ToSql};

use super::{
    args::{AdoptArgs, Place},
    relation_oid::{self, OF_NO_TABLE},
    table::{OF_PIPELINE, OPEN, Table, place},
};
use crate::{
    cli::{Effect, Exit, Form, TaskError, Terminal},
    config::Config,
    monitor::server,
    wording::count,
};

/// No WAL begins before this place: the first segment is left out, and none is smaller than 1 MiB.
const FIRST_LSN: i64 = 1 << 20;

/// Rows whose messages are read at once.
const PAGE: i64 = 1_000;

/// A million rows take their time. Pages are read along the primary key, also without statistics.
const BEGIN: &str = "\
    begin; set local statement_timeout = 0; set local jit = off; set local enable_sort = off; \
    set local enable_incremental_sort = off; set local enable_bitmapscan = off";

const CONSEQUENCE: &str = "\
They get places before everything that this cluster writes, in their order, so they leave before
new events of their keys. If a router still runs on the other cluster, it delivers them, too.";

/// What is adopted.
struct Found {
    system_id: String,
    open: i64,
    keys: i64,
    closed: i64,
}

/// Shows, asks, adopts, and reports.
pub(super) async fn adopt(
    args: &AdoptArgs,
    config: &Config,
    table: &Table<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let here = server::identity(&mut &*table.client).await?.system_id;
    let Some(found) = find(table).await?.filter(|found| found.system_id != here) else {
        match args.form {
            Form::Text => writeln!(
                terminal.out,
                "nothing to adopt: no row of this pipeline is of another database cluster"
            )?,
            Form::Json => writeln!(terminal.out, "{:#}", json!({ "adopted": false, "open": 0 }))?,
        }
        return Ok(Exit::Done);
    };
    if args.form == Form::Text {
        show(&found, terminal.out)?;
    }
    let dry = args.effect == Effect::Dry;
    if !dry {
        let words = ("adopt them", "adopted");
        if let Some(refused) = args.confirmation.ask(args.form, config, words, terminal)? {
            return Ok(refused);
        }
        table.client.batch_execute(BEGIN).await?;
        take_over(table, &found.system_id, &here).await?;
        table.client.batch_execute("commit").await?;
    }
    match args.form {
        Form::Text if dry => writeln!(terminal.out, "\nnothing was adopted")?,
        Form::Text => writeln!(
            terminal.out,
            "\nadopted {}; a router goes on with them when it tries again, within 30 s",
            count(found.open, "event")
        )?,
        Form::Json => {
            let Found { system_id, open, keys, closed } = found;
            let done = json!({ "adopted": !dry, "from": system_id, "open": open, "keys": keys,
                "closed": closed });
            writeln!(terminal.out, "{done:#}")?;
        }
    }
    Ok(Exit::Done)
}

fn show(found: &Found, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    let Found { system_id, open, keys, closed } = found;
    let (open, keys) = (count(*open, "event"), count(*keys, "key"));
    writeln!(
        out,
        "adopt {open} of {keys}, and {closed} that have left, of the database cluster with system \
         identifier {system_id}\n\n{CONSEQUENCE}"
    )
}

async fn find(table: &Table<'_>) -> Result<Option<Found>, TaskError> {
    let query = format!(
        "select system_id, \
           (select count(*) from outbox_router.held where {OF_PIPELINE} and {OPEN}), \
           (select count(distinct key_hash) from outbox_router.held \
             where {OF_PIPELINE} and {OPEN}), \
           (select count(*) from outbox_router.held where {OF_PIPELINE} and not {OPEN}) \
         from outbox_router.held_version where {OF_PIPELINE}"
    );
    let rows = table.query(&query, &[&table.pipeline, &table.slot]).await?;
    let found = |row: &tokio_postgres::Row| {
        Ok(Found {
            system_id: row.try_get(0)?,
            open: row.try_get(1)?,
            keys: row.try_get(2)?,
            closed: row.try_get(3)?,
        })
    };
    rows.first().map(found).transpose()
}

/// In one transaction, for a router that reads the table meanwhile.
async fn take_over(table: &Table<'_>, from: &str, to: &str) -> Result<(), TaskError> {
    let of_pipeline: [&(dyn ToSql + Sync); 2] = [&table.pipeline, &table.slot];
    let stamp = format!(
        "update outbox_router.held_version set system_id = $4 \
         where {OF_PIPELINE} and system_id = $3"
    );
    let parameters: [&(dyn ToSql + Sync); 4] = [&table.pipeline, &table.slot, &from, &to];
    if table.client.execute(&stamp, &parameters).await? != 1 {
        let what = "somebody else has adopted the rows of this pipeline meanwhile";
        return Err(Failure::new(Code::HeldTable, what).into());
    }
    // After rows that were adopted before, which may still be there.
    let numbers = format!(
        "select coalesce(max(commit_lsn - '0/0'::pg_lsn) \
           filter (where commit_lsn - '0/0'::pg_lsn < {FIRST_LSN}), \
           0)::int8, count(distinct commit_lsn) \
         from (select commit_lsn from outbox_router.held where {OF_PIPELINE} \
           union all select commit_lsn from outbox_router.decision where {OF_PIPELINE}) places"
    );
    let numbers = table.client.query_one(&numbers, &of_pipeline).await?;
    let (last, places): (i64, i64) = (numbers.try_get(0)?, numbers.try_get(1)?);
    if last + places >= FIRST_LSN {
        let what = format!(
            "the rows of this pipeline are of {places} transactions, and at most {FIRST_LSN} can \
             be adopted: first delete from outbox_router.held where state in ('delivered', 'dropped')"
        );
        return Err(Failure::new(Code::HeldTable, what).into());
    }
    let renumber = format!(
        "with places as (select commit_lsn as former, \
             ('0/' || to_hex({last} + row_number() over (order by commit_lsn)))::pg_lsn as lsn \
           from (select commit_lsn from outbox_router.held where {OF_PIPELINE} \
             union select commit_lsn from outbox_router.decision where {OF_PIPELINE}) all_places), \
         decided as (update outbox_router.decision set commit_lsn = places.lsn from places \
           where {OF_PIPELINE} and commit_lsn = places.former) \
         update outbox_router.held set commit_lsn = places.lsn from places \
         where {OF_PIPELINE} and commit_lsn = places.former"
    );
    table.client.execute(&renumber, &of_pipeline).await?;
    name_tables(table).await
}

/// Gives the messages of what is open the OIDs of this cluster.
async fn name_tables(table: &Table<'_>) -> Result<(), TaskError> {
    let page = format!(
        "select commit_lsn::text, event_index, messages from outbox_router.held \
         where {OF_PIPELINE} and {OPEN} \
         and (held.commit_lsn, held.event_index) > ($3::text::pg_lsn, $4::int8) \
         order by held.commit_lsn, held.event_index limit {PAGE}"
    );
    let replace = format!(
        "update outbox_router.held set messages = replaced.messages \
         from unnest($3::text[], $4::int8[], $5::bytea[]) as replaced (lsn, index, messages) \
         where {OF_PIPELINE} and commit_lsn = lsn::pg_lsn and event_index = index"
    );
    let mut oids: HashMap<(String, String), u32> = HashMap::new();
    let (mut lsn, mut index) = ("0/0".to_owned(), -1_i64);
    loop {
        let after: [&(dyn ToSql + Sync); 4] = [&table.pipeline, &table.slot, &lsn, &index];
        let rows = table.query(&page, &after).await?;
        let (mut lsns, mut indexes, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let (Place { commit_lsn, index }, held) = (place(row)?, row.try_get::<_, &[u8]>(2)?);
            // Messages that are damaged stay so: the router says it when it releases the event.
            let Ok(Some(named)) = relation_oid::table(held) else { continue };
            let oid = match oids.get(&named) {
                Some(oid) => *oid,
                None => look_up(table.client, &named).await?,
            };
            oids.insert(named, oid);
            lsns.push(commit_lsn.to_string());
            indexes.push(index);
            messages.push(relation_oid::replaced(held, oid));
        }
        let replaced: [&(dyn ToSql + Sync); 5] =
            [&table.pipeline, &table.slot, &lsns, &indexes, &messages];
        table.client.execute(&replace, &replaced).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        let last = place(last)?;
        (lsn, index) = (last.commit_lsn.to_string(), last.index);
    }
}

async fn look_up(client: &Client, (schema, name): &(String, String)) -> Result<u32, TaskError> {
    let query = "select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                 where n.nspname = $1 and c.relname = $2";
    let found = client.query_opt(query, &[schema, name]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?.unwrap_or(OF_NO_TABLE))
}
