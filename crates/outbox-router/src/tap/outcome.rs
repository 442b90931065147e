//! What became of a row, as it is shown.

use relay::{Code, Reason};
use serde::{Deserialize, Serialize};

/// See the module's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Its record was given to the producer.
    Routed,
    /// It left the table of held events, and its record was given to the producer.
    Released,
    /// It is held behind an earlier event of its key.
    Held,
    /// It was polled and cannot become a record: it is tried again, or abandoned.
    Failed,
    /// It can never be delivered.
    DeadLetter,
    /// A person has given it up.
    Skipped,
    /// The table's `where` leaves it out.
    Filtered,
    /// It came again, and is in the table of held events, or was delivered out of it.
    Repeated,
}

impl Outcome {
    /// Of a row without a record, and the code of a dead letter.
    pub(super) const fn of(reason: Reason) -> (Self, Option<Code>) {
        match reason {
            Reason::Held => (Self::Held, None),
            Reason::DeadLetter(code) => (Self::DeadLetter, Some(code)),
            Reason::Skipped => (Self::Skipped, None),
            Reason::Filtered => (Self::Filtered, None),
            Reason::Repeated => (Self::Repeated, None),
        }
    }

    /// The word in the line, and for people.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Routed => "routed",
            Self::Released => "released",
            Self::Held => "held",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
            Self::Skipped => "skipped",
            Self::Filtered => "filtered",
            Self::Repeated => "repeated",
        }
    }
}
