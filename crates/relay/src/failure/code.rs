//! Every code of a failure, and the class that decides what follows. An alteration of the
//! publication whose change the catalog shows is only reported ([`Case::AlterationKnown`]),
//! although its code is of class [`Class::Gap`], and although rows may have been left out.
//!
//! [`Case::AlterationKnown`]: super::Case::AlterationKnown

use std::fmt;

/// What follows from a failure. No class skips a row and goes on; an event that becomes a dead
/// letter is held by [`crate::held`] before its failure has a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A fault between the router and PostgreSQL or Kafka: the router keeps trying, with waits that
    /// grow to 5 s, and continues as soon as the cause is gone, though a person may have to remove
    /// the cause. Kafka's word is *retriable*.
    Transport,
    /// End the session and replay from the slot; the third time at the same LSN it becomes
    /// [`Class::Mendable`].
    Replay,
    /// Wait for a person, try again every 30 s, go on when the cause is gone. P033 ends no session,
    /// and the stream continues.
    Mendable,
    /// Rows may be missing for ever: halt until a person accepts it. The exceptions are a slot
    /// that is missing or lost, and a child table, before the first session: no row can be missing
    /// yet, and the source is read again as with [`Class::Mendable`].
    Gap,
    /// Reported only: it ends no session and keeps none from starting.
    Note,
}

impl Class {
    /// As printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Replay => "replay",
            Self::Mendable => "mendable",
            Self::Gap => "gap",
            Self::Note => "note",
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $class:ident;)*) => {
        /// A stable code, used alike in logs, metrics, `/status.json` and the documentation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As printed: P (PostgreSQL), K (Kafka) or R (row), and three digits.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What follows from it.
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }
    };
}

