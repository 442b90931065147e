//! A position in the write-ahead log.
//!
//! The number is private and has no arithmetic, because a computed position ("one byte further",
//! "the smaller of two guesses") could be confirmed although nobody acknowledged it. Positions come
//! from the server and can only be stored, compared and printed. The only subtraction,
//! [`Lsn::bytes_since`], gives a distance for gauges.

use core::fmt;
use core::str::FromStr;

/// A log sequence number: a byte position in the WAL (the SQL type `pg_lsn`).
///
/// Written as PostgreSQL writes it, `16/B374D848`: the two 32-bit halves in upper-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// `0/0`: no position. In `START_REPLICATION` it means the slot's `confirmed_flush_lsn`.
    pub const ZERO: Self = Self(0);

    /// The position at this many bytes from the beginning of the WAL.
    #[must_use]
    pub const fn from_u64(position: u64) -> Self {
        Self(position)
    }

    /// The position in bytes from the beginning of the WAL.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Bytes of WAL from `earlier` to `self`; `None` when `earlier` lies after it.
    #[must_use]
    pub fn bytes_since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    /// Reads what the type `pg_lsn` reads: one to eight hexadecimal digits of either case, a
    /// slash, one to eight more.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (high, low) = text.split_once('/').ok_or(ParseLsnError::NoSlash)?;
        Ok(Self(half(high)? << 32 | half(low)?))
    }
}

/// Why a text is no LSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseLsnError {
    /// There are no two halves.
    #[error("an LSN has a slash between its two halves, as in 16/B374D848")]
    NoSlash,
    /// A half is empty, too long, or holds something else than hexadecimal digits.
    #[error("each half of an LSN is one to eight hexadecimal digits, as in 16/B374D848")]
    Half,
}

fn half(digits: &str) -> Result<u64, ParseLsnError> {
    // `from_str_radix` alone would take a leading plus sign.
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(ParseLsnError::Half);
    }
    u64::from_str_radix(digits, 16).map_err(|_| ParseLsnError::Half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::ToString;

    #[test]
    fn prints_as_postgresql_does() {
        let lsn = Lsn::from_u64(0x16_B374_D848);
        assert_eq!(lsn.to_string(), "16/B374D848");
        assert_eq!(format!("{lsn:?}"), "16/B374D848");
        assert_eq!(Lsn::from_u64(0x1_0000_00AB).to_string(), "1/AB");
        assert_eq!(Lsn::ZERO.to_string(), "0/0");
    }

    #[test]
    fn reads_either_case_and_leading_zeros() {
        assert_eq!("16/b374d848".parse(), Ok(Lsn::from_u64(0x16_B374_D848)));
        assert_eq!("00000001/000000AB".parse(), Ok(Lsn::from_u64(0x1_0000_00AB)));
        assert_eq!("FFFFFFFF/FFFFFFFF".parse(), Ok(Lsn::from_u64(u64::MAX)));
    }

    #[test]
    fn refuses_what_is_no_lsn() {
        for text in ["", "16", "16-B3"] {
            assert_eq!(text.parse::<Lsn>(), Err(ParseLsnError::NoSlash), "{text:?}");
        }
        for text in ["/", "16/", "/1", "+1/2", "1/-2", "1/2/3", "123456789/0", "0/123456789", "g/0"]
        {
            assert_eq!(text.parse::<Lsn>(), Err(ParseLsnError::Half), "{text:?}");
        }
    }

    #[test]
    fn a_distance_is_never_negative() {
        let (earlier, later) = (Lsn::from_u64(100), Lsn::from_u64(164));
        assert_eq!(later.bytes_since(earlier), Some(64));
        assert_eq!(later.bytes_since(later), Some(0));
        assert_eq!(earlier.bytes_since(later), None);
    }

    proptest! {
        #[test]
        fn every_lsn_survives_being_written_and_read(position: u64) {
            let lsn = Lsn::from_u64(position);
            prop_assert_eq!(lsn.to_string().parse(), Ok(lsn));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,20}") {
            if let Ok(lsn) = text.parse::<Lsn>() {
                prop_assert_eq!(lsn.to_string().parse(), Ok(lsn));
            }
        }
    }
}
