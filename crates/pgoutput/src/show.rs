//! How bytes appear in `Debug` output: names as text, values of rows as their length only.

use core::fmt;

/// A catalog name, escaped where it is not printable ASCII.
pub(crate) struct Name<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A value that belongs to the application and therefore not into a log.
pub(crate) struct Length<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Length<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
