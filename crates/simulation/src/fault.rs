//! The faults, by name. A plan says which of them happen and when; `world/faults/` injects them.

use relay::Code;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// A fault: of a process, the network, the server or the cluster, or made by a person.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// Every one there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As printed.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

faults! {
    /// `kill -9` of a router between two inputs.
    KillRouter = "kill-router";
    /// `kill -9` of a router at a failpoint.
    KillAtFailpoint = "kill-at-failpoint";
    /// A router is stopped (SIGSTOP) for longer than `wal_sender_timeout`, and continues later.
    FreezeRouter = "freeze-router";
    /// SIGTERM, and a new process.
    Shutdown = "shutdown";
    /// `kill -9` of every router, and none is started for a while.
    AllDown = "all-down";
    /// The replication connection breaks.
    CutConnection = "cut-connection";
    /// The network drops everything on the replication connection, in both directions.
    BlackHole = "black-hole";
    /// No router reaches PostgreSQL for a while.
    CutOff = "cut-off";
    /// PostgreSQL crashes: what was confirmed since the slot was last saved is forgotten.
    CrashServer = "crash-server";
    /// `pg_ctl stop -m fast`: the walsender waits for us.
    FastStop = "fast-stop";
    /// The stream ends with an error at one transaction, again and again, for a while.
    ServerError = "server-error";
    /// A standby takes over that has everything, with its copy of the slot.
    PromoteStandby = "promote-standby";
    /// The standby that `synchronized_standby_slots` names is away for a while.
    StandbyAway = "standby-away";
    /// That standby takes over, with its copy of the slot: it has what was sent, and may lack what
    /// was committed since.
    PromoteNamed = "promote-named";
    /// A transaction larger than the window.
    LongTransaction = "long-transaction";
    /// The outbox gets other columns, within a transaction.
    AlterTable = "alter-table";
    /// The outbox gets another name, and its own back: later, or within the transaction. Or a
    /// transaction is sent as rows of a partition.
    RenameTable = "rename-table";

    /// No broker answers.
    ClusterDown = "cluster-down";
    /// A partition has no leader.
    LeaderDown = "leader-down";
    /// Acknowledgements come late.
    LoseAcks = "lose-acks";
    /// A batch is stored twice (the producer's epoch was bumped).
    DuplicateBatch = "duplicate-batch";
    /// A batch fails, and its records with it.
    RejectBatch = "reject-batch";
    /// One record is refused for a while.
    RejectRecord = "reject-record";
    /// The producer fails with a fatal error, or every producer does for a while.
    FatalProducer = "fatal-producer";
    /// A topic that is there is reported missing.
    MetadataFlap = "metadata-flap";
    /// A topic is deleted, and re-created later.
    DeleteTopic = "delete-topic";
    /// A topic gets more partitions.
    GrowTopic = "grow-topic";
    /// A topic takes no record of any size, for a while.
    LowerLimit = "lower-limit";
    /// A topic gets more partitions while every router is down, with events in flight.
    GrowWhileDown = "grow-while-down";
    /// Nobody can read or write the state topic.
    StateAway = "state-away";
    /// The state topic is deleted, and re-created later.
    DeleteState = "delete-state";

    /// The topic of dead letters takes no record for a while.
    RefuseLetters = "refuse-letters";

    /// The slot is dropped, and re-created later.
    DropSlot = "drop-slot";
    /// The slot is dropped and re-created at once.
    RecreateSlot = "recreate-slot";
    /// The slot is invalidated: WAL it needed is gone.
    LoseSlot = "lose-slot";
    /// Somebody advances the slot.
    AdvanceSlot = "advance-slot";
    /// The publication is dropped, rows are written, and it is re-created.
    DropPublication = "drop-publication";
    /// The publication publishes no inserts for a while.
    WithholdInserts = "withhold-inserts";
    /// The table is taken out of the publication, rows are written, and it is put back.
    TableOut = "table-out";
    /// A standby takes over that lacks the last transactions.
    PromoteLagging = "promote-lagging";
    /// A standby takes over that has no copy of the slot.
    PromoteWithoutSlot = "promote-without-slot";
    /// A backup is restored up to some moment: another timeline, and no slot.
    RestoreBackup = "restore-backup";
    /// The storage goes back to a snapshot: the same timeline and positions, other events.
    RestoreSnapshot = "restore-snapshot";
    /// The server's address leads to another database cluster.
    ExchangeServer = "exchange-server";
    /// The brokers' addresses lead to another Kafka cluster.
    ExchangeKafka = "exchange-kafka";
    /// A broker that lacks the latest records of the state topic is elected leader.
    LoseWrites = "lose-writes";
    /// A column that the mapping needs is renamed.
    RenameKeyColumn = "rename-key-column";
    /// A row cannot become a record: its key is NULL.
    PoisonRow = "poison-row";
    /// A row is larger than the router reads.
    OversizedRow = "oversized-row";
    /// A row has no legal topic.
    UnroutableRow = "unroutable-row";
    /// Somebody deletes a row of the table of held events.
    RemoveHeldRow = "remove-held-row";
    /// Somebody restores the table of held events to an older state.
    RestoreHeldTable = "restore-held-table";
}

