//! How long to let the socket fill, decided by the intervals at which transactions arrive.

use std::time::Duration;

use crate::protocol::ReadPace;

/// How transactions arrive, by the server's clock.
pub(crate) struct Traffic {
    /// From the last transaction's commit to the sending of what was last received of it.
    pub(crate) lag_micros: i64,
    /// Between the commits of the last two transactions.
    pub(crate) apart_micros: i64,
    /// The last transaction was not yet read to its end.
    pub(crate) is_amid_transaction: bool,
}

impl ReadPace {
    /// What is sent later than this after its commit is backlog. The limit is well above the few
    /// milliseconds by which a server that waits for its disk sends a commit late.
    const BACKLOG_MICROS: i64 = 50_000;
    /// The pause where commits follow each other closely. It delays a commit by half of this on
    /// average, less than it saves.
    const SHORT_PAUSE: Duration = Duration::from_micros(300);
    /// If two commits are further apart than this, few commits would share a short pause. A little
    /// more than the short pause, because commits arrive irregularly.
    const CLOSE_TOGETHER_MICROS: i64 = 500;

    /// The pace for `traffic`.
    pub(crate) fn of(traffic: &Traffic) -> Self {
        let is_alone =
            traffic.is_amid_transaction || traffic.apart_micros > Self::CLOSE_TOGETHER_MICROS;
        if traffic.lag_micros > Self::BACKLOG_MICROS {
            let behind = Duration::from_micros(traffic.lag_micros.unsigned_abs());
            Self::Backlog { behind }
        } else if is_alone {
            Self::AtOnce
        } else {
            Self::Coalesce(Self::SHORT_PAUSE)
        }
    }
}
