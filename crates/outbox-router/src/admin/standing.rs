//! How the router fares at one moment, for log and service manager: taken from the answers of the
//! probes and of `/status.json`, so that none of them can disagree.

use super::{
    health::{StartProgress, alive},
    view::View,
};
use crate::service::{Behind, Standing};

/// What the view shows.
pub(crate) fn standing(view: &View<'_>) -> Standing {
    let snapshot = &view.relay.snapshot;
    let slot = view.monitor.slot.health();
    Standing {
        start: StartProgress::of(view),
        alive: alive(view).health,
        verdict: view.verdict(&view.facts()),
        state: snapshot.condition.state.as_str(),
        behind: slot.map_or(Behind::Unknown, |slot| Behind::Bytes(slot.bytes_behind())),
        acked: snapshot.events_acked(),
        now: view.now,
    }
}
