//! The result of injecting a fault.

/// Whether a fault could be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// There was nothing to do it to.
    Pointless,
}

impl From<bool> for Outcome {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Pointless }
    }
}
