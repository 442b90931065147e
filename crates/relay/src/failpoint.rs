//! Places at which a test ends the process, to look at what is left: `kill -9` exactly there, not
//! somewhere near.
//!
//! Without the feature `failpoints` [`reached`] is empty and compiled away, so a release has none
//! of this. With it the process sets one hook, which decides what happens at which place: the
//! simulation unwinds, a test binary kills itself.

/// A place in the life of the process, in the order of one transaction's way through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failpoint {
    /// Slot and publication were looked at and are as they must be.
    SlotChecked,
    /// The replication connection stands, nothing was asked of it.
    Connected,
    /// `START_REPLICATION` was answered.
    ReplicationStarted,
    /// The stream has passed what the witness covers, and its last transaction was recognised.
    CoveredPassed,
    /// A description of a table was taken.
    RelationTaken,
    /// A transaction began.
    BeginTaken,
    /// A row has its ticket and is about to be enqueued.
    BeforeEnqueue,
    /// A row was enqueued.
    AfterEnqueue,
    /// The producer's queue was full.
    QueueFull,
    /// A transaction's commit was taken.
    CommitTaken,
    /// A keepalive was taken.
    KeepaliveTaken,
    /// A NOTICE or WARNING was taken.
    WarningTaken,
    /// Acknowledgements arrived and were not counted yet.
    BeforeAcks,
    /// Acknowledgements were counted.
    AfterAcks,
    /// Every row that was received of the open transaction is acknowledged; its commit is still to
    /// come.
    AckedButOpen,
    /// The position is about to move.
    BeforeAdvance,
    /// The position has moved.
    AfterAdvance,
    /// A write of the witness is decided, but not yet on its way.
    BeforeWitness,
    /// The witness is acknowledged, and the position may be told.
    WitnessAcked,
    /// A status update is decided, but not yet on its way.
    BeforeStatus,
    /// A status update was given to the socket.
    AfterStatus,
    /// A record failed.
    DeliveryFailed,
    /// The server ended the stream.
    StreamEnded,
    /// The process was told to stop.
    DrainBegun,
    /// The last position of a drain is decided.
    DrainConfirmed,
    /// The drain is over, the process is about to leave.
    DrainEnded,
}

impl Failpoint {
    /// Every one there is.
    pub const ALL: [Self; 26] = [
        Self::SlotChecked,
        Self::Connected,
        Self::ReplicationStarted,
        Self::CoveredPassed,
        Self::RelationTaken,
        Self::BeginTaken,
        Self::BeforeEnqueue,
        Self::AfterEnqueue,
        Self::QueueFull,
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

    /// Its name outside of the code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SlotChecked => "slot-checked",
            Self::Connected => "connected",
            Self::ReplicationStarted => "replication-started",
            Self::CoveredPassed => "covered-passed",
            Self::RelationTaken => "relation-taken",
            Self::BeginTaken => "begin-taken",
            Self::BeforeEnqueue => "before-enqueue",
            Self::AfterEnqueue => "after-enqueue",
            Self::QueueFull => "queue-full",
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

    /// The one of this name.
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

/// The process is at this place; nobody is told.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub const fn reached(_point: Failpoint) {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_lead_back_to_their_place() {
        let names: BTreeSet<&str> = Failpoint::ALL.iter().map(|point| point.as_str()).collect();
        assert_eq!(names.len(), Failpoint::ALL.len());
        for point in Failpoint::ALL {
            assert_eq!(Failpoint::parse(point.as_str()), Some(point));
        }
        assert_eq!(Failpoint::parse("elsewhere"), None);
    }
}
