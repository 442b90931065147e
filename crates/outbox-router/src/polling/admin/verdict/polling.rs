//! The verdict on a worker that polls: whether rows flow, and what those wait for that do not.

use std::time::Duration;

use relay::Failure;

use super::super::facts::{Facts, NotDue, PendingTrend, counted};
use crate::{
    monitor::Blame,
    polling::survey::of_which_not_due,
    status::{Word, verdict::named},
    wording,
};

/// Rows that have been pending for longer are a backlog. They are read once in `polling.interval`,
/// which is a second, and the survey counts less often than that.
const KEEPS_UP: Duration = Duration::from_secs(10);

/// Word, sentence and reason.
pub(super) fn judge<'a>(facts: &Facts<'a>) -> (Word, String, Option<&'a Failure>) {
    let unseen = facts.survey_failure();
    let list = |waits: [Option<String>; 4]| -> String {
        waits.into_iter().flatten().map(|what| format!("; {what}")).collect()
    };
    let [retried, abandoned, uncounted] = [retried(facts), abandoned(facts), uncounted(unseen)];
    let oldest = facts.oldest.filter(|age| *age >= KEEPS_UP && facts.due() > 0);
    let (Some(age), Some(rows)) = (oldest, facts.rows) else {
        let waits = list([retried, abandoned, not_due(facts), uncounted]);
        return (Word::Ok, format!("rows flow{waits}"), unseen);
    };
    // What is pending behind a row that could not be delivered waits for that one. Beside it a
    // backlog of other keys may become smaller.
    let is_held = facts.undelivered() > 0
        && (facts.report.unacked == 0 || facts.trend == PendingTrend::Steady);
    if is_held {
        let behind = behind(facts, age).map(|what| format!("; {what}")).unwrap_or_default();
        let waits = list([retried, abandoned, not_due(facts), uncounted]);
        return (Word::Ok, format!("rows flow{waits}{behind}"), unseen);
    }
    let empty = facts.empty_in.map(|time| {
        format!("; nothing is pending in about {} at this pace", wording::roughly(time))
    });
    let sentence = format!(
        "{} pending{}, the oldest for {}{}{}{}",
        counted(rows.pending),
        of_which(facts),
        wording::roughly(age),
        empty.unwrap_or_default(),
        waits_for(facts.blame),
        list([retried, abandoned, None, uncounted]),
    );
    (Word::CatchingUp, sentence, unseen)
}

/// Rows that are tried again, and why one of them could not be delivered.
fn retried(facts: &Facts<'_>) -> Option<String> {
    let rows = facts.waiting.rows;
    let waits = wait(rows)?;
    let why = match (facts.waiting.failure, rows) {
        (None, _) => String::new(),
        (Some(failure), 1) => format!(": {}", named(failure)),
        (Some(failure), _) => format!(", one of them: {}", named(failure)),
    };
    Some(format!("{waits} for another attempt{why}"))
}

/// What keeps a person busy while the others are delivered.
pub(super) fn halted(facts: &Facts<'_>, failure: &Failure) -> String {
    let rows = facts.waiting.rows.max(1);
    let waits = wait(rows).unwrap_or_default();
    let among = if rows == 1 { ":" } else { ", one of them:" };
    format!("{waits} for another attempt{among} {}; other keys go on", named(failure))
}

fn abandoned(facts: &Facts<'_>) -> Option<String> {
    let rows = facts.abandoned();
    (rows > 0).then(|| format!("{} abandoned", wording::rows_are(rows)))
}

fn not_due(facts: &Facts<'_>) -> Option<String> {
    let NotDue { rows, first } = facts.not_due?;
    let time = first.map(wording::roughly);
    Some(match (rows, time) {
        (1, Some(time)) => format!("1 row is not due yet, but in {time}"),
        (rows, Some(time)) => format!("{rows} rows are not due yet, the first is in {time}"),
        (rows, None) => format!("{} not due yet", wording::rows_are(rows)),
    })
}

/// Those of the pending rows that are not due, beside others.
pub(super) fn of_which(facts: &Facts<'_>) -> String {
    let Some(NotDue { rows, first }) = facts.not_due else { return String::new() };
    of_which_not_due(rows, first)
}

fn uncounted(unseen: Option<&Failure>) -> Option<String> {
    unseen.map(|failure| format!("pending rows cannot be counted: {}", named(failure)))
}

/// What is pending beside the rows that are tried again.
fn behind(facts: &Facts<'_>, age: Duration) -> Option<String> {
    let rows = facts.due().saturating_sub(facts.waiting.rows);
    if rows == 0 {
        return None;
    }
    let (are, whom) =
        (wording::rows_are(rows), if facts.undelivered() == 1 { "it" } else { "them" });
    let whose = if facts.undelivered() == 1 { "its key" } else { "their keys" };
    let age = wording::roughly(age);
    Some(format!("{are} pending, the oldest row for {age}: what is of {whose} waits behind {whom}"))
}

fn wait(rows: u64) -> Option<String> {
    match rows {
        0 => None,
        1 => Some("1 row waits".to_owned()),
        rows => Some(format!("{rows} rows wait")),
    }
}

/// Whom the rows wait for, as the end of a sentence.
pub(super) const fn waits_for(blame: Blame) -> &'static str {
    match blame {
        Blame::Nobody => "",
        Blame::Postgres => "; the worker waits for PostgreSQL",
        Blame::Router => "; the worker reads nothing",
        Blame::Kafka => "; the worker waits for Kafka",
        Blame::Holder => "; other workers have these rows",
    }
}
