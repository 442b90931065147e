//! The line a minute in the log: whoever reads only the log sees that the router is alive, how much
//! it did, and how far it is behind.

use std::{convert::Infallible, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    admin::{AdminSettings, Sources, view::View},
    telemetry, wording,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Writes the line, and how often others were left out.
pub(super) async fn log(settings: &AdminSettings, sources: &Sources) -> Infallible {
    let mut minutes = interval_at(Instant::now() + MINUTE, MINUTE);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = 0;
    loop {
        minutes.tick().await;
        telemetry::count_repeats();
        let view = View::of(settings, sources);
        let now = view.relay.snapshot.events_acked();
        write(&view, now.saturating_sub(before));
        before = now;
    }
}

pub(super) fn write(view: &View<'_>, events: u64) {
    let state = view.relay.snapshot.condition.state.as_str();
    let behind_bytes = view.monitor.slot.health().map(|slot| slot.bytes_behind());
    let behind = behind_bytes.map_or_else(
        || "how far behind is not known".to_owned(),
        |it| format!("{} behind", wording::bytes(it)),
    );
    tracing::info!(
        state,
        events,
        behind_bytes,
        "{state}, {behind}, {events} events acknowledged in the last minute"
    );
}
