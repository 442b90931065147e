//! What is known of one broker.

use std::time::Duration;

/// What one document says of a broker. Counts are those since the producer was made.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerFigures {
    /// `host:port`, as the cluster advertises it.
    pub address: String,
    /// The connection to it; `None` for a state that is not known here.
    pub connection: Option<BrokerConnection>,
    /// Requests that wait to be sent.
    pub unsent: Waiting,
    /// Requests that were sent and are not answered.
    pub unanswered: Waiting,
    /// Of the requests that were answered since the last document; `None` when there were none.
    pub round_trip: Option<RoundTrip>,
    /// Requests that were sent.
    pub requests: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Bytes that were received.
    pub received_bytes: u64,
    /// Requests that could not be sent.
    pub send_errors: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Requests that were given up, because no answer came in time.
    pub timeouts: u64,
    /// Attempts to connect.
    pub connects: u64,
    /// Connections that ended.
    pub disconnects: u64,
    /// For how long the broker has told the producer to wait, because of a quota.
    pub throttled: Duration,
}

/// Requests that wait, and the records in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Requests.
    pub requests: u64,
    /// Records.
    pub records: u64,
}

/// From sending a request to its answer. For records that includes the broker's wait for its
/// replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The mean.
    pub mean: Duration,
    /// Half of the requests took no longer.
    pub p50: Duration,
    /// 99 of 100 requests took no longer.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

/// A broker's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerConnection {
    /// None, and none is needed: the broker leads no partition that the router writes to.
    Idle,
    /// One is needed, and is being made, or the pause before the next attempt runs.
    Connecting,
    /// There is one.
    Up,
    /// It has just failed.
    Down,
}

impl BrokerConnection {
    /// Every one, in the order of the declaration.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Connecting, Self::Up, Self::Down];

    /// Its word in the metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}
