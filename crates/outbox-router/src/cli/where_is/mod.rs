//! `where`: for one event, whether its topic has it and at which offset, or why not; or the latest
//! events of a key. It reads the row, routes it through the core as `explain --id` does, and reads
//! the one partition in which its record belongs, from the row's time on. It changes nothing.
//!
//! That a record is not there is an answer only if the slot has confirmed the row
//! ([`position`]); then the other partitions of the topic are read, too, since the topic may have
//! grown, and what was written up to two hours before, since clocks differ.
//!
//! Of a polled row its own marks say the same, and why it was not sent ([`marks`]).
//!
//! A record is the row's where it has the row's id, key and value ([`wanted`]), as the row would
//! get them now. A record with the row's UUID and another key or value is the row's, too, since the
//! row or the configuration may have been changed after it was sent. An id that is no UUID may be
//! that of a former row, so an open gap in which the row may lie counts before its record. Of an
//! event whose row is deleted `--key` alone says the key; without it the first record with its id
//! is taken, which the answer says.
//!
//! # The JSON output
//!
//! Members are added, and never renamed or removed; times are UTC. `where ID --json` prints one
//! object:
//! ```json
//! {"id": "…", "state": "acknowledged", "reason": "…", "code": null, "hint": null,
//!  "table": "public.outbox", "committed_at": "…", "committed_at_source": "…", "commit_lsn": null,
//!  "topic": "orders", "partition": 1, "offset": 17, "record_at": "…", "key": "order-7",
//!  "held": null, "skipped": null, "since": "…", "records_read": 3,
//!  "searched": [{"topic": "orders", "partition": 1, "from": 15, "to": 18, "records": 3,
//!    "complete": true}]}
//! ```
//! where `state` is one of `acknowledged`, `deleted`, `in_flight`, `waiting`, `not_committed`,
//! `before_topic`, `missing`, `expired`, `held`, `dead_lettered`, `dropped`, `skipped`, `filtered`,
//! `gap` and `unknown`. `where --key KEY --json` prints `{"key": "…", "events": […], …}` with the
//! members up to `skipped` for each event, and the others once.

mod args;
mod evidence;
mod look;
mod marks;
mod position;
mod render;
mod search;
mod settle;
mod times;
mod topics;
mod verdict;
mod wanted;
mod whose;

pub use args::WhereArgs;

use super::{
    Exit, Form, TaskError, Terminal,
    connect::{Access, with_connection},
    shown_bytes,
};
use crate::config::Config;
use evidence::Event;
use look::{Look, Looked};
use render::Reading;
use verdict::{Verdict, judge};

/// How many bytes of a key are shown in an error.
const KEY_SHOWN_MAX: usize = 80;

/// Looks, and shows.
pub(super) async fn where_is(
    args: &WhereArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let looked = with_connection(access, "where", async |client| {
        let look = Look { args, config, access, client };
        Box::pin(look.look(terminal.err)).await
    });
    let looked = match Box::pin(looked).await? {
        Ok(looked) => looked,
        Err(usage) => {
            writeln!(terminal.err, "error: {usage}")?;
            return Ok(Exit::Usage);
        }
    };
    let Looked { events, stream, searched, since } = looked;
    let judged = |event: Event| {
        let verdict = judge(&event, stream.as_ref(), &since);
        (event, verdict)
    };
    let events: Vec<(Event, Verdict)> = events.into_iter().map(judged).collect();
    let reading = Reading { since: &since, searched: &searched };
    match (&args.id, &args.key) {
        (None, Some(key)) => show_key(key, &events, &reading, args.form, terminal)?,
        _ => show_one(&events, &reading, args.form, terminal)?,
    }
    let is_in_topic = |(_, verdict): &(Event, Verdict)| verdict.state.is_in_topic();
    let is_done = !events.is_empty() && events.iter().all(is_in_topic);
    Ok(if is_done { Exit::Done } else { Exit::Failure })
}

fn show_one(
    events: &[(Event, Verdict)],
    reading: &Reading<'_>,
    form: Form,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    for (event, verdict) in events {
        match form {
            Form::Text => render::text(event, verdict, reading, terminal.out)?,
            Form::Json => {
                let document = render::document(event, verdict);
                writeln!(terminal.out, "{:#}", render::json_of_one(document, reading))?;
            }
        }
    }
    Ok(())
}

fn show_key(
    key: &str,
    events: &[(Event, Verdict)],
    reading: &Reading<'_>,
    form: Form,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    match form {
        Form::Text => render::list(events, reading, terminal.out)?,
        Form::Json => {
            let documents = events.iter().map(|(event, verdict)| render::document(event, verdict));
            let document = render::json_of_key(key, documents.collect(), reading);
            writeln!(terminal.out, "{document:#}")?;
        }
    }
    if events.is_empty() {
        let key = shown_bytes::text(key.as_bytes(), KEY_SHOWN_MAX);
        writeln!(terminal.err, "error: no row has the key {key}")?;
        let hint = "of an event whose row is deleted: outbox-router where ID --key KEY";
        writeln!(terminal.err, "  hint: {hint}")?;
    }
    Ok(())
}
