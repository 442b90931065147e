//! Durations and sizes as people write them: a whole number and its unit. A bare number is refused,
//! because `30` does not say whether seconds or milliseconds were meant.
//!
//! No crate is used, because here each unit has one spelling, which is also the one that is
//! printed. `humantime` accepts `5 sec`, `1h 30m` and `0`, and prints `1s 500ms`; `bytesize` takes
//! a bare `64` for bytes, reads `64MB` as a decimal size, refuses `1_000B` and prints `32.0 MiB`.

use std::time::Duration;

/// Milliseconds in each unit of time, the largest first.
const DURATIONS: &Units =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// Bytes in each unit of size, the largest first.
const SIZES: &Units = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The units of a [`Quantity`] with their weights.
type Units = [(&'static str, u64)];

/// What is measured, which decides the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    Duration,
    Size,
}

impl Quantity {
    const fn units(self) -> &'static Units {
        match self {
            Self::Duration => DURATIONS,
            Self::Size => SIZES,
        }
    }

    /// With its article, for messages.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Duration => "a duration",
            Self::Size => "a size",
        }
    }

    /// What the right spelling looks like.
    pub(super) const fn example(self) -> &'static str {
        match self {
            Self::Duration => "\"500ms\", \"5s\", \"2m\", \"1h\" or \"7d\"",
            Self::Size => "\"1000B\", \"512KiB\", \"64MiB\" or \"2GiB\"",
        }
    }

    /// Reads an amount such as `64MiB` or `500ms`, in bytes or milliseconds.
    pub(super) fn parse(self, text: &str) -> Result<u64, NotAQuantity> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (digits, unit) = text.split_at_checked(end).ok_or(NotAQuantity::Malformed)?;
        let number: u64 = digits.replace('_', "").parse().map_err(|_| NotAQuantity::Malformed)?;
        let unit = unit.trim_start();
        if unit.is_empty() {
            return Err(NotAQuantity::Bare);
        }
        let known = self.units().iter().find(|(name, _)| *name == unit);
        let (_, weight) = known.ok_or(NotAQuantity::Unit)?;
        number.checked_mul(*weight).ok_or(NotAQuantity::Malformed)
    }

    /// Prints an amount in the largest unit that keeps it whole.
    pub(super) fn print(self, amount: u64) -> String {
        let fits = |(_, weight): &&(&str, u64)| amount != 0 && amount.is_multiple_of(*weight);
        let found = self.units().iter().find(fits).or(self.units().last());
        found.map_or_else(String::new, |(unit, weight)| format!("{}{unit}", amount / weight))
    }
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAQuantity {
    /// No number at its beginning, or one too large.
    Malformed,
    /// A number without a unit.
    Bare,
    /// A number with a unit that is not known.
    Unit,
}

/// A size in the largest unit that keeps it whole: `32MiB`.
pub fn print_size(bytes: u64) -> String {
    Quantity::Size.print(bytes)
}

/// A duration in the largest unit that keeps it whole: `5s`. Finer than a millisecond is not shown.
pub fn print_duration(duration: Duration) -> String {
    Quantity::Duration.print(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Reads a duration as the configuration does: for flags.
///
/// # Errors
/// The text is no duration; the message says what one looks like.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let quantity = Quantity::Duration;
    let millis =
        quantity.parse(text).map_err(|_| format!("write it like {}", quantity.example()))?;
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_needs_a_unit_of_its_own_kind() {
        assert_eq!(Quantity::Size.parse("64MiB"), Ok(64 << 20));
        assert_eq!(Quantity::Size.parse("1_000 B"), Ok(1_000));
        assert_eq!(Quantity::Duration.parse("500ms"), Ok(500));
        assert_eq!(Quantity::Duration.parse("2m"), Ok(120_000));
        assert_eq!(Quantity::Duration.parse("7d"), Ok(604_800_000));
        assert_eq!(Quantity::Size.parse("64"), Err(NotAQuantity::Bare));
        assert_eq!(Quantity::Size.parse("64MB"), Err(NotAQuantity::Unit));
        assert_eq!(Quantity::Duration.parse("5 sec"), Err(NotAQuantity::Unit));
        assert_eq!(Quantity::Duration.parse("-5s"), Err(NotAQuantity::Malformed));
        assert_eq!(Quantity::Duration.parse(""), Err(NotAQuantity::Malformed));
        assert_eq!(Quantity::Size.parse("99999999999GiB"), Err(NotAQuantity::Malformed));
    }

    #[test]
    fn what_is_printed_reads_back() {
        for (amount, text) in [(0, "0B"), (1_000, "1000B"), (3 << 19, "1536KiB"), (2 << 30, "2GiB")]
        {
            assert_eq!(print_size(amount), text);
            assert_eq!(Quantity::Size.parse(text), Ok(amount));
        }
        assert_eq!(print_duration(Duration::from_millis(1_500)), "1500ms");
        assert_eq!(print_duration(Duration::from_secs(120)), "2m");
        assert_eq!(print_duration(Duration::from_secs(7 * 86_400)), "7d");
        assert_eq!(print_duration(Duration::ZERO), "0ms");
    }
}
