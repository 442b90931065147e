//! How sizes are spelled for people, in one place, so that the same thing reads the same in every message.

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// Bytes as people read them: `312 B`, `1.5 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
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
}
