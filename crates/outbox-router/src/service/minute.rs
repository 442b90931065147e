//! The line a minute in the log: whoever reads only the log sees that the router is alive, how much
//! it did, and how far it is behind.

use std::{convert::Infallible, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    admin::{AdminSettings, Sources, view::View},
    telemetry,
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

/// The verdict is that of `/status.json`, in the same words.
pub(super) fn write(view: &View<'_>, events: u64) {
    let verdict = view.verdict(&view.facts());
    let word = verdict.word.as_str();
    let state = view.relay.snapshot.condition.state.as_str();
    let behind_bytes = view.monitor.slot.health().map(|slot| slot.bytes_behind());
    tracing::info!(
        verdict = word,
        state,
        code = verdict.code,
        events,
        behind_bytes,
        "{word}: {}; {events} events acknowledged in the last minute",
        verdict.sentence
    );
}
