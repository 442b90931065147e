//! The slot: how far behind, for how long that may go on, and what limits it.

use maud::{Markup, html};

use super::{figure::figure, format, shown::Shown, sparkline::sparkline};
use crate::{
    admin::slot::{FiguresView, SlotView},
    wording,
};

/// The monitor reads every ten seconds; an older reading is pointed out.
const OLD_AFTER: f64 = 30.0;

pub(super) fn block(shown: &Shown<'_>) -> Markup {
    let slot = shown.status.slot.as_ref();
    html! {
        section id="slot" class="card" aria-labelledby="slot-title" {
            h2 id="slot-title" { "Slot " code { (shown.view.settings.slot) } }
            @match slot {
                Some(slot) => (known(shown, slot)),
                None if shown.has_no_slot() => p.note { "PostgreSQL has no slot of that name." },
                None => p.note { "The slot was not read yet." },
            }
        }
    }
}

fn known(shown: &Shown<'_>, slot: &SlotView) -> Markup {
    let server = shown.status.server.as_ref();
    let is_old = shown.silence().is_some() || slot.read_seconds_ago > OLD_AFTER;
    html! {
        @if is_old {
            p.old {
                strong { "Old figures." }
                " PostgreSQL was last read at " time { (shown.time_ago(slot.read_seconds_ago)) }
                " UTC, " (format::age(slot.read_seconds_ago)) " ago."
            }
        }
        div.big {
            (figure("behind", &wording::bytes(slot.bytes_behind), ""))
            (time_to_limit(slot, server))
            (figure("retained", &slot.retained_bytes.map_or("–".to_owned(), wording::bytes),
                &format!("WAL status {}", slot.wal_status)))
        }
        (sparkline(shown))
        (room(slot))
        dl.facts {
            (fact("held by", &slot.active_pid.map_or("nobody".to_owned(), |pid| format!("pid {pid}"))))
            (fact("end of WAL", &slot.current_wal_lsn))
            (fact("confirmed_flush_lsn", slot.confirmed_flush_lsn.as_deref().unwrap_or("–")))
            (fact("restart_lsn", slot.restart_lsn.as_deref().unwrap_or("–")))
            @if let Some(failover) = slot.failover { (fact("failover", if failover { "yes" } else { "no" })) }
            @if slot.synced == Some(true) { (fact("synced from a primary", "yes")) }
            @if let Some(reason) = &slot.invalidation_reason { (fact("invalidated", reason)) }
            @if let Some(bytes) = server.and_then(|server| server.wal_directory_bytes) {
                (fact("pg_wal", &wording::bytes(bytes)))
            }
            @if let Some(server) = server {
                (fact("slots", &format!("{} of {}", server.slots_used, server.slots_max)))
            }
        }
        p.note { "Read " (format::age(slot.read_seconds_ago)) " ago." }
    }
}

fn fact(what: &str, value: &str) -> Markup {
    html! { div { dt { (what) } dd { (value) } } }
}

fn time_to_limit(slot: &SlotView, server: Option<&FiguresView>) -> Markup {
    let has_no_limit = server.is_some_and(|server| {
        server.wal_keep_bytes.is_none() && server.idle_timeout_seconds.is_none()
    });
    let label = "time to the limit";
    if slot.wal_status == "lost" || slot.invalidation_reason.is_some() {
        return figure(label, "passed", "the slot is lost");
    }
    match (slot.seconds_to_limit, slot.limited_by) {
        (Some(seconds), by) => figure(label, &format::age(seconds), by.unwrap_or_default()),
        (None, Some(by)) => figure(label, "∞", &format!("does not come nearer to {by}")),
        (None, None) if has_no_limit => {
            figure(label, "no limit", "max_slot_wal_keep_size is not set: WAL can fill the disk")
        }
        (None, None) => figure(label, "–", "not known yet"),
    }
}

/// How much of what the slot may retain is used.
fn room(slot: &SlotView) -> Markup {
    let (Some(retained), Some(safe)) = (slot.retained_bytes, slot.safe_wal_bytes) else {
        return html! {};
    };
    let total = retained.saturating_add(safe);
    html! {
        figure.room {
            figcaption {
                (wording::bytes(retained)) " retained, " strong { (wording::bytes(safe)) }
                " more may be written before the slot is in danger"
            }
            svg viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true" {
                rect.empty width="1000" height="8" {}
                rect.used width=(format::part(retained, total, 1_000)) height="8" {}
            }
        }
    }
}
