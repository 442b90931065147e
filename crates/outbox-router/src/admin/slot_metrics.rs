//! The metrics of the slot. While PostgreSQL does not answer they keep their last values, and
//! `outbox_slot_last_poll_timestamp_seconds` and `outbox_slot_figures_last_poll_timestamp_seconds`
//! say how old these are: an alert must not end because nobody sees any more what it warns of.
//!
//! What was never read is absent, and not 0: a router that is started while PostgreSQL is down
//! knows nothing, and the rules then go on with what the one before it knew. Only whether the slot
//! exists and is active is 0 from the start.

use relay::source::SlotHealth;

use super::{
    epoch::epoch,
    exposition::{Page, Type},
    view::View,
};
use crate::monitor::{
    Polled, WalStatus,
    watch::{LastSlot, figures::SlotFigures},
};

/// Positions of the slot, as labels of `outbox_slot_lsn_bytes`.
const POSITIONS: [&str; 3] = ["current", "confirmed_flush", "restart"];

pub(super) fn metrics(page: &mut Page, view: &View<'_>) {
    let watch = &view.monitor.watch;
    let (last, figures) = (watch.last.as_ref(), watch.figures.as_ref());
    of_polls(page, last, figures);
    of_thresholds(page, view);
    of_existence(page, last.and_then(|last| last.slot.as_ref()));
    if let Some(last) = last {
        of_slot(page, last.slot.as_ref());
        of_positions(page, last.slot.as_ref());
        of_limit(page, last);
    }
    if let Some(figures) = figures {
        of_surroundings(page, view, figures);
    }
}

fn of_polls(page: &mut Page, last: Option<&LastSlot>, figures: Option<&SlotFigures>) {
    let time = |read: Option<Polled>| read.map_or(0.0, |read| epoch(read.wall).as_secs_f64());
    page.gauge_float(
        "outbox_slot_last_poll_timestamp_seconds",
        "When the slot was last read from PostgreSQL; 0 before that. What pg_replication_slots shows of it is of that moment.",
        time(last.map(|last| last.read)),
    );
    page.gauge_float(
        "outbox_slot_figures_last_poll_timestamp_seconds",
        "When the figures around the slot were last read; 0 before that. Of that moment are pin_age, others_inactive, catalog_xmin_age and spill_bytes.",
        time(figures.map(|figures| figures.read)),
    );
}

fn of_thresholds(page: &mut Page, view: &View<'_>) {
    let thresholds = view.settings.thresholds;
    let mut family = page.family(
        "outbox_slot_bytes_behind_threshold",
        Type::Gauge,
        "Configured limits on outbox_slot_bytes_behind.",
    );
    family.whole(&[("severity", "warning")], thresholds.warning);
    family.whole(&[("severity", "critical")], thresholds.critical);
}

/// These exist from the start.
fn of_existence(page: &mut Page, slot: Option<&SlotHealth>) {
    page.gauge(
        "outbox_slot_exists",
        "Whether PostgreSQL has the slot; 0 before it was read.",
        u64::from(slot.is_some()),
    );
    page.gauge(
        "outbox_slot_active",
        "Whether a walsender streams from the slot.",
        u64::from(slot.is_some_and(SlotHealth::is_active)),
    );
}

/// Where PostgreSQL has answered that there is no slot, each is 0.
fn of_slot(page: &mut Page, slot: Option<&SlotHealth>) {
    page.gauge(
        "outbox_slot_bytes_behind",
        "WAL that is not confirmed: current position - confirmed_flush_lsn. It includes the WAL of all other tables.",
        slot.map_or(0, SlotHealth::bytes_behind),
    );
    page.gauge(
        "outbox_slot_retained_bytes",
        "WAL that the slot keeps on disk: current position - restart_lsn; 0 when it is lost.",
        slot.and_then(SlotHealth::retained_bytes).unwrap_or_default(),
    );
    let status = slot.map_or("", |slot| slot.wal_status.as_str());
    page.family(
        "outbox_slot_wal_status",
        Type::Gauge,
        "wal_status of the slot: 1 for the one that holds.",
    )
    .states("wal_status", WalStatus::KNOWN.map(WalStatus::as_str), status);
    let flag = |flag: Option<bool>| u64::from(flag.unwrap_or_default());
    page.gauge(
        "outbox_slot_failover",
        "Whether standbys may copy the slot; 0 before PostgreSQL 17.",
        flag(slot.and_then(|slot| slot.failover)),
    );
    page.gauge(
        "outbox_slot_synced",
        "Whether the slot is a standby's copy; 0 before PostgreSQL 17.",
        flag(slot.and_then(|slot| slot.synced)),
    );
    page.gauge(
        "outbox_slot_invalidated",
        "Whether PostgreSQL has invalidated the slot, so that it can never be used again.",
        u64::from(slot.is_some_and(SlotHealth::is_lost)),
    );
    page.gauge_float(
        "outbox_slot_inactive_since_timestamp_seconds",
        "Since when nobody streams from the slot; 0 while somebody does, and before PostgreSQL 17.",
        slot.and_then(|slot| slot.inactive_since).unwrap_or_default(),
    );
}

