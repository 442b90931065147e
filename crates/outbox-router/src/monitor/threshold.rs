//! When to log that the slot is far behind: once per crossing of a limit, not once per reading.

/// Limits on `bytes_behind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Above this, in bytes, a person should see to it in working hours.
    pub warning: u64,
    /// Above this, in bytes, a person should see to it now.
    pub critical: u64,
}

/// Which of the limits are exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Below both limits.
    #[default]
    Normal,
    /// Above `warning`.
    Warning,
    /// Above `critical`.
    Critical,
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// The number rose to this level.
    Above(Level),
    /// The number fell to this level.
    Below(Level),
}

/// Follows `bytes_behind` and its level.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    limits: Thresholds,
    level: Level,
}

impl Watch {
    /// A watch at [`Level::Normal`].
    pub fn new(limits: Thresholds) -> Self {
        Self { limits, level: Level::Normal }
    }

    /// Takes the number, and returns the crossing if the level changed. A level ends at four fifths
    /// of its limit, so that a number which varies around the limit is reported once.
    pub fn observe(&mut self, bytes_behind: u64) -> Option<Crossing> {
        let reached = self.level_at(bytes_behind, |limit| limit);
        let held = self.level_at(bytes_behind, |limit| limit / 5 * 4).min(self.level);
        let level = reached.max(held);
        let crossing = match level.cmp(&self.level) {
            std::cmp::Ordering::Greater => Some(Crossing::Above(level)),
            std::cmp::Ordering::Less => Some(Crossing::Below(level)),
            std::cmp::Ordering::Equal => None,
        };
        self.level = level;
        crossing
    }

    fn level_at(&self, bytes: u64, scale: impl Fn(u64) -> u64) -> Level {
        if bytes > scale(self.limits.critical) {
            Level::Critical
        } else if bytes > scale(self.limits.warning) {
            Level::Warning
        } else {
            Level::Normal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossings(numbers: &[u64]) -> Vec<Crossing> {
        let mut watch = Watch::new(Thresholds { warning: 100, critical: 1_000 });
        numbers.iter().filter_map(|&bytes| watch.observe(bytes)).collect()
    }

    #[test]
    fn a_crossing_is_reported_once() {
        use Crossing::{Above, Below};
        assert_eq!(
            crossings(&[50, 101, 500, 999, 1_001, 5_000, 700, 300, 10]),
            [
                Above(Level::Warning),
                Above(Level::Critical),
                Below(Level::Warning),
                Below(Level::Normal)
            ]
        );
    }

    #[test]
    fn hovering_around_a_limit_is_reported_once() {
        assert_eq!(crossings(&[101, 99, 101, 81, 101]), [Crossing::Above(Level::Warning)]);
        assert_eq!(crossings(&[1_001, 999, 1_001, 801, 1_001]), [Crossing::Above(Level::Critical)]);
    }

    #[test]
    fn a_leap_over_both_limits_is_one_crossing() {
        assert_eq!(
            crossings(&[5_000, 0]),
            [Crossing::Above(Level::Critical), Crossing::Below(Level::Normal)]
        );
    }
}
