//! The system's clock, as PostgreSQL counts time.

use std::time::SystemTime;

use relay::PgTimestamp;

/// A moment of the system's clock; one before 1970-01-01 UTC becomes that.
pub(crate) fn timestamp(time: SystemTime) -> PgTimestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    PgTimestamp::from_unix_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_before_the_epoch_becomes_the_epoch() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(timestamp(epoch + Duration::new(946_684_800, 7_000)).as_micros(), 7);
        let before = epoch.checked_sub(Duration::from_secs(1)).unwrap();
        assert_eq!(timestamp(before), PgTimestamp::from_unix_micros(0));
    }
}
