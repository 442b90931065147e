//! What a person decides about dead letters.

use super::args::Extent;

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Requeue,
    Drop(Extent),
}

impl Decision {
    /// The command, and the action in the table of decisions.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Drop(_) => "drop",
        }
    }

    /// `held.state` from then on.
    pub(super) const fn state(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Drop(_) => "dropping",
        }
    }

    pub(super) const fn done(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Drop(_) => "dropped",
        }
    }

    pub(super) const fn consequence(self) -> &'static str {
        match self {
            Self::Requeue => {
                "The router routes each of them again, by the configuration that it runs with \
                 then, and\ndelivers it before what is held behind it. What still cannot be \
                 delivered becomes a dead\nletter again."
            }
            Self::Drop(Extent::Letters) => {
                "They are never delivered; what is held behind them is, in its order. If an \
                 event is needed,\ninsert a corrected row."
            }
            Self::Drop(Extent::Behind) => {
                "They are never delivered, and neither is what is held behind them now; what \
                 comes later in\ntheir keys is. If an event is needed, insert it again under a new id."
            }
        }
    }

    /// Whether it needs the whole row, which did not arrive of one that is too large.
    pub(super) const fn needs_whole_row(self) -> bool {
        matches!(self, Self::Requeue)
    }

    /// Whether it is about what is held behind the dead letters, too.
    pub(super) const fn is_with_behind(self) -> bool {
        matches!(self, Self::Drop(Extent::Behind))
    }
}
