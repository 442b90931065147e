//! What is logged about the witness, once for each change: that none is kept, that the pipeline
//! began without one, that a topic is lost, that a gap is not in the state topic, that it is now,
//! and who accepted it.

use std::{collections::BTreeSet, time::Duration};

use relay::{
    Code, Failure, WitnessReport,
    source::{Gap, Mark},
    witness::{Acceptance, LostTopic, OpenFinding, Recovered, WitnessStore},
};
use tokio::time::Instant;

use crate::codes::{self, hint_of_open};

/// Writing a gap to the state topic takes milliseconds. A gap that takes longer than this is
/// logged.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// Remembers what was logged.
#[derive(Debug, Default)]
pub(super) struct LoggedWitness {
    /// Whether the first report was seen; if it said that no witness is kept, that was logged.
    is_kept_logged: bool,
    began_without: Option<Mark>,
    lost_topics: Vec<LostTopic>,
    open: BTreeSet<String>,
    unwritten: UnwrittenGap,
}

/// Whether an open gap is missing in the state topic.
#[derive(Debug, Default)]
enum UnwrittenGap {
    /// Every open gap is written.
    #[default]
    No,
    /// At least one is missing, since then.
    Since(Instant),
    /// At least one is missing, and that was logged.
    Logged,
}

/// A change to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WitnessChange {
    /// No state topic is configured, so no witness is kept.
    NoneKept,
    /// The pipeline began at this position without a witness.
    BeganWithout(Mark),
    /// A topic is gone with its events.
    TopicLost(LostTopic),
    /// A gap is open and not in the state topic, so a restart forgets it.
    GapUnwritten(Gap),
    /// Every open gap is now in the state topic.
    GapsWritten,
    /// A person has accepted a gap, the beginning of the pipeline, or a lost topic, that was open.
    Accepted(Acceptance),
}

impl LoggedWitness {
    /// What has changed since the last call.
    pub(super) fn changes(&mut self, report: &WitnessReport, now: Instant) -> Vec<WitnessChange> {
        let mut changes = Vec::new();
        if !self.is_kept_logged {
            self.is_kept_logged = true;
            changes
                .extend((report.store == WitnessStore::Memory).then_some(WitnessChange::NoneKept));
        }
        if self.began_without != report.began_without {
            self.began_without.clone_from(&report.began_without);
            changes.extend(report.began_without.clone().map(WitnessChange::BeganWithout));
        }
        if self.lost_topics != report.lost_topics {
            let is_new = |lost: &&LostTopic| !self.lost_topics.contains(lost);
            let new = report.lost_topics.iter().filter(is_new).cloned();
            changes.extend(new.map(WitnessChange::TopicLost));
            self.lost_topics.clone_from(&report.lost_topics);
        }
        self.gaps(report, now, &mut changes);
        self.accepted(report, &mut changes);
        changes
    }

    fn gaps(&mut self, report: &WitnessReport, now: Instant, changes: &mut Vec<WitnessChange>) {
        let is_written = report.store == WitnessStore::Kafka && report.are_gaps_written;
        let Some(last) = report.gaps.last().filter(|_| !is_written) else {
            let was_late = matches!(std::mem::take(&mut self.unwritten), UnwrittenGap::Logged);
            let is_new = |gap: &Gap| was_late || !self.open.contains(&gap.name());
            changes.extend(report.gaps.iter().any(is_new).then_some(WitnessChange::GapsWritten));
            return;
        };
        let since = match self.unwritten {
            UnwrittenGap::No => now,
            UnwrittenGap::Since(since) => since,
            UnwrittenGap::Logged => return,
        };
        // Without a state topic it is never written.
        if report.store == WitnessStore::Memory || now >= since + WRITE_TIMEOUT {
            self.unwritten = UnwrittenGap::Logged;
            changes.push(WitnessChange::GapUnwritten(last.clone()));
        } else {
            self.unwritten = UnwrittenGap::Since(since);
        }
    }

    fn accepted(&mut self, report: &WitnessReport, changes: &mut Vec<WitnessChange>) {
        let is_written = report.store == WitnessStore::Memory || report.are_gaps_written;
        let mut open: BTreeSet<String> = report.gaps.iter().map(Gap::name).collect();
        open.extend(
            report
                .began_without
                .iter()
                .map(|mark| format!("{}@{}", Code::WitnessMissing, mark.lsn)),
        );
        open.extend(report.lost_topics.iter().map(LostTopic::name));
        let closed = |accepted: &&Acceptance| {
            let name = accepted.name();
            self.open.contains(&name) && !open.contains(&name)
        };
        changes.extend(report.accepted.iter().filter(closed).cloned().map(WitnessChange::Accepted));
        // Keeps the former set while an open gap is unwritten, so that writing it is still logged.
        if is_written || open.is_empty() {
            self.open = open;
        }
    }
}

fn hint_of_beginning(mark: &Mark) -> Option<String> {
    let name = OpenFinding::Beginning(mark.clone()).name();
    hint_of_open(&Failure::new(Code::WitnessMissing, ""), &name)
}

