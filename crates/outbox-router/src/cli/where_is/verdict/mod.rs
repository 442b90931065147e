//! What all that was found about an event means. Plain functions of the evidence.

mod answer;
mod marked;

use std::time::Duration;

use relay::Lsn;

use super::{
    evidence::{Doubt, Event, Left, Stream, TopicState},
    search::FoundRecord,
    whose,
};
use crate::{
    cli::{
        dead_letters::{HeldEvent, HeldState},
        explain_row::Placement,
        shown_bytes,
        status::{Flow, OpenGap, Why},
    },
    codes::{ADMIN, hint_of_open},
    wording,
};
pub(super) use answer::{State, Verdict};
use answer::{named, unread};
use marked::marked;

/// How many bytes of a key are shown.
const KEY_SHOWN_MAX: usize = 80;

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
    let verdict = with_other_content(event, by_evidence(event, stream, since));
    // Of a row that is still to be sent, no record is expected.
    let is_expected = event.record().is_none() && (event.is_confirmed || event.row.is_none());
    let Some(record) = event.of_another_key.as_ref().filter(|_| is_expected) else {
        return verdict;
    };
    let (key, place) = (key_of(record), place(record));
    let reason = match &event.row {
        Some(_) => format!(
            "{}; a record with its id and another key, {key}, is {place}: of another row, unless \
             the key of this one, or the configuration's key, was changed since",
            verdict.reason
        ),
        None => format!(
            "{}; a record with its id and another key than --key says, {key}, is {place}",
            verdict.reason
        ),
    };
    Verdict { reason, ..verdict }
}

/// Says that ids repeat, where that was seen.
fn with_other_content(event: &Event, verdict: Verdict) -> Verdict {
    let Some((last, count)) = &event.of_other_content else { return verdict };
    if event.under_other_content().is_some() {
        return verdict;
    }
    let records = if *count == 1 { "1 record has" } else { &format!("{count} records have") };
    let reason = format!(
        "{}; {records} its id and key with other content, the last {}: of another row, unless this \
         one or the configuration was changed since",
        verdict.reason,
        place(last)
    );
    Verdict { reason, ..verdict }
}

fn by_evidence(event: &Event, stream: Option<&Stream>, since: &str) -> Verdict {
    if let Some(verdict) = event.held.as_ref().and_then(by_held) {
        return verdict;
    }
    if let Some(found) = &event.found {
        let like = format!(
            "a record like it is {}, which may be of a former row with its id",
            place(found)
        );
        match &event.doubt {
            Some(Doubt::Gap(gap)) => {
                let (name, failure) = (gap.name(), &gap.failure);
                let reason =
                    format!("the row may lie in an open gap, {name}: {}; {like}", failure.message);
                let code = Some(failure.code.to_string());
                let hint = hint_of_open(failure, &name);
                return Verdict { code, hint, ..State::Gap.because(reason) };
            }
            Some(Doubt::Unknown(failure)) => {
                let what = failure.message_with_causes();
                let reason = format!("{like}: whether a gap is open is not known, {what}");
                return State::Unknown.because(reason).of_failure(failure);
            }
            None => {}
        }
        return match &event.row {
            Some(_) => State::Acknowledged.because(place(found)),
            None => deleted(event, &place(found)),
        };
    }
    if let Some(record) = event.under_other_content() {
        return State::Acknowledged.because(format!(
            "{}, with other content than it would get now: the row or the configuration was \
             changed since",
            place(record)
        ));
    }
    if let Some(record) = event.under_another_key() {
        return State::Acknowledged.because(format!(
            "{}, under another key than it would get now: the row's key or the configuration was \
             changed since; the record's key is {}",
            place(record),
            key_of(record)
        ));
    }
    if let Some(Placement::Filtered(by)) = &event.placement {
        return filtered(event, stream, by);
    }
    if event.row.is_none() {
        return without_row(event, since);
    }
    if let Some(verdict) = event.mark.as_ref().and_then(|mark| marked(event, mark)) {
        return verdict;
    }
    if let Some(Placement::Record(placed)) = &event.placement
        && placed.id.is_none()
    {
        let what = "its record has no id in a header, so it cannot be told from others; it belongs";
        return State::Unknown.because(format!("{what} to {}-{}", placed.topic, placed.partition));
    }
    match (&event.mark, stream) {
        (Some(_), _) => skipped(event).unwrap_or_else(|| passed(event, By::Mark)),
        (None, Some(stream)) => not_found(event, stream),
        (None, None) => State::Unknown.because("its topic was not read"),
    }
}

fn place(found: &FoundRecord) -> String {
    format!("at offset {} of {}-{}", found.offset, found.topic, found.partition)
}

fn key_of(record: &FoundRecord) -> String {
    shown_bytes::text(record.key.as_deref().unwrap_or_default(), KEY_SHOWN_MAX)
}

/// A record with the id of an event that has no row, so that --key alone says its key.
fn deleted(event: &Event, place: &str) -> Verdict {
    let key = event.asked_key.as_ref();
    let and_key =
        key.map(|key| format!(" and the key {}", shown_bytes::text(key.as_bytes(), KEY_SHOWN_MAX)));
    let its = match &and_key {
        Some(and_key) => format!("a record with its id{and_key} is {place}"),
        None => format!("a record with its id, which alone says whose it is, is {place}"),
    };
    let Some(table) = &event.asked else {
        return State::Deleted.because(format!("no table has its row any more; {its}"));
    };
    let Some(other) = event.others.first().filter(|_| !whose::is_unique(&event.id)) else {
        return State::Deleted.because(format!("{table} does not have its row any more; {its}"));
    };
    let others: Vec<String> = event.others.iter().map(ToString::to_string).collect();
    let verdict = State::Unknown.because(format!(
        "{table} does not have such a row; a record with this id{} is {place}, and may be of \
         another table, whose rows may go there, too: {}",
        and_key.unwrap_or_default(),
        others.join(", ")
    ));
    let id = named(event);
    Verdict { hint: Some(format!("outbox-router where {id} --table {other}")), ..verdict }
}

