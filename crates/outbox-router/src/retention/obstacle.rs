//! What forbids to remove rows, although nothing has failed.

use std::time::Duration;

use relay::{State, TopicLook};

use crate::monitor::{MonitorReport, RelayReport};

/// How old a report of the streaming task may be. It is renewed every half second.
const REPORT_AGE_MAX: Duration = Duration::from_secs(10);

/// Why nothing may be removed now.
pub(super) fn obstacle(relay: &RelayReport, monitor: &MonitorReport) -> Option<&'static str> {
    let snapshot = &relay.snapshot;
    let witness = &snapshot.witness;
    if relay.published_at.elapsed() > REPORT_AGE_MAX {
        return Some("the streaming task does not report");
    }
    if !witness.gaps.is_empty() || witness.other_server_gap.is_some() || monitor.gap.is_some() {
        return Some("a gap is open");
    }
    if witness.began_without.is_some() {
        return Some("the pipeline began without a witness, which nobody has accepted");
    }
    if !witness.lost_topics.is_empty() {
        return Some("a topic was deleted, and nobody has said whether its events are sent again");
    }
    if witness.topic_look == TopicLook::Due {
        return Some("whether a topic was deleted while no router ran is not known yet");
    }
    if monitor.findings.iter().any(|finding| !finding.is_note()) {
        return Some("slot, publication and tables are not as they must be");
    }
    match snapshot.condition.state {
        State::Streaming => None,
        State::Blocked | State::Draining | State::Failed | State::Starting | State::Standby => {
            Some("this router does not stream")
        }
    }
}
