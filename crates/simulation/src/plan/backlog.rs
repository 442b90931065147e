//! How a router reads what the slot has when a session begins.

use relay::BacklogFrom;

use crate::random::Random;

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BacklogReading {
    /// As a stream.
    Stream,
    /// By SQL.
    Sql,
    /// By SQL, and that connection breaks early.
    SqlBreaks,
}

impl BacklogReading {
    /// Half of the plans have a stream only.
    pub(super) fn of_seed(seed: u64) -> Self {
        match Random::new(seed ^ 0x00ba_c109_5912).below(4) {
            0 => Self::Sql,
            1 => Self::SqlBreaks,
            _ => Self::Stream,
        }
    }

    /// As the core is told.
    pub const fn from(self) -> BacklogFrom {
        match self {
            Self::Stream => BacklogFrom::Stream,
            Self::Sql | Self::SqlBreaks => BacklogFrom::Sql,
        }
    }
}