fn without_row(event: &Event, since: &str) -> Verdict {
    if let Some(skipped) = skipped(event) {
        return skipped;
    }
    if let Some(unread) = unread(event) {
        return unread;
    }
    let without = match &event.asked {
        Some(table) => format!("{table} does not have such a row"),
        None => "no table has such a row".to_owned(),
    };
    State::NotCommitted.because(format!(
        "{without}, and no topic a record of it {since}: its transaction is open or was rolled \
         back, or the row is deleted and the record older"
    ))
}

fn skipped(event: &Event) -> Option<Verdict> {
    let (lsn, decided) = event.skip.as_ref()?;
    Some(State::Skipped.because(format!("at {lsn}, {}", decided.text())))
}

/// The filter leaves the row out as it is now. The stream sends a row as it was inserted.
fn filtered(event: &Event, stream: Option<&Stream>, by: &str) -> Verdict {
    let reason = format!("the table's filter leaves it out: {by}");
    let is_streamed = event.mark.is_none() && event.row.is_some();
    let Some(stream) = stream.filter(|_| is_streamed) else {
        return State::Filtered.because(reason);
    };
    if let Some(gap) = stream.gap_of(event.time_ms()) {
        return in_gap(gap);
    }
    State::Filtered.because(if event.is_confirmed {
        reason
    } else {
        format!(
            "{reason}; the slot may not have passed it yet, and sends the row as it was inserted, \
             which may have been an event"
        )
    })
}

fn in_gap(gap: &OpenGap) -> Verdict {
    let reason = format!("the row lies in an open gap, {}: {}", gap.name, gap.message);
    let (code, hint) = (Some(gap.code.clone()), gap.hint.clone());
    Verdict { code, hint, ..State::Gap.because(reason) }
}

/// The row is in the table, and its record was not found.
fn not_found(event: &Event, stream: &Stream) -> Verdict {
    if let Some(skipped) = skipped(event) {
        return skipped;
    }
    if let Some(gap) = stream.gap_of(event.time_ms()) {
        return in_gap(gap);
    }
    if event.is_confirmed {
        return passed(event, By::Slot(stream.summary.left_out.as_ref()));
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

/// What says that a row is not sent again.
#[derive(Debug, Clone, Copy)]
enum By<'w> {
    /// The slot; and what may have left rows out.
    Slot(Option<&'w Why>),
    /// The row's own mark.
    Mark,
}

impl By<'_> {
    const fn text(self) -> &'static str {
        match self {
            Self::Slot(_) => "the slot has confirmed it",
            Self::Mark => "it is marked as published",
        }
    }

    const fn briefly(self) -> &'static str {
        match self {
            Self::Slot(_) => "confirmed",
            Self::Mark => "marked as published",
        }
    }

    fn missing(self, what: &str) -> Verdict {
        let verdict = State::Missing.because(format!("{}, and {what}", self.text()));
        match self {
            Self::Mark | Self::Slot(None) => verdict,
            Self::Slot(Some(why)) => {
                let reason = format!("{}; {}", verdict.reason, why.message);
                Verdict { reason, ..verdict.with(why) }
            }
        }
    }
}

/// The row is not sent again.
fn passed(event: &Event, by: By<'_>) -> Verdict {
    if let Some(unread) = unread(event) {
        return unread;
    }
    match (&event.placement, &event.topic) {
        (Some(Placement::Refused(failure)), _) => {
            by.missing(&format!("run would stop at it now: {}", failure.message_with_causes()))
        }
        (Some(Placement::NoTopic(topic, _)), _) => {
            by.missing(&format!("there is no topic {topic}"))
        }
        (_, Some(topic)) if topic.is_trimmed() => expired(topic),
        (_, Some(topic)) if topic.retention.is_compacted => State::Expired.because(format!(
            "{}; {} is compacted, and keeps the last record of each key alone",
            by.briefly(),
            topic.name
        )),
        (_, Some(topic)) if topic.left == Left::AllYounger => before_topic(event, topic, by),
        (_, Some(topic)) => by.missing(&format!("{} does not have it", topic.name)),
        (_, None) => by.missing("its topic is not known"),
    }
}

/// Nobody wrote down when the slot was created, so a topic that was deleted and made again cannot
/// be told from a row that is older than the slot; nor who has marked a row. What sends the event
/// is the same.
fn before_topic(event: &Event, topic: &TopicState, by: By<'_>) -> Verdict {
    let (passed, or) = match by {
        By::Slot(_) => {
            ("the slot has passed it", "the row was written before the slot was created")
        }
        By::Mark => (by.text(), "somebody else has marked the row"),
    };
    let verdict = State::BeforeTopic.because(format!(
        "{passed}, and {} does not have it, nor anything as old: its records were removed, as when \
         a topic is deleted and made again, or {or}",
        topic.name
    ));
    let id = named(event);
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
