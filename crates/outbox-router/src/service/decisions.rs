//! A line in the log when events left the table of held events, because a person has decided so.
//! They are counted: no line names an event.

use std::{convert::Infallible, time::Duration};

use relay::HeldReport;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{monitor::RelayReport, wording::count};

/// A decision may concern a thousand events, and they are one line.
const LOOK: Duration = Duration::from_secs(5);

/// Writes the lines.
pub(crate) async fn log(relay: watch::Receiver<RelayReport>) -> Infallible {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut left = Left::default();
    loop {
        looks.tick().await;
        let report = relay.borrow().snapshot.held.clone();
        left.write(&report);
    }
}

/// How many had left when the last line was written.
#[derive(Debug, Default)]
pub(super) struct Left {
    delivered: u64,
    dropped: u64,
}

impl Left {
    pub(super) fn write(&mut self, report: &HeldReport) {
        let HeldReport { held, totals, .. } = report;
        let delivered = totals.delivered.saturating_sub(self.delivered);
        let dropped = totals.dropped.saturating_sub(self.dropped);
        *self = Self { delivered: totals.delivered, dropped: totals.dropped };
        if delivered > 0 || dropped > 0 {
            tracing::info!(
                delivered,
                dropped,
                held = held.events,
                "as was decided, {} that were held are delivered, and {dropped} dropped; {} held",
                events(delivered),
                match held.events {
                    0 => "none is".to_owned(),
                    1 => "1 event is".to_owned(),
                    many => format!("{} are", events(many)),
                }
            );
        }
    }
}

fn events(number: u64) -> String {
    count(i64::try_from(number).unwrap_or(i64::MAX), "event")
}
