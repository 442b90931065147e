//! The end of a fault that passes.

/// What is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    /// The brokers answer.
    Cluster,
    /// Every partition has a leader.
    Leaders,
    /// Producers no longer fail.
    Producers,
    /// Acknowledgements pass.
    Acks,
    /// Metadata is right.
    Metadata,
    /// Topics take records of any size.
    Limits,
    /// A deleted topic is re-created with so many partitions.
    Topic(usize, i32),
    /// A process that was stopped by SIGSTOP continues.
    ResumeProcess(usize),
    /// The transaction can be decoded.
    Decoding,
    /// The record is no longer refused.
    Record,
    /// The topic of dead letters takes records.
    Letters,
    /// The outbox has its own name again.
    TableName,
    /// Somebody creates a new slot.
    Slot,
    /// Somebody re-creates the publication.
    Publication,
    /// The publication publishes inserts.
    Inserts,
    /// The table is put back into the publication.
    Table,
    /// A router is started.
    StartProcess(usize),
    /// The server can be reached.
    Network,
    /// The standby that the server names streams again.
    Standby,
    /// The state topic is there, and has a leader.
    State,
}
