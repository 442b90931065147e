//! How often each latency occurred, as bars. The bars are as high as the logarithm of their count:
//! the few slow events are what one looks for.

use maud::{Markup, html};
use relay::{LATENCY_BOUNDS, Latencies};

use super::{bounds::bound_text, format};

const HEIGHT: u64 = 60;

pub(super) fn histogram(latencies: &Latencies) -> Markup {
    let greatest = latencies.buckets.iter().copied().max().unwrap_or(0);
    let bounds = LATENCY_BOUNDS.iter().map(|bound| format!("≤ {}", bound_text(*bound)));
    let bounds = bounds.chain(["> 5 min".to_owned()]);
    html! {
        figure.histogram {
            svg viewBox="0 0 190 60" preserveAspectRatio="none" role="img"
                aria-label="Events by latency, on a logarithmic scale" {
                @for (index, (count, bound)) in latencies.buckets.iter().zip(bounds).enumerate() {
                    @let height = height(*count, greatest);
                    rect x=(index * 10 + 1) width="8" y=(HEIGHT - height) height=(height) {
                        title { (bound) ": " (format::counted(*count, "event")) }
                    }
                }
            }
            p.axis { span { "1 ms" } span { "20" } span { "500" } span { "10 s" } span { "> 5 min" } }
        }
    }
}

/// One event is seen; none has no bar.
fn height(count: u64, greatest: u64) -> u64 {
    let bits = |count: u64| u64::from(u64::BITS - count.leading_zeros());
    format::part(bits(count), bits(greatest), HEIGHT)
}
