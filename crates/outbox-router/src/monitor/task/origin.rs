//! Which server a reading is of: a reading of another server than the stream's says nothing about
//! the stream's slot.

use relay::{Code, Failure, Snapshot, source::History};

/// The server of a reading, beside the server that the stream comes from.
#[derive(Debug, PartialEq)]
pub(super) enum Origin {
    /// The same server, or no session has begun yet, or the role may not ask which server it is.
    Comparable,
    /// Another one, while the stream comes from its own: this finding, and nothing else of the
    /// reading counts.
    Elsewhere(Failure),
    /// Another one than the last stream came from, and there is no stream now: after a promotion,
    /// for example, at which the router has halted, or after which another one holds the slot.
    AfterTheStream,
}

impl Origin {
    pub(super) fn of(here: Option<&History>, relay: &Snapshot) -> Self {
        let there = relay.baseline.as_ref().map(|baseline| &baseline.server.history);
        match (here, there) {
            (Some(here), Some(there)) if here != there && relay.has_session => {
                Self::Elsewhere(finding(here, there))
            }
            (Some(here), Some(there)) if here != there => Self::AfterTheStream,
            _ => Self::Comparable,
        }
    }
}

fn finding(here: &History, there: &History) -> Failure {
    let name = |history: &History| {
        format!("system identifier {}, timeline {}", history.system_id, history.timeline)
    };
    Failure::new(
        Code::MonitorElsewhere,
        format!(
            "the monitor reaches another server ({}) than the stream comes from ({})",
            name(here),
            name(there)
        ),
    )
}
