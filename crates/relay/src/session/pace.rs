//! How eagerly to read, from how transactions come.

use std::time::Duration;

use crate::protocol::Pace;

/// How transactions come, by the server's clock.
pub(crate) struct Traffic {
    /// From the last one's commit to the sending of what was last received of it.
    pub(crate) lag_micros: i64,
    /// From the commit before to the last one.
    pub(crate) apart_micros: i64,
    /// The last one was not yet read to its end.
    pub(crate) is_amid_transaction: bool,
}

impl Pace {
    /// What is sent later than this after its commit is backlog. A server that waits for its disk
    /// sends a commit some milliseconds late, and it is news all the same.
    const BACKLOG_MICROS: i64 = 50_000;
    /// For a backlog, in which nothing can be late.
    const LONG_PAUSE: Duration = Duration::from_millis(4);
    /// For commits that follow each other closely: it costs a commit half of this, and less than it
    /// saves.
    const SHORT_PAUSE: Duration = Duration::from_micros(300);
    /// Where two commits were further apart, they come so seldom that few would meet in a short
    /// gulp. A little more than its length, because commits come irregularly.
    const CLOSE_TOGETHER_MICROS: i64 = 500;

    /// The pace for `traffic`.
    pub(crate) fn of(traffic: &Traffic) -> Self {
        let is_alone =
            traffic.is_amid_transaction || traffic.apart_micros > Self::CLOSE_TOGETHER_MICROS;
        if traffic.lag_micros > Self::BACKLOG_MICROS {
            Self::Coalesce(Self::LONG_PAUSE)
        } else if is_alone {
            Self::AtOnce
        } else {
            Self::Coalesce(Self::SHORT_PAUSE)
        }
    }
}
