//! What the slot is behind, as one bar of three parts, in the order of the flow. Words and figures
//! stand below, in the same order.

use maud::{Markup, html};

use super::{format, shown::Shown};
use crate::{admin::status::LagBytes, wording};

/// The bar's width in its own units.
const WIDTH: u64 = 1_000;

/// A part of the bar.
struct Part {
    stage: &'static str,
    from: u64,
    bytes: u64,
    says: &'static str,
}

pub(super) fn bar(shown: &Shown<'_>) -> Markup {
    let Some(lag) = &shown.status.lag else {
        return html! {
            p.note { "How the distance is made up is not known while " (why_not(shown)) "." }
        };
    };
    let parts = parts(lag);
    let total = lag.unread + lag.unacked + lag.unconfirmed;
    html! {
        figure.lag {
            figcaption { "What the slot is behind: " strong { (wording::bytes(total)) } }
            svg viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true" {
                rect.empty width="1000" height="14" {}
                @for Part { stage, from, bytes, .. } in &parts {
                    @let x = format::part(*from, total, WIDTH);
                    @let end = format::part(from + bytes, total, WIDTH);
                    @if total > 0 && end > x {
                        rect class=(stage) x=(x) width=(end - x) height="14" {}
                    }
                }
            }
            ul.legend {
                @for Part { stage, says, bytes, .. } in &parts {
                    li {
                        svg.swatch viewBox="0 0 12 12" aria-hidden="true" {
                            rect class=(stage) width="12" height="12" {}
                        }
                        strong { (wording::bytes(*bytes)) } " " (says)
                    }
                }
            }
        }
    }
}

fn parts(lag: &LagBytes) -> [Part; 3] {
    let LagBytes { unread, unacked, unconfirmed } = *lag;
    let part = |stage, from, bytes, says| Part { stage, from, bytes, says };
    [
        part("unread", 0, unread, "not yet read by the router"),
        part("unacked", unread, unacked, "not yet acknowledged by Kafka"),
        part("unconfirmed", unread + unacked, unconfirmed, "not yet confirmed to the slot"),
    ]
}

fn why_not(shown: &Shown<'_>) -> &'static str {
    if shown.status.state == "standby" {
        "another router holds the slot"
    } else {
        "the slot cannot be read"
    }
}
