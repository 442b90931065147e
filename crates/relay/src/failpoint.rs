//! Places at which a test ends the process, to examine what is left: `kill -9` at exactly that
//! place.
//!
//! Without the feature `failpoints` the function [`reached`] is empty and compiled away, so a
//! release contains no failpoint. With the feature, the process sets one hook, which decides what
//! happens at each place: the simulation unwinds, a test binary kills itself.

/// A place in the life of the process, in the order in which a process usually reaches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failpoint {
    /// The replication connection is made, and the server has identified itself.
    Connected,
    /// Slot and publication were checked, and no defect was found.
    SlotChecked,
    /// `START_REPLICATION` was answered.
    ReplicationStarted,
    /// The stream has passed what the witness covers, and the witness's last transaction was
    /// recognised.
    CoveredPassed,
    /// A Relation message was taken.
    RelationTaken,
    /// A Begin message was taken.
    BeginTaken,
    /// A row has its ticket and is about to be enqueued.
    BeforeEnqueue,
    /// A row was enqueued.
    AfterEnqueue,
    /// The producer's queue was full.
    QueueFull,
    /// An event has its ticket and is about to be written to the table of held events.
    BeforeHold,
    /// Events are in the table of held events.
    Held,
    /// Events that were held are acknowledged, and the table does not say so yet.
    Released,
    /// The table says that events are delivered.
    ReleaseClosed,
    /// A transaction's commit was taken.
    CommitTaken,
    /// A keepalive was taken.
    KeepaliveTaken,
    /// A NOTICE or WARNING was taken.
    WarningTaken,
    /// Acknowledgements arrived and are not counted yet.
    BeforeAcks,
    /// Acknowledgements were counted.
    AfterAcks,
    /// Every row that was received of the open transaction is acknowledged; its commit is still to
    /// come.
    AckedButOpen,
    /// The settled position is about to move.
    BeforeAdvance,
    /// The settled position has moved.
    AfterAdvance,
    /// A write of the witness is decided, but not yet produced.
    BeforeWitness,
    /// The witness is acknowledged, and its position confirmable.
    WitnessAcked,
    /// A status update is decided, but not yet written to the socket.
    BeforeStatus,
    /// A status update was written to the socket.
    AfterStatus,
    /// A record failed.
    DeliveryFailed,
    /// The server ended the stream.
    StreamEnded,
    /// The process received SIGTERM or SIGINT.
    DrainBegun,
    /// The last position of a drain is decided.
    DrainConfirmed,
    /// The drain is over, the process is about to exit.
    DrainEnded,
}

impl Failpoint {
    /// Every one there is.
    pub const ALL: [Self; 30] = [
        Self::Connected,
        Self::SlotChecked,
        Self::ReplicationStarted,
        Self::CoveredPassed,
        Self::RelationTaken,
        Self::BeginTaken,
        Self::BeforeEnqueue,
        Self::AfterEnqueue,
        Self::QueueFull,
        Self::BeforeHold,
        Self::Held,
        Self::Released,
        Self::ReleaseClosed,
        Self::CommitTaken,
        Self::KeepaliveTaken,
        Self::WarningTaken,
        Self::BeforeAcks,
        Self::AfterAcks,
        Self::AckedButOpen,
        Self::BeforeAdvance,
        Self::AfterAdvance,
        Self::BeforeWitness,
        Self::WitnessAcked,
        Self::BeforeStatus,
        Self::AfterStatus,
        Self::DeliveryFailed,
        Self::StreamEnded,
        Self::DrainBegun,
        Self::DrainConfirmed,
        Self::DrainEnded,
    ];

    /// Its name outside the code: kebab-case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::SlotChecked => "slot-checked",
            Self::ReplicationStarted => "replication-started",
            Self::CoveredPassed => "covered-passed",
            Self::RelationTaken => "relation-taken",
            Self::BeginTaken => "begin-taken",
            Self::BeforeEnqueue => "before-enqueue",
            Self::AfterEnqueue => "after-enqueue",
            Self::QueueFull => "queue-full",
            Self::BeforeHold => "before-hold",
            Self::Held => "held",
            Self::Released => "released",
            Self::ReleaseClosed => "release-closed",
            Self::CommitTaken => "commit-taken",
            Self::KeepaliveTaken => "keepalive-taken",
            Self::WarningTaken => "warning-taken",
            Self::BeforeAcks => "before-acks",
            Self::AfterAcks => "after-acks",
            Self::AckedButOpen => "acked-but-open",
            Self::BeforeAdvance => "before-advance",
            Self::AfterAdvance => "after-advance",
            Self::BeforeWitness => "before-witness",
            Self::WitnessAcked => "witness-acked",
            Self::BeforeStatus => "before-status",
            Self::AfterStatus => "after-status",
            Self::DeliveryFailed => "delivery-failed",
            Self::StreamEnded => "stream-ended",
            Self::DrainBegun => "drain-begun",
            Self::DrainConfirmed => "drain-confirmed",
            Self::DrainEnded => "drain-ended",
        }
    }

    /// The failpoint of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.as_str() == name)
    }
}

#[cfg(feature = "failpoints")]
static HOOK: std::sync::OnceLock<fn(Failpoint)> = std::sync::OnceLock::new();

/// Decides, once per process, what happens when a failpoint is reached.
///
/// # Errors
/// The hook, if there is one already.
#[cfg(feature = "failpoints")]
pub fn set_hook(hook: fn(Failpoint)) -> Result<(), fn(Failpoint)> {
    HOOK.set(hook)
}

/// The process is at this place.
#[cfg(feature = "failpoints")]
#[inline]
pub fn reached(point: Failpoint) {
    if let Some(hook) = HOOK.get() {
        hook(point);
    }
}

/// The process is at this place; without the feature, nothing happens.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub const fn reached(_point: Failpoint) {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_parse_to_their_failpoint() {
        let names: BTreeSet<&str> = Failpoint::ALL.iter().map(|point| point.as_str()).collect();
        assert_eq!(names.len(), Failpoint::ALL.len());
        for point in Failpoint::ALL {
            assert_eq!(Failpoint::parse(point.as_str()), Some(point));
        }
        assert_eq!(Failpoint::parse("elsewhere"), None);
    }
}
