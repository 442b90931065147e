//! How fast the rules are: as shipped, or with every duration divided, so that a rehearsal of
//! router, Prometheus and pager need not wait for minutes.
//!
//! Only durations are divided: `for`, ranges and offsets. Thresholds stay, for they are compared
//! with what the router exports.

use std::num::NonZeroU32;

/// What every duration is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace(NonZeroU32);

impl Pace {
    /// The durations of the tables.
    pub const AS_SHIPPED: Self = Self(NonZeroU32::MIN);

    /// Divides every duration by `factor`.
    pub const fn faster(factor: NonZeroU32) -> Self {
        Self(factor)
    }

    /// A duration in seconds as PromQL writes it: in one unit, and no shorter than a second.
    pub fn seconds(self, seconds: u32) -> String {
        let seconds = match seconds / self.0 {
            0 if seconds > 0 => 1,
            quotient => quotient,
        };
        let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
        let unit = units.iter().find(|(length, _)| seconds > 0 && seconds % length == 0);
        unit.map_or_else(
            || format!("{seconds}s"),
            |(length, unit)| format!("{}{unit}", seconds / length),
        )
    }

    /// A word of an expression, divided if it is a duration; `None` if it is none.
    pub(super) fn duration(self, word: &str) -> Option<String> {
        let (unit_at, unit) = word.char_indices().last()?;
        let length = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        let count: u32 = word.get(..unit_at)?.parse().ok()?;
        Some(self.seconds(count.checked_mul(length)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_divided_and_nothing_else_is() {
        let fast = Pace::faster(NonZeroU32::new(6).unwrap());
        let words = ["5m", "2m", "1d", "1s", "14400", "min", "60s", "m"];
        let divided = words.map(|word| fast.duration(word));
        let wanted = ["50s", "20s", "4h", "1s", "", "", "10s", ""];
        assert_eq!(divided, wanted.map(|word| (!word.is_empty()).then(|| word.to_owned())));
        assert_eq!(Pace::AS_SHIPPED.duration("90m"), Some("90m".to_owned()));
        assert_eq!(Pace::AS_SHIPPED.seconds(0), "0s");
    }
}
