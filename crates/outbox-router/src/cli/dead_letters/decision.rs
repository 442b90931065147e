//! What a person decides about dead letters.

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Requeue,
    Drop,
}

impl Decision {
    /// The command, and the action in the table of decisions.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Drop => "drop",
        }
    }

    /// `held.state` from then on.
    pub(super) const fn state(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Drop => "dropping",
        }
    }

    pub(super) const fn done(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Drop => "dropped",
        }
    }

    pub(super) const fn consequence(self) -> &'static str {
        match self {
            Self::Requeue => {
                "The router routes each of them again, by the configuration that it runs with \
                 then, and\ndelivers it before what is held behind it. What still cannot be \
                 delivered becomes a dead\nletter again."
            }
            Self::Drop => {
                "They are never delivered; what is held behind them is, in its order. If an \
                 event is needed,\ninsert a corrected row."
            }
        }
    }
}
