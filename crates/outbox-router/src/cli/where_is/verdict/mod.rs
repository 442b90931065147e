//! What all that was found about an event means. Plain functions of the evidence.

use std::time::Duration;

use relay::{Failure, Lsn};

use super::{
    evidence::{Event, Left, Stream, TopicState},
    search::Ending,
};
use crate::{
    cli::{
        dead_letters::{HeldEvent, HeldState},
        explain_row::Placement,
        status::{Flow, Why},
    },
    codes::{ADMIN, hint},
    wording,
};

/// Where an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Acknowledged,
    Deleted,
    InFlight,
    Waiting,
    NotCommitted,
    /// Nothing in the topic is as old. A topic that was made again and a slot that is younger than
    /// the row look the same.
    BeforeTopic,
    Missing,
    Expired,
    Held,
    DeadLettered,
    Dropped,
    Skipped,
    Filtered,
    Gap,
    Unknown,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) state: State,
    pub(super) reason: String,
    pub(super) code: Option<String>,
    /// What to type.
    pub(super) hint: Option<String>,
}

impl State {
    /// For people.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::Deleted => "deleted",
            Self::InFlight => "in flight",
            Self::Waiting => "waiting",
            Self::NotCommitted => "not committed",
            Self::BeforeTopic => "before the topic",
            Self::Missing => "missing",
            Self::Expired => "expired",
            Self::Held => "held",
            Self::DeadLettered => "dead-lettered",
            Self::Dropped => "dropped",
            Self::Skipped => "skipped",
            Self::Filtered => "filtered",
            Self::Gap => "gap",
            Self::Unknown => "unknown",
        }
    }

    /// For programs.
    pub(super) fn word(self) -> String {
        self.text().replace([' ', '-'], "_").replace("_the_", "_")
    }

    /// Whether Kafka has the event.
    pub(super) const fn is_in_topic(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Deleted)
    }

    fn because(self, reason: impl Into<String>) -> Verdict {
        Verdict { state: self, reason: reason.into(), code: None, hint: None }
    }
}

impl Verdict {
    fn with(self, why: &Why) -> Self {
        Self { code: why.code.clone(), hint: why.hint.clone(), ..self }
    }

    fn of_failure(self, failure: &Failure) -> Self {
        Self { code: Some(failure.code.to_string()), hint: hint(failure), ..self }
    }
}

/// What the table of held events alone decides; `None` where the topic has to be searched.
pub(super) fn by_held(held: &HeldEvent) -> Option<Verdict> {
    let code = held.code.as_deref().unwrap_or("-");
    let error = held.error.as_deref().unwrap_or_default();
    let letter = format!("{code} since {}: {error}", held.held_at);
    let decided = held.decided.as_ref().map(|decided| format!(" {}", decided.text()));
    let decided = decided.unwrap_or_default();
    let state = if held.code.is_some() { State::DeadLettered } else { State::Held };
    let verdict = match &held.is {
        HeldState::Undecided => state.because(letter),
        HeldState::Behind(Some(place)) => {
            let show = format!("outbox-router dead-letters show --id {place}");
            let reason = format!("since {}, behind the dead letter at {place}", held.held_at);
            return Some(Verdict { hint: Some(show), ..State::Held.because(reason) });
        }
        HeldState::Behind(None) => {
            return Some(State::Held.because(format!(
                "since {}; no dead letter is before it any more: the router delivers it",
                held.held_at
            )));
        }
        HeldState::Requeued => {
            state.because(format!("{letter}; requeued{decided}, and not delivered yet"))
        }
        HeldState::Dropping => {
            state.because(format!("{letter}; given up{decided}, and not dropped yet"))
        }
        HeldState::Dropped => {
            let closed = held.closed_at.as_deref().unwrap_or("-");
            State::Dropped.because(format!("given up{decided}; dropped at {closed}"))
        }
        HeldState::Delivered => return None,
    };
    Some(Verdict { code: held.code.clone(), hint: Some(held.show.clone()), ..verdict })
}

/// Whether the answer about an event depends on what its topic has.
pub(super) fn needs_topic(event: &Event) -> bool {
    let is_filtered = matches!(event.placement, Some(Placement::Filtered(_)));
    event.found.is_none() && !is_filtered && event.held.as_ref().and_then(by_held).is_none()
}

/// The answer about an event whose row or record was looked for.
pub(super) fn judge(event: &Event, stream: Option<&Stream>, since: &str) -> Verdict {
    if let Some(verdict) = event.held.as_ref().and_then(by_held) {
        return verdict;
    }
    if let Some(found) = &event.found {
        let place = format!("at offset {} of {}-{}", found.offset, found.topic, found.partition);
        return match &event.row {
            Some(_) => State::Acknowledged.because(place),
            None => State::Deleted.because(format!("no table has its row any more; {place}")),
        };
    }
    if let Some(Placement::Filtered(by)) = &event.placement {
        return State::Filtered.because(format!("the table's filter leaves it out: {by}"));
    }
    if event.row.is_none() {
        return without_row(event, since);
    }
    if let Some(Placement::Record(placed)) = &event.placement
        && placed.id.is_none()
    {
        let what = "its record has no id in a header, so it cannot be told from others; it belongs";
        return State::Unknown.because(format!("{what} to {}-{}", placed.topic, placed.partition));
    }
    match stream {
        Some(stream) => not_found(event, stream),
        None => State::Unknown.because("its topic was not read"),
    }
}

fn without_row(event: &Event, since: &str) -> Verdict {
    if let Some(skipped) = skipped(event) {
        return skipped;
    }
    if let Some(unread) = unread(event) {
        return unread;
    }
    State::NotCommitted.because(format!(
        "no table has such a row, and no topic a record of it {since}: its transaction is open or \
         was rolled back, or the row is deleted and the record older"
    ))
}

