//! Prometheus' text format 0.0.4, written here: every scraper reads it, and each name is exported
//! exactly as the code that calls this spells it.
//!
//! Crates were tried behind the same methods, which are 153 lines here:
//! - `prometheus-client` 0.25, 145 lines and three packages, writes OpenMetrics: HELP and TYPE of
//!   counters lose `_total` (`client_rust` issue 51), and `le="1"` becomes `le="1.0"`, another
//!   series before Prometheus 3.
//! - `prometheus` 0.14, 130 lines and two packages, differs only in `inf` for `+Inf`, but was last
//!   released in March 2025.
//! - The writer in `metrics-exporter-prometheus` 0.18 brings 16 packages and guesses which
//!   backslashes of a label are escapes already.

use std::fmt::Write as _;

use crate::monitor::rates::number;

/// The content type of this format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Counter,
    Gauge,
    Histogram,
}

/// A page that is being written; every sample carries the common labels.
pub(crate) struct Page {
    text: String,
    common: String,
}

/// A family whose head is written; its samples follow.
pub(crate) struct Family<'p> {
    page: &'p mut Page,
    name: &'static str,
}

impl Page {
    pub(crate) fn new(common: &[(&str, &str)]) -> Self {
        let mut text = String::new();
        labels(&mut text, common);
        Self { text: String::with_capacity(8 << 10), common: text }
    }

    /// Begins a family. A family without samples is not begun: an absent series means "not known",
    /// which no number can say.
    pub(crate) fn family(&mut self, name: &'static str, kind: Type, help: &str) -> Family<'_> {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        for part in ["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"] {
            self.text.push_str(part);
        }
        Family { page: self, name }
    }

    /// A gauge of one number.
    pub(crate) fn gauge_float(&mut self, name: &'static str, help: &str, value: f64) {
        self.family(name, Type::Gauge, help).float(&[], value);
    }

    /// A gauge of one whole number.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &str, value: u64) {
        self.family(name, Type::Gauge, help).whole(&[], value);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// One sample of a whole number.
    pub(crate) fn whole(&mut self, own: &[(&str, &str)], value: u64) {
        self.sample("", own, &value.to_string());
    }

    /// One sample.
    pub(crate) fn float(&mut self, own: &[(&str, &str)], value: f64) {
        self.sample("", own, &float(value));
    }

    /// One sample per state of a set of states, 1 for `holds` and 0 for the others.
    pub(crate) fn states<'w>(
        &mut self,
        label: &str,
        words: impl IntoIterator<Item = &'w str>,
        holds: &str,
    ) {
        for word in words {
            self.whole(&[(label, word)], u64::from(word == holds));
        }
    }

    /// A histogram of `counts` per bucket, made cumulative; the last bucket has no upper bound.
    pub(crate) fn histogram(
        &mut self,
        own: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let mut so_far = 0;
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        for (bound, count) in bounds.zip(counts) {
            so_far += count;
            let bound = float(bound);
            let with_bound: Vec<_> = own.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample("_bucket", &with_bound, &so_far.to_string());
        }
        self.sample("_sum", own, &float(sum));
        self.sample("_count", own, &so_far.to_string());
    }

    fn sample(&mut self, suffix: &str, own: &[(&str, &str)], value: &str) {
        let text = &mut self.page.text;
        text.push_str(self.name);
        text.push_str(suffix);
        text.push('{');
        text.push_str(&self.page.common);
        if !own.is_empty() {
            text.push(',');
            labels(text, own);
        }
        text.push_str("} ");
        text.push_str(value);
        text.push('\n');
    }
}

fn labels(text: &mut String, labels: &[(&str, &str)]) {
    for (place, (name, value)) in labels.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c => text.push(c),
            }
        }
        text.push('"');
    }
}

fn float(value: f64) -> String {
    let mut text = String::new();
    if value == f64::INFINITY {
        text.push_str("+Inf");
    } else if write!(text, "{value}").is_err() {
        text.push_str("NaN");
    }
    text
}

/// Microseconds as seconds.
pub(crate) fn seconds(micros: u64) -> f64 {
    number(micros) / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_carries_the_common_labels_and_its_own_escaped() {
        let mut page = Page::new(&[("pipeline", "a\"b\\c\n")]);
        page.family("x", Type::Gauge, "Help.").whole(&[("state", "up")], 1);
        assert_eq!(
            page.into_text(),
            "# HELP x Help.\n# TYPE x gauge\nx{pipeline=\"a\\\"b\\\\c\\n\",state=\"up\"} 1\n"
        );
    }

    #[test]
    fn buckets_are_cumulative_and_end_at_infinity() {
        let mut page = Page::new(&[("p", "q")]);
        page.family("h", Type::Histogram, "Help.").histogram(&[], &[0.5, 1.0], &[2, 0, 3], 4.5);
        let text = page.into_text();
        for line in [
            "h_bucket{p=\"q\",le=\"0.5\"} 2\n",
            "h_bucket{p=\"q\",le=\"1\"} 2\n",
            "h_bucket{p=\"q\",le=\"+Inf\"} 5\n",
            "h_sum{p=\"q\"} 4.5\n",
            "h_count{p=\"q\"} 5\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
