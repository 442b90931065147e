//! What differs between Debezium's records and the router's, or between two recordings.

use crate::case::Case;
use crate::golden::{Golden, Outcome, Record, RecordedRow};

/// How what the router makes of a row stands to what Debezium makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// One record, the same one.
    Same,
    /// Neither writes a record. The recording says why Debezium did not.
    BothRefuse,
    /// Anything else: a case has to give a reason.
    Differs,
}

/// Compares what becomes of a row.
pub fn verdict(debezium: &[Record], ours: &Outcome) -> Verdict {
    match (debezium, ours) {
        ([theirs], Outcome::Record(ours)) if theirs == ours => Verdict::Same,
        ([], Outcome::Stops(_)) => Verdict::BothRefuse,
        _ => Verdict::Differs,
    }
}

impl RecordedRow {
    /// The same of a recorded row.
    pub fn verdict(&self) -> Verdict {
        self.ours.as_ref().map_or(Verdict::Same, |ours| verdict(&self.debezium, ours))
    }

    /// The class of Debezium's exception: its message may name a time.
    fn exception(&self) -> Option<&str> {
        self.refused.as_deref()?.split(':').next()
    }
}

/// The differences, a line each; none where there is none.
pub fn differences(debezium: &[Record], ours: &Outcome) -> Vec<String> {
    let (theirs, ours) = match (debezium, ours) {
        ([], Outcome::Stops(_)) => return Vec::new(),
        (theirs, Outcome::Stops(code)) => {
            return vec![format!("{}, ours stops: {code}", shown(theirs))];
        }
        ([theirs], Outcome::Record(ours)) => (theirs, ours),
        ([], Outcome::Record(ours)) => return vec![format!("no record, ours {}", shown(ours))],
        (several, Outcome::Record(_)) => return vec![format!("{} records", several.len())],
    };
    let parts = [
        ("topic", shown(&theirs.topic), shown(&ours.topic)),
        ("partition", shown(&theirs.partition), shown(&ours.partition)),
        ("key", shown(&theirs.key), shown(&ours.key)),
        ("value", shown(&theirs.value), shown(&ours.value)),
        ("headers", shown(&theirs.headers), shown(&ours.headers)),
        ("time", shown(&theirs.time), shown(&ours.time)),
    ];
    let differing = parts.into_iter().filter(|(_, theirs, ours)| theirs != ours);
    differing.map(|(part, theirs, ours)| format!("{part}: {theirs}, ours {ours}")).collect()
}

/// The rows of which two recordings say different things, a line each.
pub fn changes(case: &Case, before: &Golden, now: &Golden) -> Vec<String> {
    if before.rows.len() != now.rows.len() {
        return vec![format!("{}: {} rows", case.name, now.rows.len())];
    }
    let parts = |row: &RecordedRow| {
        let exception = row.exception().map(str::to_owned);
        shown(&(&row.debezium, exception, &row.ours))
    };
    let rows = case.rows.iter().zip(before.rows.iter().zip(&now.rows));
    rows.map(|(row, (before, now))| (row, parts(before), parts(now)))
        .filter(|(_, before, now)| before != now)
        .map(|(row, before, now)| {
            format!("{} {:?}\n  recorded {before}\n  now      {now}", case.name, row.values)
        })
        .collect()
}

fn shown(part: &(impl serde::Serialize + ?Sized)) -> String {
    serde_json::to_string(part).unwrap_or_default()
}
