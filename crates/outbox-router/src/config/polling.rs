//! Where rows come from (`postgres.source`), and the sections that only the polling source has:
//! `[polling]` and `[retry]`.

use std::time::Duration;

use relay::polling::RetryPolicy;

use super::{
    entry::KeyEntry,
    error::{ConfigCode, ConfigError},
    kinds::{Kind, Named, count, duration, switch},
    places::Places,
    print::Lines,
    print_duration,
    read::{Problems, Section},
    table::{DeclaredTable, tables},
};

/// Where rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// From the WAL, through a logical slot.
    Stream,
    /// From their tables, by SQL.
    Polling,
}

impl SourceKind {
    /// As it is configured.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Polling => "polling",
        }
    }
}

/// The words of `postgres.source`.
pub(super) const SOURCES: &[(&str, SourceKind)] = &[
    (SourceKind::Stream.as_str(), SourceKind::Stream),
    (SourceKind::Polling.as_str(), SourceKind::Polling),
];

/// In milliseconds.
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

tables! {
    /// `[polling]`
    pub struct PollingSection {
        /// The most rows of a table that are read, produced and marked at a time. So many at most
        /// are delivered twice after a crash, with the same content. limits.window_bytes bounds
        /// them, too.
        batch: usize = 1_000, count(1..=10_000);
        /// How long a table in which nothing was pending is left alone. A table in which something
        /// was is read again at once.
        interval: Duration = Duration::from_secs(1), duration(10..=HOUR);
        // Records are given up after half of it, and a broker may need a second.
        /// For how long keys belong to a worker that is not heard of; then another one takes them.
        /// A record that no broker takes within two fifths of it is given up, and its row is read
        /// again.
        lease: Duration = Duration::from_secs(10), duration(2 * SECOND..=10 * MINUTE);
        /// Whether NOTIFY wakes the router before the interval has passed, where `setup --apply
        /// --notify` made the trigger. That takes a connection of its own, and a pooler in
        /// transaction mode does not give it one: the interval then applies.
        notify: bool = true, switch(true, false);
    }

    impl RetryPolicy {
        /// After so many attempts a row is abandoned, where on_error makes a dead letter of it.
        max_attempts: u32 = 5, count(1..=1_000);
        /// The wait after the first attempt.
        base_delay: Duration = Duration::from_secs(1), duration(1..=HOUR);
        /// By how much each further wait is longer.
        multiplier: u32 = 2, count(1..=100);
        /// The longest wait; not shorter than base_delay.
        max_backoff: Duration = Duration::from_secs(5 * 60), duration(1..=DAY);
        /// By how much of itself, in percent, a wait may be longer at random, so that rows that
        /// failed together are not tried together.
        jitter: u32 = 20, count(0..=100);
    }
}

/// Checks the section against itself.
pub(super) fn validate_retry(retry: &RetryPolicy, places: &Places, problems: &mut Problems<'_>) {
    if retry.base_delay > retry.max_backoff {
        let (first, most) = (print_duration(retry.base_delay), print_duration(retry.max_backoff));
        let message =
            format!("retry.base_delay ({first}) is longer than retry.max_backoff ({most})");
        problems.push(
            ConfigError::new(ConfigCode::Contradiction, message)
                .at(places.find_first(&["retry.base_delay", "retry.max_backoff"]))
                .hint("the first wait is the shortest"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_core() {
        assert_eq!(RetryPolicy::defaults(), RetryPolicy::default());
    }
}