impl Fault {
    /// The errors that it may cause, beside a server that cannot be reached.
    pub const fn causes(self) -> &'static [Code] {
        match self {
            Self::KillRouter
            | Self::Shutdown
            | Self::AllDown
            | Self::CutConnection
            | Self::PromoteStandby
            | Self::StandbyAway
            | Self::PromoteNamed
            | Self::LongTransaction
            | Self::AlterTable
            | Self::LeaderDown
            | Self::LoseAcks
            | Self::DuplicateBatch
            | Self::GrowTopic
            | Self::GrowWhileDown => &[],
            Self::KillAtFailpoint => &[Code::ServerNotReady, Code::DeliveryFailed],
            Self::FreezeRouter | Self::BlackHole | Self::CutOff => {
                &[Code::ServerSilent, Code::WalsenderBusy]
            }
            Self::CrashServer | Self::FastStop => &[Code::ServerNotReady],
            Self::ServerError => &[Code::ServerError],
            Self::RecreateSlot | Self::AdvanceSlot => &[Code::SlotMoved],
            Self::ClusterDown | Self::StateAway => &[Code::KafkaUnreachable],
            Self::DeleteState => &[Code::TopicMissing, Code::SlotMoved, Code::KafkaUnreachable],
            Self::RejectBatch => &[Code::DeliveryFailed],
            Self::RejectRecord => &[Code::RecordRefused],
            Self::FatalProducer => &[Code::ProducerFatal],
            Self::MetadataFlap => &[Code::TopicMissing],
            Self::DeleteTopic => &[Code::TopicMissing, Code::TopicShrunk],
            Self::LowerLimit => &[Code::ProducerFatal, Code::RecordTooLarge],
            Self::RenameTable => &[Code::TableMissing],
            Self::DropSlot => &[Code::SlotMissing, Code::SlotMoved],
            Self::LoseSlot => &[Code::SlotLost],
            Self::DropPublication => &[Code::PublicationMissing, Code::PublicationReplaced],
            Self::WithholdInserts => &[Code::PublicationLacksInsert, Code::PublicationAltered],
            Self::TableOut => &[Code::PublicationLacksTable],
            Self::PromoteLagging => &[Code::HistoryChanged, Code::HeldTableBehind],
            // A router that still reads WAL which the restored server no longer has may have seen
            // more of it than the present holder of the slot. Then the record of the former counts,
            // and the slot is past it.
            Self::RestoreSnapshot => {
                &[Code::HistoryChanged, Code::SlotMoved, Code::HeldTableBehind]
            }
            // The monitor has its own connection: it may see the other server first.
            Self::ExchangeServer => {
                &[Code::HistoryChanged, Code::PublicationReplaced, Code::HeldTableBehind]
            }
            Self::PromoteWithoutSlot => &[Code::SlotMissing, Code::SlotMoved],
            Self::RestoreBackup => {
                &[Code::HistoryChanged, Code::SlotMissing, Code::SlotMoved, Code::HeldTableBehind]
            }
            Self::ExchangeKafka => &[Code::ClusterChanged, Code::ProducerFatal],
            Self::LoseWrites => &[Code::SlotMoved, Code::ProducerFatal, Code::KafkaUnreachable],
            Self::RenameKeyColumn => &[Code::ColumnMissing],
            Self::PoisonRow => &[Code::KeyIsNull],
            Self::OversizedRow => &[Code::RowTooLarge],
            Self::UnroutableRow => &[Code::TopicIllegal],
            Self::RefuseLetters => &[Code::RecordRefused, Code::RecordTooLarge],
            Self::RemoveHeldRow | Self::RestoreHeldTable => &[Code::HeldTableBehind],
        }
    }

    /// Whether only a router with a witness can notice it.
    pub const fn needs_a_witness(self) -> bool {
        matches!(
            self,
            Self::RecreateSlot
                | Self::AdvanceSlot
                | Self::PromoteLagging
                | Self::PromoteWithoutSlot
                | Self::RestoreBackup
                | Self::RestoreSnapshot
                | Self::ExchangeServer
                | Self::ExchangeKafka
                | Self::LoseWrites
                | Self::RemoveHeldRow
                | Self::RestoreHeldTable
        )
    }

    /// Whether it happens to the table of held events.
    pub const fn needs_a_held_table(self) -> bool {
        matches!(self, Self::RemoveHeldRow | Self::RestoreHeldTable)
    }

    /// Whether it ends only by a person's action: the router has to stop and to report why.
    pub const fn is_for_a_person(self) -> bool {
        matches!(
            self,
            Self::DropSlot
                | Self::RecreateSlot
                | Self::LoseSlot
                | Self::AdvanceSlot
                | Self::DropPublication
                | Self::WithholdInserts
                | Self::TableOut
                | Self::PromoteLagging
                | Self::PromoteWithoutSlot
                | Self::RestoreBackup
                | Self::RestoreSnapshot
                | Self::ExchangeServer
                | Self::ExchangeKafka
                | Self::LoseWrites
                | Self::RenameKeyColumn
                | Self::PoisonRow
                | Self::OversizedRow
                | Self::UnroutableRow
                | Self::RemoveHeldRow
                | Self::RestoreHeldTable
        )
    }
}
