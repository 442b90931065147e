//! The line a minute in the log: whoever reads only the log sees that the router is alive, how much
//! it did, and how far it is behind.

use std::{convert::Infallible, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::standing::Standing;
use crate::telemetry;

const MINUTE: Duration = Duration::from_secs(60);

/// Writes the line, and how often others were left out.
pub(super) async fn log(standing: impl Fn() -> Standing) -> Infallible {
    let mut minutes = interval_at(Instant::now() + MINUTE, MINUTE);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = 0;
    loop {
        minutes.tick().await;
        telemetry::count_repeats();
        let standing = standing();
        write(&standing, standing.acked.saturating_sub(before));
        before = standing.acked;
    }
}

/// The verdict is that of `/status.json`, in the same words.
pub(super) fn write(standing: &Standing, events: u64) {
    let Standing { verdict, state, behind, .. } = standing;
    let word = verdict.word.as_str();
    tracing::info!(
        verdict = word,
        state,
        code = verdict.code,
        events,
        behind_bytes = behind.bytes(),
        pending_rows = behind.rows(),
        "{word}: {}; {events} events acknowledged in the last minute",
        verdict.sentence
    );
}
