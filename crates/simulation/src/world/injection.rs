//! The result of injecting a fault.

/// Whether a fault could be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Injection {
    Done,
    /// There was nothing to do it to.
    NotApplicable,
}

impl From<bool> for Injection {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::NotApplicable }
    }
}
