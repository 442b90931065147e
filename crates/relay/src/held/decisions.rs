//! When the table is asked what a person has decided about dead letters.

use std::time::Duration;

use super::DECIDED_MAX;
use crate::clock::Moment;

/// How often, while something is held.
const READ_EVERY: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    read_at: Moment,
    named: Named,
}

/// Which of the keys with decisions the last answer named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Named {
    #[default]
    All,
    /// As many as an answer may have.
    Some,
    /// The same, and events of them have left the table since. So the next ones are asked for at
    /// once; keys that cannot leave yet may be named again and again.
    SomeHaveLeft,
}

impl Decisions {
    /// A session begins.
    pub(crate) fn begin(&mut self, at: Moment) {
        *self = Self { read_at: at, named: Named::All };
    }

    /// When the table is to be asked.
    pub(crate) fn due_at(&self) -> Moment {
        self.read_at
    }

    /// The table has named this many keys.
    pub(crate) fn answered(&mut self, keys: usize, at: Moment) {
        self.named = if keys >= DECIDED_MAX { Named::Some } else { Named::All };
        self.read_at = at + READ_EVERY;
    }

    /// Events have left the table.
    pub(crate) fn events_left(&mut self) {
        if self.named == Named::Some {
            self.named = Named::SomeHaveLeft;
        }
    }

    /// Nothing more may leave of the keys that were named.
    pub(crate) fn carried_out(&mut self, at: Moment) {
        if self.named == Named::SomeHaveLeft {
            self.read_at = at;
        }
    }
}
