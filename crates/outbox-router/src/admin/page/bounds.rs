//! What the buckets of a histogram say: no more than between which bounds an event lies.

use relay::{LATENCY_BOUNDS, Latencies};

/// The bound below which so many percent are. What lies within a bucket is not known, so no more
/// than its bound is claimed.
pub(super) fn quantile(latencies: &Latencies, percent: u64) -> String {
    let events = latencies.events();
    if events == 0 {
        return "–".to_owned();
    }
    let rank = (u128::from(events) * u128::from(percent)).div_ceil(100);
    let mut below = 0;
    for (count, bound) in latencies.buckets.iter().zip(LATENCY_BOUNDS) {
        below += u128::from(*count);
        if below >= rank {
            return format!("≤ {}", bound_text(bound));
        }
    }
    format!("> {}", bound_text(300.0))
}

pub(super) fn bound_text(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1_000.0),
        seconds if seconds < 60.0 => format!("{seconds} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let mut latencies = Latencies::default();
        assert_eq!(quantile(&latencies, 50), "–");
        (latencies.buckets[1], latencies.buckets[11], latencies.buckets[18]) = (90, 9, 1);
        assert_eq!(quantile(&latencies, 50), "≤ 2 ms");
        assert_eq!(quantile(&latencies, 95), "≤ 2.5 s");
        assert_eq!(quantile(&latencies, 99), "≤ 2.5 s");
        assert_eq!(quantile(&latencies, 100), "> 5 min");
    }

    #[test]
    fn bounds_are_short() {
        let texts: Vec<String> = LATENCY_BOUNDS.iter().map(|bound| bound_text(*bound)).collect();
        assert!(texts.iter().all(|text| text.len() <= 6), "{texts:?}");
    }
}
