//! How numbers, times and failures are spelled for people.

use std::{io, time::Duration};

use relay::Failure;

/// Bytes with one decimal: `312 B`, `1.5 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let mut whole = bytes;
    let mut tenths = None;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if whole < 1024 {
            break;
        }
        tenths = Some((whole % 1024) * 10 / 1024);
        whole /= 1024;
        unit = larger;
    }
    tenths.map_or_else(|| format!("{whole} {unit}"), |tenths| format!("{whole}.{tenths} {unit}"))
}

/// A span of time, roughly.
pub(super) fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A failure with its hint.
pub(super) fn complain(out: &mut dyn io::Write, failure: &Failure) -> io::Result<()> {
    writeln!(out, "error: {failure}")?;
    match &failure.hint {
        Some(hint) => writeln!(out, "  hint: {hint}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_one_decimal_of_the_largest_unit() {
        for (amount, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
        {
            assert_eq!(bytes(amount), text);
        }
    }

    #[test]
    fn times_are_told_in_the_unit_that_matters() {
        for (seconds, text) in
            [(90, "90 s"), (3_700, "61 min"), (9_000, "2 h"), (400_000, "4 days")]
        {
            assert_eq!(roughly(Duration::from_secs(seconds)), text);
        }
    }
}
