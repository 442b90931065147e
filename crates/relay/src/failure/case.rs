//! The cases of a code that have remedies of their own. A failure without a case has the code's
//! usual remedy. The texts stand in stored witnesses, so they never change; some have words that
//! the names no longer have.

use super::Code;

macro_rules! cases {
    ($($(#[$doc:meta])* $name:ident = $text:literal of $code:ident,)*) => {
        /// What more is known of a failure than its code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Case { $($(#[$doc])* $name,)* }

        impl Case {
            /// Every case there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As it stands in the pipeline's witness.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The code that it belongs to.
            pub const fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }
        }
    };
}

cases! {
    /// A second connection reaches another server than the stream comes from.
    OtherServer = "other_server" of ServerUnreachable,

    /// The server has no TLS, and `sslmode` demands it.
    TlsRefused = "tls_refused" of AuthenticationFailed,
    /// The TLS handshake failed.
    TlsHandshake = "tls_handshake" of AuthenticationFailed,
    /// The answer to the SSLRequest is not PostgreSQL's.
    TlsAnswer = "tls_answer" of AuthenticationFailed,
    /// The files of certificates and keys cannot be used.
    TlsFiles = "tls_files" of AuthenticationFailed,
    /// Somebody between server and router may have removed TLS.
    TlsStripped = "tls_stripped" of AuthenticationFailed,
    /// The server asks for the password in clear text on an unsuitable connection.
    PlaintextPassword = "plaintext_password" of AuthenticationFailed,
    /// The server asks for a method that `require_auth` rules out.
    MethodRuledOut = "method_ruled_out" of AuthenticationFailed,
    /// The server asks for a method that is not supported.
    MethodUnsupported = "method_unsupported" of AuthenticationFailed,
    /// The server asks for too many SCRAM iterations, or for none.
    ScramIterations = "scram_iterations" of AuthenticationFailed,
    /// No password is configured.
    PasswordMissing = "password_missing" of AuthenticationFailed,
    /// The server did not prove that it knows the password.
    ServerProof = "server_proof" of AuthenticationFailed,
    /// The database does not exist.
    DatabaseMissing = "database_missing" of AuthenticationFailed,
    /// The connection string cannot be read.
    UrlUnreadable = "url_unreadable" of AuthenticationFailed,
    /// A privilege other than REPLICATION is missing.
    PermissionDenied = "permission_denied" of AuthenticationFailed,
    /// Row-level security may hide rows from the role.
    RowsHidden = "rows_hidden" of AuthenticationFailed,
    /// The role may not use a view or a function of the system catalog.
    CatalogDenied = "catalog_denied" of AuthenticationFailed,
    /// The role of a command lacks a privilege.
    CommandDenied = "command_denied" of AuthenticationFailed,
    /// The role of a command lacks privileges that statements grant.
    CommandLacks = "command_lacks" of AuthenticationFailed,
    /// A command would run code of another role.
    CommandRunsForeign = "command_runs_foreign" of ForeignCode,
    /// The schema of the router's own tables, or one of them, belongs to a role that is not
    /// trusted.
    RouterSchemaForeign = "router_schema_foreign" of ForeignCode,
    /// What answers does not know the replication protocol.
    Pooler = "pooler" of AuthenticationFailed,
    /// The role of a command may not replicate.
    CommandMayNotReplicate = "command_may_not_replicate" of RoleLacksReplication,
    /// What answers does not speak PostgreSQL's protocol.
    NotPostgres = "not_postgres" of Protocol,

    /// No slot is free for another one.
    NoFreeSlot = "no_free_slot" of ServerFull,
    /// The server is a standby.
    Standby = "standby" of ServerNotReady,
    /// The server's version is not supported.
    VersionTooOld = "version_too_old" of ServerError,
    /// Another session holds a lock for too long.
    LockTimeout = "lock_timeout" of ServerError,
    /// Another session has a lock on a polled table, or on rows of it.
    PolledLocked = "polled_locked" of ServerError,
    /// Creating the slot waits for transactions that do not end.
    SlotWaits = "slot_waits" of ServerError,
    /// Commits wait for a synchronous standby.
    StandbyAway = "standby_away" of ServerError,
    /// The server cannot send a row of a transaction.
    RowUnsendable = "row_unsendable" of ServerError,
    /// The server cannot print a row that a command reads from its table.
    RowUnprintable = "row_unprintable" of ServerError,
    /// The server has a hint of its own.
    ServerHint = "server_hint" of ServerError,
    /// The router's own process did not run for a while.
    ProcessStalled = "process_stalled" of ServerSilent,

    /// A command needs the slot for itself.
    SlotNeeded = "slot_needed" of SlotInUse,
    /// A command needs the slot, and another command of the pipeline has it.
    SlotHeldByCommand = "slot_held_by_command" of SlotInUse,
    /// The pipeline has no witness: the slot was not made yet.
    SlotNotMade = "slot_not_made" of SlotMissing,
    /// It was there: rows that it had not sent may be missing.
    SlotDropped = "slot_dropped" of SlotMissing,
    /// It was there: rows that were written without it may be missing.
    PublicationDropped = "publication_dropped" of PublicationMissing,
    /// The slot was dropped, and an unsuitable one was created under its name.
    SlotMadeUnsuitable = "slot_made_unfit" of SlotMoved,
    /// The slot stands past transactions of this server that were never sent.
    SlotPastUnsent = "slot_past_unsent" of SlotMoved,
    /// What is open has changed while a person answered.
    OpenChanged = "open_changed" of SlotMoved,
    /// A command is connected to another database than the router.
    OtherDatabase = "other_database" of SlotUnsuitable,
    /// A command is connected to another server than the router.
    CommandElsewhere = "command_elsewhere" of SlotUnsuitable,
    /// A slot of this name exists, and does not fit.
    SlotUnsuitable = "slot_unfit" of SlotUnsuitable,
    /// The pipeline had another slot, which is there, and which no router reads.
    SlotRenamed = "slot_renamed" of SlotUnsuitable,
    /// The pipeline had another slot, which is gone or lost, and its witness is still there.
    FormerSlotGone = "former_slot_gone" of SlotUnsuitable,
    /// The slot has two_phase.
    SlotTwoPhase = "slot_two_phase" of SlotUnsuitable,
    /// The slot does not divide the rows of the tables for a back-fill.
    BackfillTooLate = "backfill_too_late" of SlotUnsuitable,
    /// A back-fill of other rows is not complete.
    BackfillOfOtherRows = "backfill_of_other_rows" of SlotUnsuitable,
    /// The slot of an interrupted back-fill has rows to send, and would be dropped.
    BackfillSlot = "backfill_slot" of SlotUnsuitable,
    /// A back-fill is not complete.
    BackfillUnfinished = "backfill_unfinished" of SlotUnsuitable,
    /// A back-fill is not complete, and the slot does not divide its rows any more.
    BackfillOvertaken = "backfill_overtaken" of SlotUnsuitable,
    /// Publication or tables were altered while a back-fill divided rows.
    BackfillAltered = "backfill_altered" of SlotUnsuitable,
    /// A switch finds events or rows that could not be delivered, and others that wait for them.
    SwitchHeld = "switch_held" of Switched,
    /// A switch finds pending rows that are not to be sent yet.
    SwitchLater = "switch_later" of Switched,
    /// Tables are being handed to the stream, and nobody polls them meanwhile.
    Switching = "switching" of Switched,
    /// Tables are being given back to the workers.
    SwitchingBack = "switching_back" of Switched,
    /// The slot has rows of a table that a switch is not told of.
    SwitchLeavesTable = "switch_leaves_table" of Switched,
    /// Rows were left out of what was sent, and a switch cannot tell which.
    SwitchLeftOut = "switch_left_out" of Switched,
    /// A switch back finds pending rows that are in no stream.
    SwitchOlder = "switch_older" of Switched,
    /// Publication or tables were altered while a switch divided rows.
    SwitchAltered = "switch_altered" of Switched,
    /// The slot that a switch is to drop has the only copy of rows that are not delivered.
    SwitchUnsent = "switch_unsent" of Switched,
    /// A switch finds a slot, or a witness, that it has not made.
    SwitchOfOther = "switch_of_other" of Switched,
    /// Tables are to be streamed that workers poll, or have polled last.
    StillPolled = "still_polled" of Switched,
    /// Workers of another pipeline poll the table.
    PolledByOther = "polled_by_other" of Switched,
    /// Tables are to be polled that a slot streams.
    StillStreamed = "still_streamed" of Switched,
    /// A switch back names a table that no router has streamed.
    SwitchUnstreamed = "switch_unstreamed" of Switched,
    /// Tables of one slot are not equally far.
    SwitchApart = "switch_apart" of Switched,
    /// A switch has begun with another table, too, which the configuration does not name.
    SwitchBeside = "switch_beside" of Switched,
    /// A switch back finds no slot that says what was delivered.
    SwitchWithoutSlot = "switch_without_slot" of Switched,
    /// Reading pending rows takes longer than what was read counts.
    ReadingSlow = "reading_slow" of Polling,
    /// Rows are pending in a table that was polled, and that the configuration names no more.
    FormerPending = "former_pending" of Polling,
    /// An index that a polled table needs has the name of another one.
    IndexNameTaken = "index_name_taken" of Polling,
    /// Rows of a polled table that were marked as published are pending still.
    MarksUndone = "marks_undone" of Polling,
    /// A polled table refuses what is to be written into its rows.
    MarksRefused = "marks_refused" of Polling,
    /// A polled table refuses that its rows are claimed.
    ClaimsRefused = "claims_refused" of Polling,
    /// Rows of a polled table that were claimed are as they were.
    ClaimsUndone = "claims_undone" of Polling,
    /// A polled table was altered since it was described.
    TableAltered = "table_altered" of Polling,
    /// Another database cluster.
    OtherCluster = "other_cluster" of HistoryChanged,
    /// A router of the pipeline streams, and not from the server that a command has reached.
    StreamsElsewhere = "streams_elsewhere" of HistoryChanged,
    /// The slot does not send again what a switch would take for delivered.
    SwitchRestored = "switch_restored" of HistoryChanged,

    /// The server warns that it skips rows, because the publication did not exist when they were
    /// written (PostgreSQL 18).
    RowsSkipped = "rows_skipped" of PublicationMissing,
    /// The slot exists already, so a publication that is created now would not apply to what the
    /// slot has.
    SlotBeforePublication = "slot_before_publication" of PublicationMissing,
    /// The publication has no table.
    NoTables = "no_tables" of PublicationLacksTable,
    /// The publication says which tables are outboxes, and the table left it.
    TableLeft = "table_left" of PublicationLacksTable,
    /// The publication is FOR ALL TABLES.
    AllTables = "all_tables" of PublicationLacksTable,
    /// The table is a partition now, and published under another table's name.
    PartitionNow = "partition_now" of PublicationLacksTable,
    /// The table was taken out of the publication and put back.
    PutBack = "put_back" of PublicationLacksTable,
    /// A partition is unlogged.
    PartitionUnlogged = "partition_unlogged" of PublicationLacksTable,
    /// A partition is a foreign table.
    PartitionForeign = "partition_foreign" of PublicationLacksTable,
    /// A partition was detached and attached again.
    AttachedAgain = "attached_again" of PublicationLacksTable,
    /// The table or a partition was unlogged for a while.
    UnloggedMeanwhile = "unlogged_meanwhile" of PublicationLacksTable,
    /// The table was rewritten while its columns changed. Reported only.
    Rewritten = "rewritten" of PublicationLacksTable,
    /// Rows before had it.
    ColumnGone = "column_gone" of ColumnMissing,
    /// The column is generated.
    ColumnGenerated = "column_generated" of PublicationLacksColumn,
    /// The publication was altered, and the catalog shows how. Reported only.
    AlterationKnown = "alteration_known" of PublicationAltered,
    /// The table that replaced another is published.
    ReplacementPublished = "replacement_published" of TableReplaced,
    /// What has the table's name cannot be published.
    NoTable = "no_table" of TableMissing,
    /// Set-up was not told to create the table.
    TableExpected = "table_expected" of TableMissing,
    /// It is to be polled.
    PolledMissing = "polled_missing" of TableMissing,
    /// The table was renamed and renamed back. Reported only.
    RenamedBack = "renamed_back" of TableRenamed,
    /// The child is published, and not configured.
    ChildUnconfigured = "child_unconfigured" of TableInherited,
    /// The child is neither published nor configured.
    ChildUnknown = "child_unknown" of TableInherited,

    /// `where` leaves an event out that is held: it took the row when that was written.
    FilteredSince = "filtered_since" of TableUnconfigured,
    /// A word of `where` is no value of its column.
    FilterWord = "filter_word" of ColumnType,
    /// A value of the enum that `where` reads is no label that it had when the session began.
    FilterLabel = "filter_label" of ColumnType,
    /// Of a row that is larger than `limits.row_bytes`, the key did not arrive.
    RowTooLargeForKey = "row_too_large_for_key" of RowTooLarge,

    /// The router's role may not use the table of held events.
    HeldTableForbidden = "held_table_forbidden" of HeldTable,
    /// The table of held events has rows of another database cluster.
    HeldTableElsewhere = "held_table_elsewhere" of HeldTable,
    /// The table of held events has other columns or rows than this version writes.
    HeldTableUnsuitable = "held_table_unsuitable" of HeldTable,

    /// The role that removes rows may not.
    RetentionForbidden = "retention_forbidden" of Retention,
    /// The table has no index that begins with the time column.
    RetentionWithoutIndex = "retention_without_index" of Retention,
    /// The table has no column by which its rows have an age.
    RetentionTimeColumn = "retention_time_column" of Retention,
    /// The table that rows are moved into cannot take them.
    RetentionArchive = "retention_archive" of Retention,
    /// The table's partitions cannot be made or dropped.
    RetentionPartitions = "retention_partitions" of Retention,
    /// A partition was detached to be dropped, and stays.
    RetentionDetached = "retention_detached" of Retention,
    /// Events that wait for a person are gone from the table of held events.
    RetentionHeldGone = "retention_held_gone" of Retention,
    /// The table of the rows that were left out of what was sent is gone.
    LeftOutGone = "left_out_gone" of Retention,
    /// A foreign key references a row that is to be removed.
    RetentionReferenced = "retention_referenced" of Retention,
    /// A foreign key deletes rows of an outbox with those that are to be removed.
    RetentionCascades = "retention_cascades" of Retention,
    /// Another session removes rows of this pipeline.
    RetentionBusy = "retention_busy" of Retention,
    /// Another session locks the table or its rows.
    RetentionLocked = "retention_locked" of Retention,
    /// An open event without an id may be any row of the table.
    RetentionHeldUnknown = "retention_held_unknown" of Retention,
    /// Workers of another configuration poll the table.
    RetentionPolled = "retention_polled" of Retention,
    /// Something is open, so what is confirmed need not be delivered.
    RetentionOpen = "retention_open" of Retention,
    /// The slot does not reach the position that has to be confirmed.
    RetentionUnconfirmed = "retention_unconfirmed" of Retention,

    /// It is not known from when on rows are missing.
    RecoverSince = "recover_since" of Recovery,
    /// The table has no column with the time at which a row was made.
    RecoverTime = "recover_time" of Recovery,
    /// The table has no index that begins with that column.
    RecoverIndex = "recover_index" of Recovery,
    /// The ids of rows cannot be compared with those of records.
    RecoverId = "recover_id" of Recovery,
    /// Ids of rows may be those of other records, too.
    RecoverIdAmbiguous = "recover_id_ambiguous" of Recovery,
    /// The slot still has events to send.
    RecoverSlot = "recover_slot" of Recovery,
    /// Records that have to be compared may be deleted, or cannot be read.
    RecoverExpired = "recover_expired" of Recovery,
    /// A column of `recover.order_by` does not exist.
    RecoverOrder = "recover_order" of Recovery,
    /// The publication does not exist.
    RecoverPublication = "recover_publication" of Recovery,
    /// Publication, tables or slot were altered while rows were sent.
    RecoverAltered = "recover_altered" of Recovery,
    /// A table was an outbox when the gap began, and its rows would not be compared.
    RecoverUncompared = "recover_uncompared" of Recovery,
    /// A partition was detached since the gap began, and its rows would not be compared.
    RecoverDetached = "recover_detached" of Recovery,
    /// Rows in no topic are left out by `where` as they are now.
    RecoverFiltered = "recover_filtered" of Recovery,
    /// Not every missing row was sent, filtered or left out.
    RecoverUnsettled = "recover_unsettled" of Recovery,

    /// As many keys are held as may be.
    HeldKeysFull = "held_keys_full" of HeldFull,
    /// As many events are held as may be.
    HeldEventsFull = "held_events_full" of HeldFull,
    /// As many bytes are held as may be.
    HeldBytesFull = "held_bytes_full" of HeldFull,

    /// The record that shows a dead letter is larger than its topic takes.
    LetterTooLarge = "letter_too_large" of RecordTooLarge,
    /// The broker refuses the record that shows a dead letter.
    LetterRefused = "letter_refused" of RecordRefused,

    /// Records, or a look-up, wait for the brokers' answer.
    BrokersSilent = "brokers_silent" of KafkaUnreachable,
    /// Records wait for their acknowledgement.
    ReplicasSilent = "replicas_silent" of KafkaUnreachable,
    /// A write to the state topic waits for its acknowledgement.
    StateTopicSilent = "state_topic_silent" of KafkaUnreachable,
    /// The producer is being replaced, so there is no client to ask through.
    ProducerReplaced = "producer_replaced" of KafkaUnreachable,
    /// The state topic's partition cannot be read.
    StateTopicUnread = "state_topic_unread" of KafkaUnreachable,
    /// The state topic does not exist and cannot be created.
    StateTopicMissing = "state_topic_missing" of TopicMissing,
    /// The state topic may not be read and written.
    StateTopicForbidden = "state_topic_forbidden" of TopicForbidden,
    /// The witness is larger than the state topic takes.
    StateRecordTooLarge = "state_record_too_large" of RecordTooLarge,
    /// The record is older than the topic's limit.
    RecordTooOld = "record_too_old" of RecordRefused,
    /// The producer cannot start.
    ProducerSettings = "producer_settings" of ProducerFatal,
    /// A setting of the state topic has to change.
    StateTopicSettings = "state_topic_settings" of StateTopicUnsuitable,
    /// The state topic is not compacted.
    StateTopicDeletes = "state_topic_deletes" of StateTopicUnsuitable,
    /// A witness of the pipeline cannot be read.
    WitnessUnreadable = "record_unreadable" of StateTopicUnsuitable,
    /// The broker does not tell the state topic's settings.
    StateTopicSettingsUnknown = "state_topic_untold" of StateTopicUnsuitable,
    /// The state topic has fewer replicas than the cluster allows.
    StateTopicReplicas = "state_topic_replicas" of StateTopicUnsuitable,
    /// More than one preset fits the table.
    SeveralPresetsFit = "presets_both_fit" of PresetUnclear,
    /// More than one column of the table may be the payload, the key, or another part.
    SeveralColumnsFit = "columns_both_fit" of PresetUnclear,
    /// The column of the time has no type of a time.
    TimeType = "time_type" of ColumnType,
    /// The column of the partition is no integer.
    PartitionType = "partition_type" of ColumnType,
    /// `key_format` or `value_format` excludes the column's type.
    BytesType = "bytes_type" of ColumnType,
    /// The column of the trace context has no properties.
    TracingMalformed = "tracing_malformed" of HeadersMalformed,
    /// The number is one that no topic has as a partition.
    PartitionNumber = "partition_number" of PartitionUnusable,
    /// A header of `extra_headers` cannot be made.
    ExtraHeader = "extra_header" of HeadersMalformed,
    /// A bytea value is not in hexadecimal form.
    ByteaForm = "bytea_form" of ValueForm,
    /// The topic was not made again.
    TopicGone = "topic_gone" of TopicLost,
    /// A command's records were stored, and Kafka was taken back to before them.
    KafkaTakenBack = "kafka_taken_back" of TopicLost,
    /// No state topic is configured, so nothing can be accepted.
    NoStateTopic = "no_state_topic" of WitnessMissing,
    /// A command found no witness of the pipeline.
    NoWitness = "no_record" of WitnessMissing,
    /// Set-up could not write the first witness.
    FirstWitnessUnwritten = "first_record_unwritten" of WitnessMissing,
    /// A switch could not write the first witness.
    SwitchWitnessUnwritten = "switch_record_unwritten" of WitnessMissing,
}

impl Case {
    /// The case with this text, as [`Case::as_str`] prints it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|case| case.as_str() == text)
    }
}
