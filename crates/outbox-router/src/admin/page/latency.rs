//! From the commit in PostgreSQL to the acknowledgement by Kafka, over the last hour.

use maud::{Markup, html};
use relay::Latencies;

use super::{bounds::quantile, figure::figure, format, histogram, shown::Shown};

pub(super) fn block(shown: &Shown<'_>) -> Markup {
    let trend = &shown.view.observed.trend;
    let latencies = trend.latencies(&shown.view.relay.snapshot);
    let since = shown.view.now.saturating_duration_since(trend.since()).as_secs_f64();
    card(&latencies, &shown.time_ago(since))
}

/// The latencies of what was acknowledged since a time of day.
pub(crate) fn card(latencies: &Latencies, since: &str) -> Markup {
    html! {
        section id="latency" class="card" aria-labelledby="latency-title" {
            h2 id="latency-title" { "Latency" }
            @if latencies.events() == 0 {
                p.note { "No event was acknowledged since " time { (since) } " UTC." }
            } @else {
                div.big {
                    @for percent in [50, 95, 99] {
                        (figure(&format!("p{percent}"), &quantile(latencies, percent), ""))
                    }
                }
                (histogram::histogram(latencies))
                p.note {
                    (format::counted(latencies.events(), "event"))
                    ", commit to ack, since " time { (since) } " UTC."
                }
            }
        }
    }
}
