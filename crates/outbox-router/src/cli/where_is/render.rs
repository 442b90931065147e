//! One event and a list of them, for people and for programs.

use std::io;

use serde_json::{Map, Value, json};

use super::{
    evidence::{Event, TimeOrigin},
    search::{Ending, Searched},
    times,
    verdict::{State, Verdict},
};
use crate::cli::{dead_letters::DecidedBy, explain_row::Placement, shown_bytes};

/// How many bytes of an id, a key or a reason are shown to people.
const SHOWN_MAX: usize = 500;

/// What was read, and from when on.
pub(super) struct Reading<'r> {
    pub(super) since: &'r str,
    pub(super) searched: &'r [Searched],
}

impl Reading<'_> {
    fn records(&self) -> u64 {
        self.searched.iter().map(|searched| searched.records).sum()
    }

    fn text(&self, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        if self.searched.is_empty() {
            return Ok(());
        }
        let records = self.records();
        let plural = if records == 1 { "" } else { "s" };
        writeln!(out, "read       {records} record{plural} {}", self.since)?;
        for Searched { topic, partition, from, to, ending, .. } in self.searched {
            let why = match ending {
                Ending::Found | Ending::Read => "",
                Ending::Hidden => ", where an open transaction begins",
                Ending::TimeUp => ", where the time was up",
            };
            writeln!(out, "           {topic}-{partition} from offset {from} to {to}{why}")?;
        }
        Ok(())
    }

    fn json(&self) -> Map<String, Value> {
        let one = |searched: &Searched| {
            json!({
                "topic": searched.topic.as_str(),
                "partition": searched.partition,
                "from": searched.from,
                "to": searched.to,
                "records": searched.records,
                "complete": matches!(searched.ending, Ending::Found | Ending::Read),
            })
        };
        let members = [
            ("since", json!(self.since)),
            ("records_read", json!(self.records())),
            ("searched", self.searched.iter().map(one).collect()),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// When an event was committed, and what says so.
fn committed(event: &Event) -> Option<(String, TimeOrigin)> {
    let row = event.row.as_ref();
    if let Some(millis) = row.and_then(|row| row.committed_ms) {
        return Some((times::utc(millis), TimeOrigin::Server));
    }
    if let Some(held) = &event.held {
        return Some((held.committed_at.clone(), TimeOrigin::Held));
    }
    if let Some(found) = event.record().filter(|_| event.has_commit_time()) {
        return Some((times::utc(found.timestamp_ms), TimeOrigin::Record));
    }
    let written = row.and_then(|row| row.written_ms)?;
    Some((times::utc(written), TimeOrigin::Row))
}

fn origin_text(origin: &TimeOrigin, event: &Event) -> String {
    match origin {
        TimeOrigin::Server => "the server's commit timestamp".to_owned(),
        TimeOrigin::Held => "the table of held events".to_owned(),
        TimeOrigin::Record => "the record's timestamp".to_owned(),
        TimeOrigin::Row => {
            format!("column {}", event.time_column.as_deref().unwrap_or_default())
        }
    }
}

/// The event's table; of an event without a row, that of the row as it was held.
fn table(event: &Event) -> Option<String> {
    let held = event.held.as_ref().map(|held| held.table.clone());
    event.table.as_ref().map(ToString::to_string).or(held)
}

/// Where in WAL the event's commit is, as far as anything says it.
fn commit_lsn(event: &Event) -> Option<&str> {
    let held = event.held.as_ref().map(|held| held.commit_lsn.as_str());
    held.or_else(|| event.skip.as_ref().map(|(lsn, _)| lsn.as_str()))
}

/// The topic and partition: of its record, or where that belongs.
fn place(event: &Event) -> (Option<&str>, Option<i32>) {
    match (event.record(), &event.placement) {
        (Some(found), _) => (Some(found.topic.as_str()), Some(found.partition)),
        (None, Some(Placement::Record(placed))) => {
            (Some(placed.topic.as_str()), Some(placed.partition))
        }
        (None, Some(Placement::NoTopic(topic, _))) => (Some(topic.as_str()), None),
        (None, _) => (None, None),
    }
}

/// One event, for people.
pub(super) fn text(
    event: &Event,
    verdict: &Verdict,
    reading: &Reading<'_>,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let shown = |text: &str| shown_bytes::text(text.as_bytes(), SHOWN_MAX);
    writeln!(out, "event      {}", shown(&event.id))?;
    let code = verdict.code.as_ref().filter(|code| !verdict.reason.starts_with(code.as_str()));
    let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
    writeln!(out, "state      {}{code}: {}", verdict.state.text(), shown(&verdict.reason))?;
    if let Some(table) = table(event) {
        writeln!(out, "table      {table}")?;
    }
    if let Some((at, origin)) = committed(event) {
        let lsn = commit_lsn(event).map(|lsn| format!(", at {lsn}")).unwrap_or_default();
        writeln!(out, "committed  {at} ({}){lsn}", origin_text(&origin, event))?;
    }
    match (place(event), event.record()) {
        ((Some(topic), Some(partition)), Some(found)) => {
            let at = times::utc(found.timestamp_ms);
            writeln!(out, "record     {topic}-{partition} at offset {}, {at}", found.offset)?;
        }
        ((Some(topic), Some(partition)), None) => writeln!(out, "belongs    {topic}-{partition}")?,
        ((Some(topic), None), _) => writeln!(out, "belongs    {topic}")?,
        ((None, _), _) => {}
    }
    if let Some(hint) = &verdict.hint {
        writeln!(out, "to do      {hint}")?;
    }
    reading.text(out)
}

/// One event, for programs.
pub(super) fn document(event: &Event, verdict: &Verdict) -> Value {
    let (topic, partition) = place(event);
    let record = event.record();
    let (at, origin) = match committed(event) {
        Some((at, origin)) => (Some(at), Some(origin)),
        None => (None, None),
    };
    let held = event.held.as_ref().map(|held| {
        json!({ "at": held.at, "code": held.code, "held_at": held.held_at, "closed_at": held.closed_at,
            "decided": held.decided.as_ref().map(DecidedBy::json) })
    });
    json!({
        "id": event.id,
        "state": verdict.state.word(),
        "reason": verdict.reason,
        "code": verdict.code,
        "hint": verdict.hint,
        "table": table(event),
        "committed_at": at,
        "committed_at_source": origin.map(|origin| origin_text(&origin, event)),
        "commit_lsn": commit_lsn(event),
        "topic": topic,
        "partition": partition,
        "offset": record.map(|record| record.offset),
        "record_at": record.map(|record| times::utc(record.timestamp_ms)),
        "key": shown_bytes::json(record.and_then(|record| record.key.as_deref())),
        "held": held,
        "skipped": event.skip.as_ref().map(|(lsn, decided)| {
            json!({ "commit_lsn": lsn, "decided": decided.json() })
        }),
    })
}

/// One event and what was read, for programs.
pub(super) fn json_of_one(mut document: Value, reading: &Reading<'_>) -> Value {
    if let Value::Object(members) = &mut document {
        members.extend(reading.json());
    }
    document
}

/// The events of a key, for programs.
pub(super) fn json_of_key(key: &str, events: Vec<Value>, reading: &Reading<'_>) -> Value {
    json_of_one(json!({ "key": key, "events": events }), reading)
}

/// The events of a key, for people: a line for each, the latest first.
pub(super) fn list(
    events: &[(Event, Verdict)],
    reading: &Reading<'_>,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    for (event, verdict) in events {
        let at = committed(event);
        let at = at.map_or_else(|| "-".to_owned(), |(at, _)| at);
        let id = shown_bytes::text(event.id.as_bytes(), SHOWN_MAX);
        write!(out, "{at:24}  {id}  {}", verdict.state.text())?;
        match &event.found {
            Some(found) => {
                writeln!(out, "  {}-{} at offset {}", found.topic, found.partition, found.offset)?;
            }
            None => writeln!(out, ": {}", shown_bytes::text(verdict.reason.as_bytes(), SHOWN_MAX))?,
        }
        if let Some(hint) = verdict.hint.as_ref().filter(|_| verdict.state != State::Acknowledged) {
            writeln!(out, "{:24}  {hint}", "")?;
        }
    }
    reading.text(out)
}