impl WitnessChange {
    /// Writes the log line.
    pub(super) fn log(&self) {
        match self {
            Self::NoneKept => tracing::warn!(
                hint = codes::NO_WITNESS_KEPT,
                "kafka.state_topic is empty, so no witness (a record in that topic) is kept: what \
                 happens while no router runs (a slot that is moved, another server or Kafka cluster, a restored backup) \
                 is not noticed, a restart forgets every gap, and what PostgreSQL sends again \
                 after a crash of its own is produced again"
            ),
            Self::BeganWithout(mark) => tracing::warn!(
                code = Code::WitnessMissing.as_str(),
                hint = hint_of_beginning(mark),
                lsn = %mark.lsn,
                "this pipeline began at {mark} without a witness, the record in the state topic: \
                 whether anything that was committed before that time is missing in Kafka, no router \
                 knows"
            ),
            Self::TopicLost(lost) => {
                let finding = lost.finding();
                tracing::warn!(
                    code = finding.code.as_str(),
                    hint = hint_of_open(&finding, &lost.name()),
                    topic = lost.topic,
                    "{}",
                    finding.message
                );
            }
            Self::GapUnwritten(gap) => tracing::error!(
                code = gap.failure.code.as_str(),
                lsn = %gap.interval.begins_at(),
                hint = codes::GAP_UNWRITTEN,
                "gap {} is open and not in the witness: a restart forgets it",
                gap.name()
            ),
            Self::GapsWritten => {
                tracing::info!(
                    "the open gap is in the witness, the record in the state topic: it outlives a restart"
                );
            }
            Self::Accepted(accepted)
                if let Some(Recovered { rows, records }) = accepted.recovered =>
            {
                tracing::info!(
                    by = accepted.by,
                    at = accepted.at,
                    "{} was closed by a recovery of {}: rows that were missing {rows}, records \
                     sent {records}",
                    accepted.name(),
                    accepted.by
                );
            }
            Self::Accepted(accepted) => tracing::info!(
                by = accepted.by,
                at = accepted.at,
                "{} was accepted by {}",
                accepted.name(),
                accepted.by
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use relay::{Failure, Lsn, source::Interval};

    use super::*;

    fn mark(lsn: u64) -> Mark {
        Mark { lsn: Lsn::from_u64(lsn), at: None }
    }

    fn gap() -> Gap {
        let interval = Interval { from: Some(mark(5)), to: mark(9) };
        Gap::new(Failure::new(Code::SlotMoved, "moved"), interval)
    }

    fn acceptance(code: &str, lsn: u64) -> Acceptance {
        let lsn = Lsn::from_u64(lsn);
        let (by, at) = ("ann".into(), "now".into());
        Acceptance { code: code.into(), lsn, by, at, generation: 2, recovered: None }
    }

    fn kept() -> WitnessReport {
        WitnessReport { store: WitnessStore::Kafka, ..WitnessReport::default() }
    }

    #[test]
    fn that_no_witness_is_kept_is_logged_once() {
        let (mut logged, now) = (LoggedWitness::default(), Instant::now());
        assert_eq!(logged.changes(&WitnessReport::default(), now), [WitnessChange::NoneKept]);
        assert_eq!(logged.changes(&WitnessReport::default(), now), []);
        assert_eq!(LoggedWitness::default().changes(&kept(), now), []);
    }

    #[test]
    fn a_start_without_a_witness_is_logged_once_and_so_is_its_acceptance() {
        let (mut logged, now) = (LoggedWitness::default(), Instant::now());
        let began = WitnessReport { began_without: Some(mark(1)), ..kept() };
        assert_eq!(logged.changes(&began, now), [WitnessChange::BeganWithout(mark(1))]);
        assert_eq!(logged.changes(&began, now), []);
        let accepted = acceptance("K022", 1);
        let report = WitnessReport { accepted: vec![accepted.clone()], ..kept() };
        assert_eq!(logged.changes(&report, now), [WitnessChange::Accepted(accepted)]);
        assert_eq!(logged.changes(&report, now), []);
    }

    /// What was accepted before this process started is not logged again.
    #[test]
    fn only_the_acceptance_of_what_was_seen_open_is_logged() {
        let report = WitnessReport { accepted: vec![acceptance("P014", 5)], ..kept() };
        assert_eq!(LoggedWitness::default().changes(&report, Instant::now()), []);
    }

    #[test]
    fn a_gap_is_logged_as_recorded_and_then_as_accepted() {
        let (mut logged, now) = (LoggedWitness::default(), Instant::now());
        let unwritten = WitnessReport { gaps: vec![gap()], are_gaps_written: false, ..kept() };
        assert_eq!(logged.changes(&unwritten, now), []);
        let written = WitnessReport { gaps: vec![gap()], ..kept() };
        assert_eq!(logged.changes(&written, now), [WitnessChange::GapsWritten]);
        assert_eq!(logged.changes(&written, now), []);
        let accepted = acceptance("P014", 5);
        let report = WitnessReport { accepted: vec![accepted.clone()], ..kept() };
        assert_eq!(logged.changes(&report, now), [WitnessChange::Accepted(accepted)]);
    }

    #[test]
    fn a_gap_that_cannot_be_recorded_is_logged_once() {
        let (mut logged, now) = (LoggedWitness::default(), Instant::now());
        let unwritten = WitnessReport { gaps: vec![gap()], are_gaps_written: false, ..kept() };
        logged.changes(&unwritten, now);
        let later = now + WRITE_TIMEOUT;
        assert_eq!(logged.changes(&unwritten, later), [WitnessChange::GapUnwritten(gap())]);
        assert_eq!(logged.changes(&unwritten, later + WRITE_TIMEOUT), []);
        let written = WitnessReport { gaps: vec![gap()], ..kept() };
        assert_eq!(logged.changes(&written, later), [WitnessChange::GapsWritten]);
    }

    #[test]
    fn without_a_state_topic_every_gap_is_forgotten_by_a_restart() {
        let (mut logged, now) = (LoggedWitness::default(), Instant::now());
        let report = WitnessReport { gaps: vec![gap()], ..WitnessReport::default() };
        assert_eq!(
            logged.changes(&report, now),
            [WitnessChange::NoneKept, WitnessChange::GapUnwritten(gap())]
        );
        assert_eq!(logged.changes(&report, now), []);
    }
}
