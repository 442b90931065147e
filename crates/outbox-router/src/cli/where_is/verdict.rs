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
    codes::hint,
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
    BeforeSlot,
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
            Self::BeforeSlot => "before the slot",
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
        (_, Some(topic)) if topic.left == Left::AllYounger => State::BeforeSlot.because(format!(
            "nothing in {} is as old: the row was written before the slot was created, or before \
             the position that it began at",
            topic.name
        )),
        (_, Some(topic)) => missing(format!("{} does not have it", topic.name)),
        (_, None) => missing("its topic is not known".to_owned()),
    }
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
mod tests {
    use relay::TopicName;

    use super::*;
    use crate::{
        cli::{
            status::{AtRisk, OpenGap, Summary},
            where_is::evidence::{Interval, tests::row},
        },
        kafka::Retention,
    };

    fn stream(flow: Flow) -> Stream {
        let summary = Summary { flow, first: None, left_out: None, gaps: Vec::new() };
        Stream { summary, confirmed: Some(Lsn::from_u64(7)), gaps: Vec::new() }
    }

    fn topic(low: i64, left: Left, retention: Retention) -> TopicState {
        TopicState { name: TopicName::new("t").unwrap(), low, left, age_ms: 5_000, retention }
    }

    fn event(written_ms: i64) -> Event {
        Event { row: Some(row(Some(written_ms))), ending: Some(Ending::Read), ..Event::default() }
    }

    fn state(event: &Event, stream: &Stream) -> State {
        judge(event, Some(stream), "").state
    }

    #[test]
    fn what_is_not_confirmed_is_in_flight_where_a_router_runs_and_waits_elsewhere() {
        assert_eq!(state(&event(1), &stream(Flow::Running)), State::InFlight);
        assert_eq!(state(&event(1), &stream(Flow::Stopped)), State::Waiting);
        assert_eq!(state(&event(1), &stream(Flow::NoSlot)), State::Waiting);
    }

    #[test]
    fn what_is_confirmed_and_not_there_has_a_cause_by_what_the_topic_has_left() {
        let confirmed = |topic| Event { is_confirmed: true, topic: Some(topic), ..event(1) };
        let state = |event: &Event| state(event, &stream(Flow::Running));
        let keeps = Retention::default;
        let compacted = || Retention { is_compacted: true, ..keeps() };
        for (topic, expected) in [
            (topic(0, Left::AsOld, keeps()), State::Missing),
            (topic(3, Left::AsOld, keeps()), State::Missing),
            (topic(3, Left::Younger, keeps()), State::Expired),
            (topic(0, Left::Younger, keeps()), State::Missing),
            (topic(0, Left::AllYounger, keeps()), State::BeforeSlot),
            (topic(0, Left::AllYounger, compacted()), State::Expired),
            (topic(0, Left::AsOld, compacted()), State::Expired),
        ] {
            assert_eq!(state(&confirmed(topic.clone())), expected, "{topic:?}");
        }
        let unread =
            Event { ending: Some(Ending::TimeUp), ..confirmed(topic(0, Left::AsOld, keeps())) };
        assert_eq!(state(&unread), State::Unknown, "not every record was read");
    }

    #[test]
    fn a_retention_that_is_longer_than_the_events_age_has_deleted_nothing() {
        let reason = |millis| {
            let retention = Retention { millis: Some(millis), ..Retention::default() };
            expired(&topic(3, Left::Younger, retention)).reason
        };
        assert!(reason(5_000).contains("(retention.ms=5000, 5 s)"), "{}", reason(5_000));
        assert!(reason(5_001).contains("(somebody has told it to)"), "{}", reason(5_001));
    }

    #[test]
    fn a_row_lies_in_a_gap_by_its_time_and_after_it_where_there_is_no_slot() {
        let gap = OpenGap {
            name: "P010@0/1".to_owned(),
            code: "P010".to_owned(),
            message: "gone".to_owned(),
            hint: Some("accept".to_owned()),
            at_risk: AtRisk { from: None, to: None },
        };
        let with_gap = |flow, from, to| {
            let gaps = vec![(Interval { from, to }, gap.clone())];
            Stream { gaps, ..stream(flow) }
        };
        let within = with_gap(Flow::Stopped, Some(1_000), Some(2_000));
        assert_eq!(state(&event(1_000), &within), State::Gap);
        assert_eq!(state(&event(2_999), &within), State::Gap, "the fraction is not written");
        assert_eq!(state(&event(999), &within), State::Waiting);
        assert_eq!(state(&event(3_000), &within), State::Waiting);
        assert_eq!(state(&event(1), &with_gap(Flow::Stopped, None, None)), State::Gap);
        let no_slot = with_gap(Flow::NoSlot, Some(1_000), Some(2_000));
        assert_eq!(state(&event(3_000), &no_slot), State::Gap);
        let verdict = judge(&event(1_000), Some(&within), "");
        assert_eq!(
            (verdict.code.as_deref(), verdict.hint.as_deref()),
            (Some("P010"), Some("accept"))
        );
    }

    #[test]
    fn a_state_has_one_word_for_programs() {
        assert_eq!(State::BeforeSlot.word(), "before_slot");
        assert_eq!(State::InFlight.word(), "in_flight");
        assert_eq!(State::DeadLettered.word(), "dead_lettered");
        assert_eq!(State::NotCommitted.word(), "not_committed");
    }
}
