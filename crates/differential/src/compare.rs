//! What differs between Debezium's records and the router's, or between two recordings.

use crate::case::Case;
use crate::golden::{Golden, Outcome, Record};

/// Whether the router makes of a row what Debezium makes of it.
pub fn is_same(debezium: &[Record], ours: &Outcome) -> bool {
    match (debezium, ours) {
        ([theirs], Outcome::Record(ours)) => theirs == ours,
        // Which words are used for it does not matter.
        ([], Outcome::Stops(_)) => true,
        _ => false,
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
    let rows = case.rows.iter().zip(before.rows.iter().zip(&now.rows));
    rows.filter(|(_, (before, now))| before.debezium != now.debezium || before.ours != now.ours)
        .map(|(row, (before, now))| {
            let [before, now] = [before, now].map(|row| shown(&(&row.debezium, &row.ours)));
            format!("{} {:?}\n  recorded {before}\n  now      {now}", case.name, row.values)
        })
        .collect()
}

fn shown(part: &(impl serde::Serialize + ?Sized)) -> String {
    serde_json::to_string(part).unwrap_or_default()
}
