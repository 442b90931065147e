//! The stream of a slot that this router does not hold any more, while it is read to its end.

use pgoutput::Lsn;

use super::failure_history::During;
use crate::{
    clock::Moment,
    failure::{Class, Failure},
    source::Interval,
};

/// A stream that is read to its end.
pub(super) struct Leaving {
    /// Why the session ended, unless the server says more.
    pub(super) why: Failure,
    pub(super) until: Moment,
    /// The rows at risk, if the server names a gap.
    pub(super) at_risk: Interval,
    /// The position that was confirmed.
    pub(super) confirmed: Lsn,
}

impl Leaving {
    /// What is reported when the connection fails: a failed connection alone says less than that
    /// the slot is lost.
    pub(super) fn reported(&self, failure: Failure) -> (Failure, During) {
        let failure = if failure.class() == Class::Transport { self.why.clone() } else { failure };
        (failure, During::Streaming(self.confirmed))
    }
}