/// What the search has not read, so that nothing follows from its finding nothing.
fn unread(event: &Event) -> Option<Verdict> {
    match event.ending? {
        Ending::TimeUp => Some(Verdict {
            hint: Some("give a longer --timeout, or a later --since".to_owned()),
            ..State::Unknown.because("the topic was not read to its end in time")
        }),
        Ending::Hidden => Some(State::Unknown.because(
            "a transaction of another producer is open in the partition, and hides what comes \
             after it",
        )),
        Ending::Found | Ending::Read => None,
    }
}

fn skipped(event: &Event) -> Option<Verdict> {
    let (lsn, decided) = event.skip.as_ref()?;
    Some(State::Skipped.because(format!("at {lsn}, {}", decided.text())))
}

/// The row is in the table, and its record was not found.
fn not_found(event: &Event, stream: &Stream) -> Verdict {
    if let Some(skipped) = skipped(event) {
        return skipped;
    }
    if let Some(gap) = stream.gap_of(event.time_ms()) {
        let reason = format!("the row lies in an open gap, {}: {}", gap.name, gap.message);
        let (code, hint) = (Some(gap.code.clone()), gap.hint.clone());
        return Verdict { code, hint, ..State::Gap.because(reason) };
    }
    if event.is_confirmed {
        return confirmed(event, stream);
    }
    match stream.summary.flow {
        Flow::Running => in_flight(event, stream.confirmed),
        Flow::Stopped => waiting(event, stream),
        Flow::NoSlot => match event.topic.as_ref().filter(|topic| topic.is_trimmed()) {
            Some(topic) => expired(topic),
            None => waiting(event, stream),
        },
    }
}

fn in_flight(event: &Event, confirmed: Option<Lsn>) -> Verdict {
    let confirmed = confirmed.map(|lsn| format!(" (the slot stands at {lsn})"));
    let reason =
        format!("committed, and not confirmed yet{}; a router runs", confirmed.unwrap_or_default());
    match &event.placement {
        Some(Placement::Refused(failure)) => {
            let message = failure.message_with_causes();
            let verdict =
                State::InFlight.because(format!("{reason}, and cannot route it: {message}"));
            verdict.of_failure(failure)
        }
        _ => State::InFlight.because(reason),
    }
}

fn waiting(event: &Event, stream: &Stream) -> Verdict {
    if let Some(first) = &stream.summary.first {
        return State::Waiting.because(format!("committed; {}", first.message)).with(first);
    }
    match &event.placement {
        Some(Placement::Refused(failure) | Placement::NoTopic(_, Some(failure))) => {
            let message = failure.message_with_causes();
            State::Waiting.because(format!("committed; {message}")).of_failure(failure)
        }
        _ => State::Waiting.because("committed, and nobody reads the slot"),
    }
}

/// The slot does not send the row again.
fn confirmed(event: &Event, stream: &Stream) -> Verdict {
    if let Some(unread) = unread(event) {
        return unread;
    }
    let missing = |what: String| {
        let verdict = State::Missing.because(format!("the slot has confirmed it, and {what}"));
        match &stream.summary.left_out {
            None => verdict,
            Some(why) => {
                let reason = format!("{}; {}", verdict.reason, why.message);
                Verdict { reason, ..verdict.with(why) }
            }
        }
    };
    match (&event.placement, &event.topic) {
        (Some(Placement::Refused(failure)), _) => {
            missing(format!("run would stop at it now: {}", failure.message_with_causes()))
        }
        (Some(Placement::NoTopic(topic, _)), _) => missing(format!("there is no topic {topic}")),
        (_, Some(topic)) if topic.is_trimmed() => expired(topic),
        (_, Some(topic)) if topic.retention.is_compacted => State::Expired.because(format!(
            "confirmed; {} is compacted, and keeps the last record of each key alone",
            topic.name
        )),
        (_, Some(topic)) if topic.left == Left::AllYounger => before_topic(event, topic),
        (_, Some(topic)) => missing(format!("{} does not have it", topic.name)),
        (_, None) => missing("its topic is not known".to_owned()),
    }
}

/// Nobody wrote down when the slot was created, so a topic that was deleted and made again cannot
/// be told from a row that is older than the slot. What sends the event is the same.
fn before_topic(event: &Event, topic: &TopicState) -> Verdict {
    let verdict = State::BeforeTopic.because(format!(
        "the slot has passed it, and {} does not have it, nor anything as old: its records were \
         removed, as when a topic is deleted and made again, or the row was written before the slot \
         was created",
        topic.name
    ));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let id = if event.id.chars().all(is_plain) { event.id.as_str() } else { "ID" };
    Verdict { hint: Some(format!("to send it: outbox-router replay --id {id} {ADMIN}")), ..verdict }
}

fn expired(topic: &TopicState) -> Verdict {
    let by_age = topic.retention.millis.filter(|limit| *limit <= topic.age_ms);
    let limit = match (by_age, topic.retention.bytes) {
        (Some(millis), _) => {
            let time = Duration::from_millis(u64::try_from(millis).unwrap_or_default());
            format!("retention.ms={millis}, {}", wording::roughly(time))
        }
        (None, Some(bytes)) => format!("retention.bytes={bytes}"),
        (None, None) => "somebody has told it to".to_owned(),
    };
    State::Expired.because(format!(
        "{} has deleted its records of that time ({limit}): the first that is left is at offset {}",
        topic.name, topic.low
    ))
}

#[cfg(test)]
mod tests;
