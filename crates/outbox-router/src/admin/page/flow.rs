//! The way of an event: PostgreSQL → slot → router → Kafka → acknowledgement, with what waits at
//! each step, and who has to act.

use maud::{Markup, html};

use super::{
    format, lag_bar,
    shown::Shown,
    station::{Mark, Node, edge, mark},
};
use crate::{monitor::Blame, status::Word, wording};

pub(super) fn block(shown: &Shown<'_>) -> Markup {
    let lag = shown.status.lag.as_ref();
    let waits = |bytes: Option<u64>| bytes.map(wording::bytes);
    let wal = shown.status.slot.as_ref().and_then(|slot| slot.wal_bytes_per_second);
    let view = shown.view;
    let rate = view.observed.trend.events_per_second(&view.relay.snapshot, view.now);
    let judged = &shown.judged();
    html! {
        section id="flow" class="card" aria-labelledby="flow-title" {
            h2 id="flow-title" { "Flow" }
            ol.flow {
                (postgres(shown).render(judged))
                (edge("WAL", wal.map(format::bytes_rate)))
                (slot(shown).render(judged))
                (edge("unread", waits(lag.map(|lag| lag.unread))))
                (router(shown).render(judged))
                (edge("unacked", waits(lag.map(|lag| lag.unacked))))
                (kafka(shown, rate).render(judged))
                (edge("unconfirmed", waits(lag.map(|lag| lag.unconfirmed))))
                (acknowledged(shown).render(judged))
            }
            (lag_bar::bar(shown))
        }
    }
}

fn postgres(shown: &Shown<'_>) -> Node {
    let silence = shown.silence();
    let is_known = silence.is_none() && shown.status.monitor.polled_at.is_some();
    let says = match silence {
        Some(seconds) if shown.status.monitor.polled_at.is_some() => {
            format!("no answer for {}", format::age(seconds))
        }
        Some(_) => "has not answered yet".to_owned(),
        None if is_known => "answers".to_owned(),
        None => "not asked yet".to_owned(),
    };
    let end = shown.status.slot.as_ref().map(|slot| ("end of WAL", slot.current_wal_lsn.clone()));
    Node {
        name: "PostgreSQL",
        mark: mark(&shown.judged(), Blame::Postgres, is_known.then_some(Mark::Well)),
        says,
        figures: end.into_iter().collect(),
    }
}

fn slot(shown: &Shown<'_>) -> Node {
    let slot = shown.status.slot.as_ref();
    let says = match slot {
        None if shown.has_no_slot() => "does not exist".to_owned(),
        None => "not known".to_owned(),
        Some(slot) if shown.blame == Blame::Holder => slot.active_pid.map_or_else(
            || "held by another router".to_owned(),
            |pid| format!("held by pid {pid}"),
        ),
        Some(slot) => slot.wal_status.to_owned(),
    };
    let figures = slot.map_or_else(Vec::new, |slot| {
        let behind = ("behind", wording::bytes(slot.bytes_behind));
        let retained = slot.retained_bytes.map(|bytes| ("retained", wording::bytes(bytes)));
        [behind].into_iter().chain(retained).collect()
    });
    let is_known = shown.silence().is_none();
    let mark = match slot.map(|slot| slot.wal_status) {
        _ if shown.blame == Blame::Holder => Mark::Held,
        None if shown.has_no_slot() => Mark::Wrong,
        Some("unreserved" | "lost") => Mark::Wrong,
        Some(_) if is_known => Mark::Well,
        _ => Mark::Idle,
    };
    Node { name: "Slot", mark, says, figures }
}

fn router(shown: &Shown<'_>) -> Node {
    let (window, limit) = (&shown.status.window, shown.view.settings.window);
    let events = format::part(window.events, limit.events, 100);
    let used = events.max(format::part(window.bytes, limit.bytes, 100));
    let flows = matches!(shown.status.state, "streaming" | "draining" | "standby");
    let is_well = flows && !shown.view.is_relay_stale();
    Node {
        name: "Router",
        mark: mark(&shown.judged(), Blame::Router, is_well.then_some(Mark::Well)),
        says: shown.status.state.to_owned(),
        figures: vec![
            ("window", format!("{used} %")),
            ("events", format::grouped(window.events)),
            ("bytes", wording::bytes(window.bytes)),
        ],
    }
}

fn kafka(shown: &Shown<'_>, rate: Option<f64>) -> Node {
    let window = &shown.status.window;
    let says = match window.waiting_for_ack_seconds {
        Some(seconds) if seconds >= 1.0 => format!("no ack for {}", format::age(seconds)),
        _ if shown.blame == Blame::Kafka => "acknowledges nothing".to_owned(),
        Some(_) => "acknowledges".to_owned(),
        None => "nothing in flight".to_owned(),
    };
    let has_session = shown.view.relay.snapshot.has_session;
    let rate = rate.map(|rate| ("events", format::events_rate(rate)));
    Node {
        name: "Kafka",
        mark: mark(&shown.judged(), Blame::Kafka, has_session.then_some(Mark::Well)),
        says,
        figures: [("in flight", format::grouped(window.unacked_events))]
            .into_iter()
            .chain(rate)
            .collect(),
    }
}

fn acknowledged(shown: &Shown<'_>) -> Node {
    let positions = &shown.status.positions;
    let (mark, says) = match shown.word {
        Word::Ok | Word::CatchingUp => (Mark::Well, "to the slot"),
        Word::Standby => (Mark::Idle, "by the other router"),
        Word::Blocked | Word::Stalled | Word::Failed => (Mark::Idle, "waits"),
    };
    Node {
        name: "Ack",
        mark,
        says: says.to_owned(),
        figures: vec![
            ("acked", known(&positions.acked)),
            ("confirmed", known(&positions.confirmed)),
        ],
    }
}

/// A position of this process, which has none before its first session.
fn known(position: &str) -> String {
    if position == "0/0" { "–".to_owned() } else { position.to_owned() }
}
