//! The answer: where an event is, and why.

use relay::Failure;

use crate::{
    cli::{
        status::Why,
        where_is::{evidence::Event, search::Ending},
    },
    codes::hint,
};

/// Where an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum State {
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
pub(in super::super) struct Verdict {
    pub(in super::super) state: State,
    pub(in super::super) reason: String,
    pub(in super::super) code: Option<String>,
    /// What to type.
    pub(in super::super) hint: Option<String>,
}

impl State {
    /// For people.
    pub(in super::super) const fn text(self) -> &'static str {
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
    pub(in super::super) fn word(self) -> String {
        self.text().replace([' ', '-'], "_").replace("_the_", "_")
    }

    /// Whether Kafka has the event.
    pub(in super::super) const fn is_in_topic(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Deleted)
    }

    pub(super) fn because(self, reason: impl Into<String>) -> Verdict {
        Verdict { state: self, reason: reason.into(), code: None, hint: None }
    }
}

impl Verdict {
    pub(super) fn with(self, why: &Why) -> Self {
        Self { code: why.code.clone(), hint: why.hint.clone(), ..self }
    }

    pub(super) fn of_failure(self, failure: &Failure) -> Self {
        Self { code: Some(failure.code.to_string()), hint: hint(failure), ..self }
    }
}

/// The event's id as a command takes it, or what stands for one that needs quotes in a shell.
pub(super) fn named(event: &Event) -> &str {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let id = event.id.as_str();
    if !id.is_empty() && id.chars().all(is_plain) { id } else { "ID" }
}

/// What the search has not read, so that nothing follows from its finding nothing.
pub(super) fn unread(event: &Event) -> Option<Verdict> {
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
