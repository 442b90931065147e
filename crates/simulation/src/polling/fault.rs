//! What can go wrong. A seed decides which faults happen, and when.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PollingFault {
    /// A worker is killed, at once or as soon as some of its records are stored and others are not,
    /// and started again after a while.
    Kill,
    /// A worker is stopped by SIGSTOP, for up to more than two leases, and goes on.
    Freeze,
    /// The same, between two records of one pass.
    FreezeAmidPass,
    /// A worker is asked to stop, and is started again after a while.
    Stop,
    /// One worker more, if there is room.
    Join,
    /// A worker is asked to stop, if another one is left.
    Leave,
    /// The next lease request is refused, and does nothing.
    LeaseRefused,
    /// The next lease request is carried out, but its answer is lost.
    LeaseAnswerLost,
    /// A worker's lease requests reach no server, for up to more than a lease.
    LeaseCutOff,
    /// A worker reaches no server, neither for its leases nor for its rows, from now or from its
    /// next marks on, for up to five leases: so long that another worker may have had its shards
    /// and have lost them.
    ServerCutOff,
    /// The next statement on rows is rolled back.
    StatementFails,
    /// The next statement on rows is committed, but its answer is lost.
    StatementAnswerLost,
    /// PostgreSQL crashes, and is back after a while.
    DatabaseCrash,
    /// Kafka cannot be reached for a while.
    BrokerOutage,
    /// A producer fails altogether, with what is in flight.
    ProducerFails,
    /// A topic does not exist for a while.
    TopicMissing,
    /// The readings of a worker take longer than half a lease, for up to six leases.
    SlowReading,
    /// Brokers store records, and acknowledge nothing for up to ten leases.
    AcksWithheld,
    /// PostgreSQL's clock jumps, forwards or backwards, by less than a tenth of a lease: so much is
    /// left of a lease when the producer of a worker that was stopped gives its last record up.
    ClockJumps,
}

impl PollingFault {
    /// Those that may happen in every run.
    pub const COMMON: [Self; 16] = [
        Self::Kill,
        Self::Freeze,
        Self::FreezeAmidPass,
        Self::Stop,
        Self::Join,
        Self::Leave,
        Self::LeaseRefused,
        Self::LeaseAnswerLost,
        Self::LeaseCutOff,
        Self::ServerCutOff,
        Self::StatementFails,
        Self::StatementAnswerLost,
        Self::DatabaseCrash,
        Self::BrokerOutage,
        Self::ProducerFails,
        Self::TopicMissing,
    ];

    /// Those that happen in few runs, since they take most of the time of a run.
    pub const LONG: [Self; 2] = [Self::SlowReading, Self::AcksWithheld];

    /// Every fault there is.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::COMMON.into_iter().chain(Self::LONG).chain([Self::ClockJumps])
    }

    /// As printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Freeze => "freeze",
            Self::FreezeAmidPass => "freeze amid a pass",
            Self::Stop => "stop",
            Self::Join => "join",
            Self::Leave => "leave",
            Self::LeaseRefused => "lease refused",
            Self::LeaseAnswerLost => "lease answer lost",
            Self::LeaseCutOff => "lease cut off",
            Self::ServerCutOff => "server cut off",
            Self::StatementFails => "statement fails",
            Self::StatementAnswerLost => "statement answer lost",
            Self::DatabaseCrash => "database crash",
            Self::BrokerOutage => "broker outage",
            Self::ProducerFails => "producer fails",
            Self::TopicMissing => "topic missing",
            Self::SlowReading => "slow reading",
            Self::AcksWithheld => "acks withheld",
            Self::ClockJumps => "clock jumps",
        }
    }
}