codes! {
    /// PostgreSQL cannot be reached, or the connection broke.
    ServerUnreachable = "P001", Transport;
    /// PostgreSQL refused the role or the password, or the TLS handshake failed.
    AuthenticationFailed = "P002", Mendable;
    /// The role may not replicate.
    RoleLacksReplication = "P003", Mendable;
    /// `wal_level` is not `logical`.
    WalLevel = "P004", Mendable;
    /// No free connection, slot or walsender.
    ServerFull = "P005", Transport;
    /// PostgreSQL is starting, stopping or in recovery.
    ServerNotReady = "P006", Transport;
    /// What arrived is not the replication protocol.
    Protocol = "P007", Replay;
    /// PostgreSQL ended the stream with an error that has no code of its own here.
    ServerError = "P008", Replay;
    /// The walsender no longer answers.
    ServerSilent = "P009", Transport;
    /// The slot does not exist.
    SlotMissing = "P010", Gap;
    /// The slot was invalidated, mostly because WAL that it needed was removed.
    SlotLost = "P011", Gap;
    /// Another process streams from the slot. Not a failure: the router stands by.
    SlotInUse = "P012", Transport;
    /// The slot belongs to another plug-in or database, or is physical.
    SlotUnsuitable = "P013", Mendable;
    /// The slot stands past everything that is acknowledged: it was re-created, or advanced by
    /// somebody else.
    SlotMoved = "P014", Gap;
    /// The server's history is not the one that Kafka's records come from: another cluster, a
    /// restored backup, or a promotion that lost transactions.
    HistoryChanged = "P015", Gap;
    /// The publication does not exist.
    PublicationMissing = "P020", Gap;
    /// An outbox table is not, or no longer, in the publication.
    PublicationLacksTable = "P021", Gap;
    /// The publication does not publish inserts.
    PublicationLacksInsert = "P022", Gap;
    /// The publication filters rows.
    PublicationFiltersRows = "P023", Gap;
    /// The publication's column list leaves out a column that the mapping needs.
    PublicationLacksColumn = "P024", Gap;
    /// A partitioned outbox is published by its leaves.
    PublicationByLeaf = "P025", Gap;
    /// The publication was dropped and re-created while the slot was in use.
    PublicationReplaced = "P026", Gap;
    /// The outbox table was replaced by another of the same name.
    TableReplaced = "P027", Gap;
    /// The outbox table does not exist.
    TableMissing = "P028", Mendable;
    /// The outbox table was renamed. Its rows are still produced; the configuration is out of date.
    TableRenamed = "P029", Note;
    /// A table inherits from an outbox: rows that are inserted there are not published as rows of
    /// the outbox.
    TableInherited = "P030", Gap;
    /// Rows of a partitioned outbox may move between partitions, which publishes them again.
    RowsMove = "P031", Note;
    /// The publication was altered and looks as before: it may have left out inserts in between.
    PublicationAltered = "P032", Gap;
    /// The monitor's own connection reaches another server than the one that streams. It suspends
    /// the monitor's checks, and not the stream.
    MonitorElsewhere = "P033", Mendable;
    /// The server's minor version may continue to decode with a former publication after an
    /// alteration.
    ServerOutdated = "P034", Note;
    /// A table that was an outbox is not configured any more.
    TableUnconfigured = "P035", Note;
    /// The table of held events does not exist, or the router may not use it.
    HeldTable = "P036", Mendable;
    /// The table of held events lacks writes of this pipeline.
    HeldTableBehind = "P037", Gap;
    /// Delivered rows cannot be removed from an outbox table.
    Retention = "P038", Note;
    /// Which rows are missing cannot be told.
    Recovery = "P039", Note;
    /// A backlog that was read by SQL cannot be read on.
    Backlog = "P040", Transport;
    /// A table cannot be polled: what identifies, orders or marks its rows is missing.
    Polling = "P041", Mendable;
    /// The tables in which workers share a polled table are missing, or may not be used.
    LeaseTable = "P042", Mendable;
    /// The table was handed over to the stream, and is polled no more.
    Switched = "P043", Mendable;
    /// A polled table has rows with a status of which nothing is known.
    StatusUnknown = "P060", Mendable;
    /// A program that is no router of this pipeline reads the slot.
    SlotReadElsewhere = "P070", Mendable;
    /// The walsender works for so long at one position that it does not answer.
    WalsenderBusy = "P071", Transport;
    /// A table has code of another role, which would run with the rights of the session's.
    ForeignCode = "P084", Mendable;

    /// No broker can be reached.
    KafkaUnreachable = "K001", Transport;
    /// A broker refused the credentials, or the TLS handshake failed.
    KafkaAuthentication = "K002", Mendable;
    /// The topic does not exist.
    TopicMissing = "K010", Transport;
    /// Writing to the topic is not allowed.
    TopicForbidden = "K011", Transport;
    /// The record is larger than the topic's `max.message.bytes`.
    RecordTooLarge = "K012", Mendable;
    /// The broker refused the record.
    RecordRefused = "K013", Replay;
    /// The producer met an error after which it must not go on.
    ProducerFatal = "K014", Transport;
    /// A record could not be delivered, for a reason that has no code of its own.
    DeliveryFailed = "K015", Replay;
    /// The topic has fewer partitions than before: it was re-created.
    TopicShrunk = "K016", Replay;
    /// The cluster does not allow this principal to produce idempotently.
    ClusterForbidden = "K017", Transport;
    // K018 must not be used again: an earlier version ended the session with it at a topic that
    // takes small batches.
    /// Records were reported as delivered, but nothing shows that they are stored: they are
    /// replayed.
    AckWithoutOffset = "K019", Transport;
    /// The state topic is not a compacted topic of one partition.
    StateTopicUnsuitable = "K020", Transport;
    /// The Kafka cluster is not the one that holds the acknowledged records.
    ClusterChanged = "K021", Gap;
    /// There is no witness of this pipeline in the state topic.
    WitnessMissing = "K022", Note;
    /// The topic's limits for timestamps or retention may have records refused, or deleted before
    /// they are read.
    TopicTimestamps = "K023", Note;
    /// A topic that the pipeline has produced to was deleted, and its records with it.
    TopicLost = "K024", Note;

    /// The key column is NULL.
    KeyIsNull = "R001", Mendable;
    /// The column that selects the topic is NULL.
    TopicIsNull = "R002", Mendable;
    /// The routed topic name is not legal in Kafka.
    TopicIllegal = "R003", Mendable;
    /// The id column is NULL.
    IdIsNull = "R004", Mendable;
    /// The row is larger than `limits.row_bytes`.
    RowTooLarge = "R005", Mendable;
    /// A column that the configuration or the preset names is not in the table.
    ColumnMissing = "R006", Mendable;
    /// No preset fits the table, or more than one does.
    PresetUnclear = "R007", Mendable;
    /// A column's type cannot be used for what it is mapped to.
    ColumnType = "R008", Mendable;
    /// A header cannot be made from the row.
    HeadersMalformed = "R009", Mendable;
    /// A value arrived in a form that an INSERT in text mode never has.
    ValueForm = "R010", Replay;
    /// More topics than one router follows.
    TooManyTopics = "R011", Mendable;
    /// A column's value cannot be a record's timestamp.
    TimestampUnusable = "R012", Mendable;
    /// A column's value is no partition of the topic.
    PartitionUnusable = "R013", Mendable;
    /// What is read as JSON is none, or a value cannot be written as JSON.
    NotJson = "R014", Mendable;
    /// The aggregate type does not match `route_regex`.
    RouteMismatch = "R015", Mendable;
    /// A row of an outbox was updated, which `on_update` refuses.
    RowUpdated = "R016", Mendable;
    /// As many events are held as `[dead_letters]` allows.
    HeldFull = "R017", Mendable;
}

impl Code {
    /// The code with this text, as [`Code::as_str`] prints it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// Whether the publication was dropped or replaced. A slot cannot decode rows that were
    /// committed before its publication was created.
    pub(crate) fn is_of_whole_publication(self) -> bool {
        matches!(self, Self::PublicationMissing | Self::PublicationReplaced)
    }

    /// Whether everything that is committed stays missing until there is a new slot, since the
    /// present one is gone, or can send nothing.
    pub fn lasts_until_new_slot(self) -> bool {
        self.is_of_whole_publication() || matches!(self, Self::SlotMissing | Self::SlotLost)
    }

    /// Whether the defect leaves rows out until it is repaired, whatever the slot's position.
    pub(crate) fn leaves_rows_out(self) -> bool {
        matches!(
            self,
            Self::PublicationLacksTable
                | Self::PublicationLacksInsert
                | Self::PublicationFiltersRows
                | Self::PublicationLacksColumn
                | Self::PublicationByLeaf
                | Self::PublicationAltered
                | Self::TableReplaced
                | Self::TableInherited
        )
    }

    /// Whether the code concerns Kafka.
    pub(crate) fn is_of_kafka(self) -> bool {
        self.as_str().starts_with('K')
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
