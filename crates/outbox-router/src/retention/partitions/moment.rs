//! Times between partitions, counted in microseconds since 1970, and how they are written.

/// Microseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000;

/// Microseconds of a day.
pub(crate) const DAY: i64 = 86_400 * SECOND;

/// What lies between two times: `from` belongs to it, `to` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// What of the present and of the next `ahead` ranges of this `width` no range in `taken` has.
/// Ranges begin at multiples of the width since 1970, so days begin at midnight UTC.
pub(crate) fn missing(now: i64, width: i64, ahead: u64, taken: &[Range]) -> Vec<Range> {
    let mut taken = taken.to_vec();
    taken.sort_unstable();
    let present = now.div_euclid(width);
    let numbers = 0..=i64::try_from(ahead).unwrap_or(i64::MAX);
    let wanted = numbers.map_while(|number| {
        let from = present.checked_add(number)?.checked_mul(width)?;
        Some(Range { from, to: from.checked_add(width)? })
    });
    wanted.flat_map(|range| left(range, &taken)).collect()
}

/// What of a range no other has; `taken` is in order.
fn left(range: Range, taken: &[Range]) -> Vec<Range> {
    let mut found = Vec::new();
    let mut from = range.from;
    for other in taken.iter().filter(|other| other.to > range.from && other.from < range.to) {
        if other.from > from {
            found.push(Range { from, to: other.from });
        }
        from = from.max(other.to);
    }
    if from < range.to {
        found.push(Range { from, to: range.to });
    }
    found
}

/// A time of the calendar, in UTC.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
}

/// The calendar in which a year begins in March, so that the day of a leap year is its last.
fn civil(moment: i64) -> Civil {
    let of_day = moment.rem_euclid(DAY);
    let (seconds, micros) = (of_day / SECOND, of_day % SECOND);
    // Days since 1 March of the year 0, in eras of 400 years.
    let days = moment.div_euclid(DAY) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    Civil {
        year: era * 400 + year_of_era + i64::from(month <= 2),
        month,
        day: of_year - (153 * from_march + 2) / 5 + 1,
        hour: seconds / 3_600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        micros,
    }
}

/// As in `2026-01-31`.
pub(crate) fn date(moment: i64) -> String {
    let Civil { year, month, day, .. } = civil(moment);
    format!("{year:04}-{month:02}-{day:02}")
}

/// As in `2026-01-31 00:00:00`, in UTC.
pub(crate) fn date_time(moment: i64) -> String {
    let Civil { hour, minute, second, micros, .. } = civil(moment);
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    format!("{} {hour:02}:{minute:02}:{second:02}{fraction}", date(moment))
}

/// As in `20260131`, with the time of the day only where it is not midnight: for a name.
pub(super) fn compact(moment: i64) -> String {
    let Civil { year, month, day, hour, minute, second, micros } = civil(moment);
    let date = format!("{year:04}{month:02}{day:02}");
    match (hour, minute, second, micros) {
        (0, 0, 0, 0) => date,
        (_, _, _, 0) => format!("{date}_{hour:02}{minute:02}{second:02}"),
        (_, _, _, _) => format!("{date}_{hour:02}{minute:02}{second:02}_{micros:06}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i64, to: i64) -> Range {
        Range { from, to }
    }

    #[test]
    fn what_no_partition_has_is_missing_and_nothing_else() {
        assert_eq!(missing(25, 10, 1, &[]), [range(20, 30), range(30, 40)]);
        assert_eq!(missing(30, 10, 0, &[]), [range(30, 40)]);
        assert_eq!(missing(-5, 10, 0, &[]), [range(-10, 0)]);
        // Partitions of another width, and in any order.
        let taken = [range(33, 52), range(0, 24), range(26, 28)];
        let expected = [range(24, 26), range(28, 30), range(30, 33), range(52, 60)];
        assert_eq!(missing(25, 10, 3, &taken), expected);
        let unbounded = [range(i64::MIN, 24), range(24, i64::MAX)];
        assert_eq!(missing(25, 10, 30, &unbounded), []);
        assert_eq!(missing(i64::MAX - 5, 10, 3, &[]).len(), 0);
    }

    /// Ranges that are made are taken from then on.
    #[test]
    fn nothing_is_missing_behind_what_was_made_until_time_has_passed() {
        let mut taken = vec![range(7, 13), range(31, 33)];
        for now in 12..60 {
            let made = missing(now, 10, 2, &taken);
            for one in &made {
                assert!(taken.iter().all(|other| other.to <= one.from || one.to <= other.from));
            }
            taken.extend(made);
            assert_eq!(missing(now, 10, 2, &taken), []);
            let is_there = |at| taken.iter().any(|one| one.from <= at && at < one.to);
            assert!((now..now + 20).all(is_there), "{now}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (moment, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59.999999"),
            (951_782_400 * SECOND, "2000-02-29 00:00:00"),
            (4_107_542_400 * SECOND, "2100-03-01 00:00:00"),
            (1_767_225_599 * SECOND + 5, "2025-12-31 23:59:59.000005"),
        ] {
            assert_eq!(date_time(moment), text);
        }
        assert_eq!(compact(1_767_225_600 * SECOND), "20260101");
        assert_eq!(compact(1_767_225_602 * SECOND), "20260101_000002");
        assert_eq!(compact(1_767_225_602 * SECOND + 7), "20260101_000002_000007");
    }
}
