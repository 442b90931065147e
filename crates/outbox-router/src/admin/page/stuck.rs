//! What is stuck, and since when.

use maud::{Markup, html};

use super::{
    format,
    shown::Shown,
    to_do::{LISTED_MAX, capital, more, to_type},
};
use crate::{
    admin::{reason::Reason, slot::PinView, witness::OpenGap},
    codes::Hint,
};

/// Shorter than this is the usual way of an event.
const WORTH_A_LINE: f64 = 1.0;

/// One thing that is stuck.
struct Item {
    what: String,
    /// For how many seconds.
    age: Option<f64>,
    detail: Option<String>,
    to_type: Option<Hint>,
}

impl Item {
    fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), age: None, detail: None, to_type: None }
    }

    fn for_seconds(mut self, age: Option<f64>) -> Self {
        self.age = age;
        self
    }

    fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    fn with_hint(mut self, hint: Option<Hint>) -> Self {
        self.to_type = hint;
        self
    }
}

pub(super) fn block(shown: &Shown<'_>) -> Markup {
    let items = items(shown);
    html! {
        section id="stuck" class="card" aria-labelledby="stuck-title" {
            h2 id="stuck-title" { "Stuck" }
            @if items.is_empty() {
                p.note { "Nothing is stuck." }
            } @else {
                ul.list {
                    @for (index, item) in items.iter().take(LISTED_MAX).enumerate() {
                        li {
                            p.what { (capital(&item.what)) }
                            @if let Some(age) = item.age {
                                p.age {
                                    strong { (format::age(age)) }
                                    ", since " time { (shown.time_ago(age)) } " UTC"
                                }
                            }
                            @if let Some(detail) = &item.detail { p.detail { (capital(detail)) } }
                            @if let Some(hint) = &item.to_type {
                                (to_type(&format!("stuck-{index}"), hint))
                            }
                        }
                    }
                }
                (more(items.len()))
            }
            (paused(shown))
        }
    }
}

fn items(shown: &Shown<'_>) -> Vec<Item> {
    let status = &shown.status;
    let is_said = |code: &str| status.verdict.to_do.iter().any(|to_do| to_do.code == Some(code));
    // What to type is under "What to do" then.
    let gaps = status.witness.gaps.iter().map(|open| match is_said(code_of(open)) {
        true => gap(open).with_hint(None),
        false => gap(open),
    });
    let mut items: Vec<Item> = gaps.collect();
    items.extend(status.witness.began_without.as_ref().map(|mark| {
        Item::of("the pipeline began without a witness")
            .because(format!("at {}; nothing shows whether earlier events are complete", mark.lsn))
            .with_hint(Some(Hint::command("outbox-router accept")))
    }));
    let long = |age: Option<f64>| age.filter(|seconds| *seconds >= WORTH_A_LINE);
    if let Some(age) = long(status.verdict.oldest_unacked_seconds) {
        let events = format::counted(status.window.unacked_events, "event");
        items.push(
            Item::of("the oldest event without an acknowledgement")
                .for_seconds(Some(age))
                .because(format!("{events} in flight")),
        );
    }
    let unanswered = long(status.window.waiting_for_ack_seconds);
    if let Some(age) = unanswered {
        items.push(Item::of("no answer of Kafka").for_seconds(Some(age)));
    }
    // Beside the line above it would be a second age of the same.
    let stands = Some(status.verdict.seconds_without_progress);
    if let Some(age) = long(stands.filter(|_| unanswered.is_none())) {
        items.push(Item::of("no position has moved").for_seconds(Some(age)));
    }
    if let Some(trouble) = &status.monitor.trouble {
        let item = Item::of("PostgreSQL does not answer the monitor");
        items.push(item.for_seconds(status.monitor.polled_seconds_ago).because(named(trouble)));
    }
    if status.held.events > 0 {
        let events = format::counted(status.held.events, "event");
        let keys = format::counted(status.held.keys, "key");
        items.push(
            Item::of(format!("{events} of {keys} are held behind dead letters"))
                .for_seconds(status.held.oldest_seconds)
                .with_hint(Some(Hint::command("outbox-router dead-letters list"))),
        );
    }
    items.extend(status.slot.as_ref().and_then(|slot| slot.pinned_by.as_ref()).map(pin));
    let standbys = status.server.as_ref().map_or(&[][..], |server| &server.waits_for_standbys);
    items.extend(
        standbys
            .iter()
            .map(|slot| Item::of(format!("the walsender waits for the standby of slot {slot}"))),
    );
    items.extend(status.retention.failure.as_ref().map(|failure| {
        Item::of("delivered rows are not removed")
            .for_seconds(status.retention.last_success.map(|at| shown.seconds_since(at)))
            .because(named(failure))
            .with_hint(hint_of(failure))
    }));
    // What the verdict does not ask for: notes of the monitor.
    let notes = status.monitor.findings.iter().filter(|finding| !is_said(finding.code));
    items.extend(notes.map(|note| Item::of(named(note)).with_hint(hint_of(note))));
    items
}

/// The code of a gap, which its name begins with.
fn code_of(gap: &OpenGap) -> &str {
    gap.name.split('@').next().unwrap_or_default()
}

fn gap(gap: &OpenGap) -> Item {
    let until = gap.interval.to.at.as_deref().unwrap_or("an unknown time");
    Item::of(format!("gap {}: rows may be missing", gap.name))
        .because(format!("{}; seen at {until}", gap.message))
        .with_hint(gap.hint.as_ref().map(|hint| Hint::of(hint, gap.commands.clone())))
}

fn pin(pin: &PinView) -> Item {
    let who = match (pin.pid, &pin.prepared) {
        (Some(pid), _) => format!("the transaction of pid {pid}"),
        (None, Some(name)) => format!("the prepared transaction {name}"),
        (None, None) => "a transaction".to_owned(),
    };
    let about = [
        ("application", &pin.application),
        ("user", &pin.user),
        ("database", &pin.database),
        ("state", &pin.state),
    ];
    let about: Vec<String> = about
        .into_iter()
        .filter_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?)))
        .collect();
    let item = Item::of(format!("{who} keeps WAL from being removed")).for_seconds(pin.seconds);
    if about.is_empty() { item } else { item.because(about.join(", ")) }
}

fn hint_of(reason: &Reason) -> Option<Hint> {
    reason.hint.as_ref().map(|hint| Hint::of(hint, reason.commands.clone()))
}

fn named(reason: &Reason) -> String {
    format!("{} ({})", reason.message, reason.code)
}

/// For how long the replication connection was not read.
fn paused(shown: &Shown<'_>) -> Markup {
    let times = &shown.status.backpressure_seconds;
    let times: Vec<String> = times
        .iter()
        .filter(|(_, seconds)| **seconds >= WORTH_A_LINE)
        .map(|(reason, seconds)| format!("{reason} {}", format::age(*seconds)))
        .collect();
    html! {
        @if !times.is_empty() {
            p.note { "Pauses in reading the stream since the start: " (times.join(", ")) "." }
        }
    }
}