fn of_positions(page: &mut Page, slot: Option<&SlotHealth>) {
    let positions = slot.map(|slot| {
        [Some(slot.current_wal_lsn), slot.confirmed_flush_lsn, slot.restart_lsn]
            .map(|lsn| lsn.map_or(0, |lsn| lsn.as_u64()))
    });
    let mut family = page.family(
        "outbox_slot_lsn_bytes",
        Type::Gauge,
        "WAL positions as numbers: the server's current one, confirmed_flush_lsn and restart_lsn.",
    );
    for (position, value) in POSITIONS.into_iter().zip(positions.unwrap_or_default()) {
        family.whole(&[("position", position)], value);
    }
}

fn of_limit(page: &mut Page, last: &LastSlot) {
    let LastSlot { slot, rates, to_limit, .. } = last;
    // Without a limit there is no number to say; the time to it is infinite then.
    let safe = slot.as_ref().and_then(|slot| slot.safe_wal_bytes);
    if let Some(bytes) = safe {
        page.gauge(
            "outbox_slot_safe_wal_bytes",
            "WAL that may still be written before the slot may be invalidated (safe_wal_size); absent without a limit.",
            bytes,
        );
    }
    let seconds = match to_limit {
        Some(to) => Some(to.seconds),
        // It takes two readings to know how fast the limit comes nearer.
        None => (safe.is_none() || rates.is_some()).then_some(f64::INFINITY),
    };
    if let Some(seconds) = seconds {
        page.gauge_float(
            "outbox_slot_seconds_to_limit",
            "How long until PostgreSQL may invalidate the slot at the present rate (max_slot_wal_keep_size, idle_replication_slot_timeout); +Inf without a limit.",
            seconds,
        );
    }
    page.gauge_float(
        "outbox_wal_bytes_per_second",
        "How fast the server writes WAL, smoothed over a minute.",
        rates.map_or(0.0, |rates| rates.wal),
    );
}

fn of_surroundings(page: &mut Page, view: &View<'_>, figures: &SlotFigures) {
    let pin = view.monitor.pin.as_ref();
    page.gauge_float(
        "outbox_slot_pin_age_seconds",
        "Age of the transaction that keeps restart_lsn back, when that is not the router; 0 when there is none.",
        pin.and_then(|pin| pin.seconds).unwrap_or_default(),
    );
    page.gauge(
        "outbox_slot_others_inactive",
        "Other slots of the server that nobody uses: they fill the same disk.",
        figures.other_slots.inactive,
    );
    page.gauge(
        "outbox_slot_catalog_xmin_age",
        "Transactions since catalog_xmin of the slot: for so long dead rows of the catalog are kept.",
        figures.catalog_xmin_age.unwrap_or_default(),
    );
    page.family(
        "outbox_slot_spill_bytes_total",
        Type::Counter,
        "Bytes of transactions that decoding wrote to disk, by pg_stat_replication_slots; 0 before PostgreSQL 14.",
    )
    .whole(&[], figures.spill.map_or(0, |spill| spill.spill_bytes));
    if let Some(directory) = figures.wal_directory {
        page.gauge(
            "outbox_wal_directory_bytes",
            "Size of pg_wal; absent where the role may not list it.",
            directory.bytes,
        );
    }
}
