//! The topics with the most events.

use std::cmp::Reverse;

use maud::{Markup, html};
use relay::TopicTotals;

use super::{bounds::quantile, format};

/// How many topics are shown. `/metrics` shows more.
const TOPICS_MAX: usize = 20;

pub(crate) fn block(topics: &[TopicTotals]) -> Markup {
    let shown = most_used(topics);
    let others = topics.len() - shown.len();
    let largest = shown.first().map_or(0, |topic| topic.acked);
    html! {
        section id="topics" class="card" aria-labelledby="topics-title" {
            h2 id="topics-title" { "Topics" }
            @if shown.is_empty() {
                p.note { "No event was acknowledged since the router started." }
            } @else {
                table {
                    thead {
                        tr { th { "topic" } th.number { "events" } th.share {} th.number { "p50" } th.number { "p99" } }
                    }
                    tbody {
                        @for topic in &shown {
                            tr {
                                td.name { (topic.name.as_str()) }
                                td.number { (format::grouped(topic.acked)) }
                                td.share { (share(topic.acked, largest)) }
                                td.number { (quantile(&topic.latencies, 50)) }
                                td.number { (quantile(&topic.latencies, 99)) }
                            }
                        }
                    }
                }
                p.note {
                    "Acknowledged since the router started."
                    @if others > 0 {
                        @let events: u64 = topics.iter().map(|topic| topic.acked).sum();
                        @let of_shown: u64 = shown.iter().map(|topic| topic.acked).sum();
                        @let number = u64::try_from(others).unwrap_or(u64::MAX);
                        " And " (format::counted(number, "more topic")) " with "
                        (format::counted(events - of_shown, "event")) "."
                    }
                }
            }
        }
    }
}

/// The events as a bar, beside their number.
fn share(events: u64, largest: u64) -> Markup {
    html! {
        svg viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(format::part(events, largest, 1_000)) height="8" {}
        }
    }
}

/// The topics with the most events, the most first; of equals the one that was used first.
fn most_used(topics: &[TopicTotals]) -> Vec<&TopicTotals> {
    let mut all: Vec<(usize, &TopicTotals)> = topics.iter().enumerate().collect();
    let order = |(index, topic): &(usize, &TopicTotals)| (Reverse(topic.acked), *index);
    if all.len() > TOPICS_MAX {
        all.select_nth_unstable_by_key(TOPICS_MAX, order);
        all.truncate(TOPICS_MAX);
    }
    all.sort_unstable_by_key(order);
    all.into_iter().map(|(_, topic)| topic).collect()
}
