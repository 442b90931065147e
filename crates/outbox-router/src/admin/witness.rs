//! The witness in the state topic, as `/status.json` shows it.

use relay::witness::{Acceptance, LostTopic, Recovered, WitnessStore};
use serde::Serialize;

use super::{
    reason::{IntervalView, MarkView, texts},
    view::View,
};
use crate::{codes::to_type_of_open, monitor::Gap};

/// The witness.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WitnessView {
    /// `kafka`; `off` where kafka.state_topic is empty.
    pub kept: &'static str,
    /// Up to where everything is acknowledged, by the witness; `null`: there is no witness.
    pub position: Option<String>,
    /// Where the pipeline began without a witness, until a person accepts that.
    pub began_without: Option<MarkView>,
    /// The gaps that nobody has accepted.
    pub gaps: Vec<OpenGap>,
    /// The topics that were deleted after this pipeline had produced to them, until a person
    /// accepts that.
    pub lost_topics: Vec<LostTopicView>,
    /// Whether all of these gaps are in Kafka, and so outlive this process.
    pub gaps_recorded: bool,
    /// The gaps that a person has accepted, the latest last.
    pub accepted: Vec<AcceptedView>,
}

/// A gap that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenGap {
    /// `CODE@LSN`, as `outbox-router accept --gap` takes it.
    pub name: String,
    /// What happened.
    pub message: String,
    /// What to type.
    pub hint: Option<String>,
    /// What of it is a command for the shell, or a statement for psql, in its order.
    pub commands: Vec<String>,
    /// The interval in which rows may be missing.
    pub interval: IntervalView,
}

/// A topic that was deleted, with the events that it had.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LostTopicView {
    /// `CODE@LSN`, as `outbox-router accept --gap` takes it.
    pub name: String,
    /// The topic.
    pub topic: String,
    /// The id that it had.
    pub was: String,
    /// The id of the topic that has its name now; `null`: there is none.
    pub now: Option<String>,
    /// When that was noticed.
    pub noticed: MarkView,
    /// What happened.
    pub message: String,
    /// What to type.
    pub hint: Option<String>,
    /// What of it is a command for the shell, or a statement for psql, in its order.
    pub commands: Vec<String>,
}

/// A gap that a person has accepted.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AcceptedView {
    /// `CODE@LSN`.
    pub name: String,
    /// Who accepted it.
    pub by: String,
    /// When it was accepted, in UTC.
    pub at: String,
    /// What `recover` has sent before; left out where it was accepted otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered: Option<RecoveredView>,
}

/// What was sent of the rows of a gap.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecoveredView {
    /// Rows that were in no topic.
    pub rows: u64,
    /// Records that were sent for them.
    pub records: u64,
}

impl WitnessView {
    pub(super) fn of(view: &View<'_>) -> Self {
        let witness = &view.relay.snapshot.witness;
        Self {
            kept: match witness.store {
                WitnessStore::Kafka => "kafka",
                WitnessStore::Memory => "off",
            },
            position: witness.position.map(|lsn| lsn.to_string()),
            began_without: witness.began_without.as_ref().map(MarkView::of),
            gaps: witness.gaps.iter().chain(&witness.other_server_gap).map(OpenGap::of).collect(),
            lost_topics: witness.lost_topics.iter().map(LostTopicView::of).collect(),
            gaps_recorded: witness.are_gaps_written,
            accepted: witness.accepted.iter().map(AcceptedView::of).collect(),
        }
    }
}

impl OpenGap {
    fn of(gap: &Gap) -> Self {
        let (hint, commands) = texts(to_type_of_open(&gap.failure, &gap.name()));
        Self {
            name: gap.name(),
            message: gap.failure.message.clone(),
            hint,
            commands,
            interval: IntervalView::of(gap),
        }
    }
}

impl LostTopicView {
    fn of(lost: &LostTopic) -> Self {
        let (name, finding) = (lost.name(), lost.finding());
        let (hint, commands) = texts(to_type_of_open(&finding, &name));
        Self {
            hint,
            commands,
            name,
            topic: lost.topic.clone(),
            was: lost.was.as_str().to_owned(),
            now: lost.now.as_ref().map(|now| now.as_str().to_owned()),
            noticed: MarkView::of(&lost.noticed),
            message: finding.message,
        }
    }
}

impl AcceptedView {
    fn of(acceptance: &Acceptance) -> Self {
        Self {
            name: format!("{}@{}", acceptance.code, acceptance.lsn),
            by: acceptance.by.clone(),
            at: acceptance.at.clone(),
            recovered: acceptance
                .recovered
                .map(|Recovered { rows, records }| RecoveredView { rows, records }),
        }
    }
}
