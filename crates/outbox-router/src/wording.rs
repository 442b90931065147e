//! How numbers and times are spelled for people, in one place, so that the same thing reads the same in logs,
//! `/status.json` and errors.

use std::time::Duration;

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// Bytes as people read them: `312 B`, `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = "KiB";
    let mut whole = bytes;
    let mut tenths = 0;
    for name in UNITS {
        if whole < 1024 {
            break;
        }
        unit = name;
        tenths = (whole % 1024) * 10 / 1024;
        whole /= 1024;
    }
    format!("{whole}.{tenths} {unit}")
}

/// A time to come, roughly: nobody acts differently on 3,611 and 3,600 seconds.
pub(crate) fn roughly(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_one_decimal_and_the_largest_unit() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(256 << 20), "256.0 MiB");
        assert_eq!(bytes((5 << 30) + (1 << 29)), "5.5 GiB");
        assert_eq!(bytes(u64::MAX), "16383.9 PiB");
    }

    #[test]
    fn times_are_rounded_to_the_unit_that_matters() {
        assert_eq!(roughly(Duration::from_secs(90)), "90 s");
        assert_eq!(roughly(Duration::from_secs(3_700)), "61 min");
        assert_eq!(roughly(Duration::from_secs(9_000)), "2 h");
        assert_eq!(roughly(Duration::from_secs(400_000)), "4 days");
    }
}
