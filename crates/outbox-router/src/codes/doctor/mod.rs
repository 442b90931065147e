//! What `doctor` reports where nothing refuses: advice about a server, a table, a topic or the
//! configuration with which the router works now, and that will cost somebody a night.
//!
//! What `run` itself refuses or warns of has a code of its own, and `doctor` uses that code.

mod configuration;
mod kafka;
mod polled;
mod postgres;

pub(super) use configuration::EXPLANATIONS as CONFIGURATION;
pub(super) use kafka::EXPLANATIONS as KAFKA;
pub(super) use polled::EXPLANATIONS as POLLED;
pub(super) use postgres::EXPLANATIONS as POSTGRES;

use std::fmt;

macro_rules! advice {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        /// A stable code of `doctor` alone. As all codes, it never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Advice { $($(#[$doc])* $name,)* }

        impl Advice {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As printed: D and three digits.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }
        }
    };
}

advice! {
    /// A connection pooler stands between the router and PostgreSQL.
    Pooler = "D001";
    /// The role may not read a view of the system.
    ViewDenied = "D002";
    /// The router's role is a superuser.
    Superuser = "D003";
    /// The router's role owns an outbox table.
    RoleOwnsTable = "D004";
    /// The server's major version gets no more fixes.
    VersionUnsupported = "D005";
    /// The server's minor version has a fault that a router meets.
    VersionFaulty = "D006";
    /// The clocks of this machine and of the server differ.
    ClocksDiffer = "D007";

    /// No limit is set for the WAL that slots keep.
    WalUnlimited = "D010";
    /// The router's alarm comes after the slot is lost.
    AlarmTooLate = "D011";
    /// The server invalidates slots that nobody reads.
    IdleTimeout = "D012";
    /// The next checkpoint may remove WAL that the slot needs.
    SlotUnreserved = "D013";
    /// A promotion loses the slot.
    SlotWithoutFailover = "D014";
    /// The walsender waits for a standby's slot that nobody advances.
    StandbySlotMissing = "D015";
    /// Another slot that nobody reads keeps WAL.
    OtherSlotInactive = "D016";
    /// A transaction has been open for long.
    LongTransaction = "D017";
    /// Another program reads the slot.
    SlotReadByOther = "D018";

    /// The publication has more tables than the outboxes.
    PublicationTooWide = "D020";
    /// The publication publishes more than inserts.
    PublicationMoreThanInserts = "D021";
    /// No index begins with the column of the id.
    IdWithoutIndex = "D022";
    /// No index begins with the column of the time.
    TimeWithoutIndex = "D023";
    /// The table grows, and nothing removes rows.
    TableGrows = "D024";
    /// A rule rewrites inserts into the table.
    RuleOnInsert = "D025";
    /// A column that must not be NULL may be.
    ColumnNullable = "D026";
    /// A partitioned table has no partition.
    NoPartition = "D027";
    /// Rows of the table are updated.
    RowsUpdated = "D028";
    /// Nothing keeps the ids of a table unique.
    IdNotUnique = "D120";
    /// A subscription writes rows of another server into an outbox table.
    RowsOfSubscription = "D121";
    /// Rows were left out of what was sent, and wait for a person.
    RowsLeftOut = "D122";
    /// A default partition has rows, or had some.
    DefaultPartition = "D123";

    /// No topic of a template exists, and the router makes none.
    NoTopicYet = "D030";
    /// A topic has one replica on a cluster of several brokers.
    OneReplica = "D031";
    /// `min.insync.replicas` does not suit the number of replicas.
    InSyncReplicas = "D032";
    /// A topic of events is compacted.
    EventsCompacted = "D033";
    /// A topic takes smaller records than a row may give.
    RecordLimit = "D034";
    /// A partition has no leader.
    NoLeader = "D035";
    /// The broker does not tell a topic's settings.
    SettingsUnknown = "D036";
    /// The router may not create topics, although it is to.
    CreateForbidden = "D037";
    /// The configured replication factor exceeds the cluster.
    TooFewBrokers = "D038";

    /// A secret can be read by others.
    SecretExposed = "D040";
    /// The admin endpoint can be reached from outside.
    AdminExposed = "D041";
    /// No state topic is configured.
    NoStateTopic = "D042";
    /// The server's certificate is not verified.
    ServerUnverified = "D043";
    /// Kafka's credentials travel in clear text.
    KafkaCleartext = "D044";
    /// The running router does not deliver.
    RouterStuck = "D045";

    /// No valid index finds the pending rows of a polled table.
    PendingIndexMissing = "D050";
    /// No trigger announces the new rows of a polled table.
    NotifyMissing = "D051";
    /// A trigger announces rows, and the router does not listen.
    NotifyUnused = "D052";
    /// A pooler keeps announcements from the router.
    NotifyPooled = "D053";
    /// Workers of several configurations poll one table.
    SeveralPipelines = "D054";
    /// Rows of a polled table are abandoned.
    RowsAbandoned = "D055";
    /// A polled table has more dead rows than living ones.
    DeadRows = "D056";
    /// A row of a polled table is pending for long.
    RowsPendingLong = "D057";
    /// Marks of a polled table are times without a time zone, and its writers are not in UTC.
    MarksWithoutZone = "D058";
    /// Nothing in the order of a polled table says in which order rows were written.
    OrderOfWriting = "D059";
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
