//! Time as the replication protocol counts it.

/// Microseconds since 2000-01-01 00:00:00 UTC, PostgreSQL's epoch; earlier is negative.
///
/// A reading of the *server's* clock (in a status update: of the client's). It is suitable for ages
/// and record timestamps, not for ordering transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgTimestamp(i64);

/// From the Unix epoch to PostgreSQL's, a whole number of days.
const EPOCH_OFFSET_MILLIS: i64 = 946_684_800_000;

impl PgTimestamp {
    /// The moment this many microseconds after 2000-01-01 UTC.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 2000-01-01 UTC.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since 1970-01-01 UTC, rounded towards the past.
    #[must_use]
    pub fn unix_millis(self) -> i64 {
        // Dividing before adding keeps the whole range of the wire's Int64 free of overflow.
        self.0.div_euclid(1_000) + EPOCH_OFFSET_MILLIS
    }

    /// The moment this many microseconds after 1970-01-01 UTC. A moment before the earliest that
    /// this type can hold becomes that earliest one.
    #[must_use]
    pub fn from_unix_micros(micros: i64) -> Self {
        Self(micros.saturating_sub(EPOCH_OFFSET_MILLIS * 1_000))
    }

    /// Microseconds from `earlier` to `self`, negative when the clocks disagree, saturating.
    #[must_use]
    pub fn micros_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_is_the_year_2000() {
        assert_eq!(PgTimestamp::from_micros(0).unix_millis(), 946_684_800_000);
        assert_eq!(PgTimestamp::from_unix_micros(946_684_800_000_000).as_micros(), 0);
    }

    #[test]
    fn milliseconds_are_rounded_towards_the_past() {
        assert_eq!(PgTimestamp::from_micros(1_999).unix_millis(), 946_684_800_001);
        assert_eq!(PgTimestamp::from_micros(-1).unix_millis(), 946_684_799_999);
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        assert_eq!(PgTimestamp::from_unix_micros(i64::MIN).as_micros(), i64::MIN);
        let (first, last) =
            (PgTimestamp::from_micros(i64::MIN), PgTimestamp::from_micros(i64::MAX));
        assert!(first.unix_millis() < last.unix_millis());
        assert_eq!(last.micros_since(first), i64::MAX);
        assert_eq!(first.micros_since(last), i64::MIN);
    }
}
