//! Conversion and formatting of figures.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// A count as a floating-point number, for ratios and rates.
#[expect(clippy::as_conversions, reason = "counts of a bench stay far below 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A time in milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Bytes in megabytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    float(bytes) / 1e6
}

/// A text member of a JSON line; empty if there is none.
pub(crate) fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A numeric member of a JSON line.
pub(crate) fn number(line: &Value, name: &str) -> Option<f64> {
    line.get(name).and_then(Value::as_f64)
}

/// The smallest figure, the median and the largest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

/// Of one figure.
impl From<f64> for Spread {
    fn from(figure: f64) -> Self {
        Self { min: figure, median: figure, max: figure }
    }
}

impl Spread {
    /// `None` if there are no figures.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let lower = sorted.get(sorted.len().checked_sub(1)? / 2)?;
        let upper = sorted.get(sorted.len() / 2)?;
        let median = f64::midpoint(*lower, *upper);
        Some(Self { min: *sorted.first()?, median, max: *sorted.last()? })
    }

    /// The three with one decimal place, each multiplied by `scale`.
    pub(crate) fn show(&self, scale: f64) -> String {
        let Self { min, median, max } = self;
        format!("{:.1} {:.1} {:.1}", min * scale, median * scale, max * scale)
    }

    /// The three with two decimal places, for ratios.
    pub(crate) fn show_fine(&self) -> String {
        let Self { min, median, max } = self;
        format!("{min:.2} {median:.2} {max:.2}")
    }

    /// The range divided by the median: the noise.
    pub(crate) fn width(&self) -> f64 {
        (self.max - self.min) / self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_figures_is_the_mean_of_the_middle_two() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { min: 1.0, median: 2.5, max: 4.0 });
        assert_eq!(Spread::of([7.0]).unwrap().median, 7.0);
        assert_eq!(Spread::of([]), None);
    }
}
