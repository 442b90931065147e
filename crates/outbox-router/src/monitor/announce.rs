//! The log lines about how far the slot is behind: by how much, who has to act, how long until
//! PostgreSQL invalidates the slot, and what to type.

use std::time::Duration;

use relay::source::SlotHealth;

use super::{
    lag::Blame,
    threshold::{Crossing, Level, Thresholds},
    watch::limit::SlotLimit,
};
use crate::wording;

/// What a log line names.
pub(super) struct Announced<'a> {
    pub(super) name: &'a str,
    pub(super) slot: &'a SlotHealth,
    pub(super) limits: Thresholds,
    pub(super) blame: Blame,
    pub(super) seconds_to_limit: Option<f64>,
    /// The limit that this time leads to.
    pub(super) limit: Option<SlotLimit>,
}

/// Logs one line for a crossing: an error above critical, a warning above warning, information when
/// a level ends.
pub(super) fn announce(crossing: Crossing, what: &Announced<'_>) {
    let slot = what.name;
    let bytes_behind = what.slot.bytes_behind();
    let blame = what.blame.as_str();
    let far = format!("slot \"{slot}\" is {} behind", wording::bytes(bytes_behind));
    let waits = waits_for(what.blame);
    let left = time_left(what);
    let warning = wording::bytes(what.limits.warning);
    let critical = wording::bytes(what.limits.critical);
    match crossing {
        Crossing::Above(Level::Critical) => tracing::error!(
            slot,
            bytes_behind,
            blame,
            "{far}, more than critical ({critical}): {waits}; {left}; see outbox-router status"
        ),
        Crossing::Above(Level::Warning | Level::Normal) => tracing::warn!(
            slot,
            bytes_behind,
            blame,
            "{far}, more than warning ({warning}): {waits}; {left}; see outbox-router status"
        ),
        Crossing::Below(Level::Warning | Level::Critical) => tracing::info!(
            slot,
            bytes_behind,
            blame,
            "{far}, no longer critical but more than warning ({warning}); {left}"
        ),
        Crossing::Below(Level::Normal) => {
            tracing::info!(slot, bytes_behind, "{far}, below warning ({warning}) again");
        }
    }
}

fn waits_for(blame: Blame) -> &'static str {
    match blame {
        Blame::Nobody => "it is being read",
        Blame::Postgres => "it waits for PostgreSQL",
        Blame::Router => "it waits for this router",
        Blame::Kafka => "it waits for Kafka",
        Blame::Holder => "it waits for the router that holds the slot",
    }
}

fn time_left(what: &Announced<'_>) -> String {
    let (slot, seconds) = (what.slot, what.seconds_to_limit);
    if slot.is_lost() {
        return "the slot is lost".to_owned();
    }
    if let (Some(SlotLimit::IdleTimeout), Some(Ok(time))) =
        (what.limit, seconds.map(Duration::try_from_secs_f64))
    {
        return format!(
            "PostgreSQL invalidates the slot in about {}, because nobody streams from it \
             (idle_replication_slot_timeout)",
            wording::roughly(time)
        );
    }
    let Some(safe) = slot.safe_wal_bytes else {
        return "PostgreSQL keeps its WAL without limit, until the disk is full".to_owned();
    };
    let safe = wording::bytes(safe);
    match seconds.map(Duration::try_from_secs_f64) {
        None => format!("PostgreSQL invalidates the slot after {safe} more"),
        Some(Ok(time)) => {
            format!(
                "PostgreSQL invalidates the slot after {safe} more, in about {}",
                wording::roughly(time)
            )
        }
        Some(Err(_)) => {
            format!("PostgreSQL invalidates the slot after {safe} more, but it does not grow")
        }
    }
}
