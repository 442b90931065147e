//! Every key of the configuration, declared once. Parsing, defaults, what `check` prints,
//! suggestions, environment variables, `config/outbox-router.example.toml` and
//! `docs/configuration.md` follow from here; a new key is an entry in this file and the code that
//! uses it.
//!
//! Only checks that concern several values at once are elsewhere, in [`super::validate`].

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::LazyLock,
    time::Duration,
};

use relay::{
    BacklogFrom, BytesFormat, ColumnNames, Decimals, EnvelopeMember, EpochUnit, ErrorPolicy,
    ExpandJson, ExtraHeader, Format, HeaderNames, HoldKeys, Intervals, JavaRegex, MissingColumns,
    OnError, OnMismatch, OnNotJson, OnUpdate, OutboxTable, Outboxes, PRESETS, Preset, RowFilter,
    TableName, Times, Timestamp, TombstoneOn, TopicName, TopicTemplate, polling::RetryPolicy,
};

use super::{
    entry::KeyEntry,
    kinds::{
        Kind, Named, choice, connection, count, count_because, count_or_broker_default, duration,
        envelope, extra_headers, filter, group, inline, optional_duration, optional_text,
        properties, section, sections, size, switch, text, tombstones,
    },
    names::{PublicationName, SlotName, parse_table, print_table},
    parse,
    polled::Outbox,
    polling::{PollingSection, SOURCES, SourceKind},
    print::Lines,
    read::{Problems, Section},
    recover::RecoverSection,
    retention::RetentionSection,
    secret::Secret,
    table::{DeclaredTable, tables},
    values::{LogFormat, Properties},
};
use crate::{polling::sql::TableConfig, tap::TapShows};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// In milliseconds.
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

/// `auto`, and every preset that it chooses from.
const PRESET_NAMES: [(&str, Option<&Preset>); PRESETS.len() + 1] = {
    let mut names = [("auto", None); PRESETS.len() + 1];
    let (_, mut left) = names.split_at_mut(1);
    let mut presets = PRESETS.as_slice();
    while let ([place, places @ ..], [preset, others @ ..]) = (left, presets) {
        *place = (preset.name, Some(*preset));
        (left, presets) = (places, others);
    }
    names
};
const FORMATS: &[(&str, Format)] = &[("plain", Format::Plain), ("debezium", Format::Debezium)];
const TIMESTAMPS: &[(&str, Timestamp)] =
    &[("commit", Timestamp::Commit), ("now", Timestamp::Now), ("column", Timestamp::Column)];
const EPOCH_UNITS: &[(&str, EpochUnit)] =
    &[("s", EpochUnit::Seconds), ("ms", EpochUnit::Milliseconds), ("us", EpochUnit::Microseconds)];
const BYTES_FORMATS: &[(&str, BytesFormat)] = &[
    ("auto", BytesFormat::Auto),
    ("string", BytesFormat::String),
    ("json", BytesFormat::Json),
    ("bytes", BytesFormat::Bytes),
];
const EXPAND_JSON: &[(&str, ExpandJson)] = &[
    ("no", ExpandJson::No),
    ("as_is", ExpandJson::AsItIs),
    ("compact", ExpandJson::Compact),
    ("drop_nulls", ExpandJson::DropNulls),
    ("drop_empty_arrays", ExpandJson::DropEmptyArrays),
    ("drop_both", ExpandJson::DropBoth),
];
const ON_NOT_JSON: &[(&str, OnNotJson)] =
    &[("halt", OnNotJson::Halt), ("as_text", OnNotJson::AsText)];
const DECIMALS: &[(&str, Decimals)] =
    &[("precise", Decimals::Precise), ("string", Decimals::Text), ("double", Decimals::Double)];
const TIMES: &[(&str, Times)] = &[
    ("adaptive", Times::Adaptive),
    ("adaptive_time_microseconds", Times::AdaptiveTimeMicroseconds),
    ("microseconds", Times::Microseconds),
    ("nanoseconds", Times::Nanoseconds),
    ("connect", Times::Connect),
    ("isostring", Times::IsoString),
    ("structured", Times::Structured),
];
const INTERVALS: &[(&str, Intervals)] =
    &[("numeric", Intervals::Number), ("string", Intervals::Text)];
const ON_MISMATCH: &[(&str, OnMismatch)] =
    &[("error", OnMismatch::Error), ("value", OnMismatch::Value)];
const MISSING_COLUMNS: &[(&str, MissingColumns)] =
    &[("error", MissingColumns::Error), ("ignore", MissingColumns::Ignore)];
const ON_UPDATE: &[(&str, OnUpdate)] = &[("ignore", OnUpdate::Ignore), ("error", OnUpdate::Error)];
const ON_ERROR: &[(&str, OnError)] = &[named(OnError::Halt), named(OnError::DeadLetter)];

const fn named(policy: OnError) -> (&'static str, OnError) {
    (policy.as_str(), policy)
}
const BACKLOGS: &[(&str, BacklogFrom)] =
    &[("sql", BacklogFrom::Sql), ("stream", BacklogFrom::Stream)];
const TAP_SHOWS: &[(&str, TapShows)] =
    &[("metadata", TapShows::Metadata), ("content", TapShows::Content)];
const LOG_FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];

/// Why not more may be held.
const READ_AT_BEGIN: &str =
    "a router reads what is held when it gets the slot, and gives up after some seconds";

/// The table of an `[[outbox]]` that names none, and the table that `setup` creates when no
/// `[[outbox]]` is configured.
pub fn default_table() -> TableName {
    TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
}

/// Every table and key, in the order of the declarations.
pub static KEYS: LazyLock<Vec<KeyEntry>> = LazyLock::new(|| {
    let mut entries = Vec::new();
    Config::describe("", &mut entries);
    entries
});

impl Config {
    /// How the rows of each outbox table are routed.
    pub fn tables(&self) -> impl Iterator<Item = &OutboxTable> {
        self.outbox.iter().map(|outbox| &outbox.table)
    }

    /// The outbox tables for the polling source.
    pub fn polled_tables(&self) -> Vec<TableConfig> {
        self.outbox.iter().map(Outbox::polled_table).collect()
    }

    /// The outbox tables for the core.
    pub fn outboxes(&self) -> Outboxes {
        Outboxes {
            tables: self.tables().cloned().collect(),
            state_topic: self.kafka.state_topic.clone(),
            age_column: self.retention.time_column.clone(),
        }
    }
}

tables! {
    /// Everything that can be configured.
    pub struct Config {
        /// The label `pipeline` of every metric, Kafka's client.id, PostgreSQL's application_name.
        /// The label is this name alone, without database and slot: two routers that one Prometheus
        /// scrapes need different names, else metrics and alerts merge them. A standby has its
        /// holder's name. The witness in the state topic, and what the tables in outbox_router
        /// note, are of this name, with database and slot: under another one a pipeline begins.
        name: String = "outbox-router".to_owned(),
            text("a name: 1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-'", parse::name, String::clone);
        /// Where rows come from.
        postgres: PostgresSection = PostgresSection::defaults(), section();
        /// One for each outbox table. Left out altogether: every table of the publication, each
        /// with the defaults below; with source = "polling", one is needed.
        outbox: Vec<Outbox> = Vec::new(),
            sections("every table of the publication, with the defaults");
        /// How pending rows are read, with source = "polling" (docs/polling.md).
        polling: PollingSection = PollingSection::defaults(), section();
        /// When a row that could not be delivered is tried again, with source = "polling".
        retry: RetryPolicy = RetryPolicy::defaults(), section();
        /// Where records go.
        kafka: KafkaSection = KafkaSection::defaults(), section();
        /// What follows from an event that cannot be delivered, while the events around it can.
        /// halt: the router stops at it, and nothing behind it is delivered. dead_letter: the event
        /// goes into the table outbox_router.held, which `outbox-router setup --dead-letters`
        /// makes, and the events of other keys go on. A topic that is missing or forbidden and a
        /// broker that is down never make dead letters: they are waited for.
        on_error: ErrorPolicy = ErrorPolicy::defaults(), section();
        /// Events that wait in the table outbox_router.held. At a limit the router stops at the
        /// next event to be held (R017).
        dead_letters: DeadLettersSection = DeadLettersSection::defaults(), section();
        /// What becomes of rows after they are delivered. A row is removed only when the slot has
        /// confirmed its transaction, and never while its event is a dead letter or held
        /// (docs/retention.md).
        retention: RetentionSection = RetentionSection::defaults(), section();
        /// How `outbox-router recover` sends rows that a gap has lost (docs/recover.md).
        recover: RecoverSection = RecoverSection::defaults(), section();
        /// What may be in flight, and how long a shutdown may take.
        limits: LimitsSection = LimitsSection::defaults(), section();
        /// How often the slot is read, and from when on it is too far behind.
        monitor: MonitorSection = MonitorSection::defaults(), section();
        /// The admin endpoint.
        admin: AdminSection = AdminSection::defaults(), section();
        /// Log lines.
        log: LogSection = LogSection::defaults(), section();
    }

    /// `[postgres]`
    pub struct PostgresSection {
        /// A URL, or libpq's `host=… user=…` form. Without it PGHOST, PGPORT, PGUSER, PGDATABASE,
        /// PGPASSWORD, .pgpass and libpq's other variables apply. Never printed with its password.
        /// What libpq knows and the router does not implement is refused by name. For a remote host
        /// sslmode is verify-full unless set otherwise; a server whose certificate was not checked
        /// never gets the password in clear text, also with require_auth=password.
        /// require_auth=scram-sha-256 (or PGREQUIREAUTH; a list as libpq has it, ! negates) refuses
        /// all other methods. A server may ask for 1 to 100,000 SCRAM iterations.
        url: Option<Secret<String>> = None, connection(
            "PGHOST, PGUSER and libpq's other variables apply",
            "postgres://outbox_router:${file:/run/secrets/postgres}@db.example/shop"
        );
        /// stream: from the WAL, through the slot. polling: from the tables, by SQL; that needs no
        /// wal_level, no right of replication and no slot, works through a pooler in transaction
        /// mode, and marks each row that is delivered (docs/polling.md). `switch` leads from one to
        /// the other.
        source: SourceKind = SourceKind::Stream, choice(SOURCES);
        /// The logical replication slot (pgoutput). Created by `setup`, never by `run`.
        slot: SlotName = SlotName::default(),
            text("a name: 1 to 63 of a-z, 0-9 and _", SlotName::parse, ToString::to_string);
        /// The publication. Created by `setup`, before the slot.
        publication: PublicationName = PublicationName::default(),
            text("a name of at most 63 bytes", PublicationName::parse, ToString::to_string);
        /// How a router that is 32 MiB or more behind reads that backlog. sql: in batches by
        /// pg_logical_slot_get_binary_changes on two temporary copies of the slot in turns, which
        /// takes two more connections (max_wal_senders) and two free slots (max_replication_slots)
        /// meanwhile, twice 64 MB of the server's memory, and twice 256 MiB of its temporary files.
        /// With one free slot: one copy. Small transactions then cost the server less. A slot with
        /// failover is read so up to 16 MiB before the end of what every standby that
        /// synchronized_standby_slots names has received. The rest, and all where it is refused,
        /// and without kafka.state_topic: stream, as the walsender sends it.
        backlog: BacklogFrom = BacklogFrom::Sql, choice(BACKLOGS);
    }

    impl OutboxTable {
        /// As in SQL: schema.table, the schema being public when left out; '"Weird Schema".outbox'
        /// for names that need quotes.
        name as "table": TableName = default_table(),
            text("a table's name", parse_table, print_table);
        /// Which column is what: a known table (docs/tables.md); auto: the one whose columns the
        /// table has. default: id, aggregate_type, aggregate_id, event_type, payload [, headers,
        /// traceparent, tracestate, created_at]; debezium: id, aggregatetype, aggregateid, type,
        /// payload [, traceparent, tracestate, timestamp, tracingspancontext].
        preset: Option<&'static Preset> = None, choice(&PRESET_NAMES);
        /// plain: key = aggregate id, value = payload, headers id and type and the row's own;
        /// debezium: what Debezium's EventRouter writes, its only header being id;
        /// docs/debezium.md lists the differences.
        format: Format = Format::Plain, choice(FORMATS);
        /// The topic. ${aggregate_type} is the row's; ${column} is a column's text, and
        /// ${first|second} the first that is not NULL. A name that Kafka would refuse stops the
        /// router at that row.
        topic: Option<TopicTemplate> = None,
            optional_text(
                "a topic's name, with ${…}",
                parse::topic,
                ToString::to_string,
                "the preset's applies, which is outbox.event.${aggregate_type} in most",
                "outbox.event.${aggregate_type}"
            );
        /// What the aggregate type must match as a whole, in Java's syntax; its groups may stand in
        /// the topic as ${name} and $1, as in Debezium's route.topic.regex. What is not supported,
        /// or would mean something else here, is refused with its position.
        route_regex: Option<JavaRegex> = None,
            optional_text(
                "a regular expression",
                parse::java_regex,
                ToString::to_string,
                "every aggregate type has a topic",
                "(?<name>[a-z]+)\\..*"
            );
        /// An aggregate type that does not match. error: the router stops at that row; value: the
        /// aggregate type is the topic, as in Debezium.
        on_route_mismatch: OnMismatch = OnMismatch::Error, choice(ON_MISMATCH);
        /// The time that a record carries. commit: the transaction's; now: when the record is
        /// produced; column: what columns.timestamp says, a timestamp, a date or an integer. Topics
        /// delete by it: a record that its topic would delete within a day, or within half of
        /// retention.ms where that is less than two days, carries the time at which it is produced
        /// (K023), in the stream and by every command. Where retention.ms cannot be read, a day is
        /// assumed. Topics may refuse what is too old (message.timestamp.before.max.ms): where that
        /// is shorter than an outage may last, choose now.
        timestamp: Timestamp = Timestamp::Commit, choice(TIMESTAMPS);
        /// The unit of columns.timestamp where that is an integer, counted from 1970.
        timestamp_unit: EpochUnit = EpochUnit::Milliseconds, choice(EPOCH_UNITS);
        /// The bytes of the key. auto: a column's text, of a bytea its bytes; string: the text, a
        /// bytea being refused; bytes: the bytes of a bytea, every other type being refused; json:
        /// a text in quotes, a number as it is (Connect's JsonConverter without schemas).
        key_format: BytesFormat = BytesFormat::Auto, choice(BYTES_FORMATS);
        /// The bytes of the value, likewise. json writes a payload of JSON as a string, unless
        /// expand_json is set; auto writes its text as it is.
        value_format: BytesFormat = BytesFormat::Auto, choice(BYTES_FORMATS);
        /// With value_format = "json" or an envelope: what becomes of a payload of JSON. no: it
        /// stands in the value as a string; as_is: as it is written in the row; compact: without
        /// the white space between its tokens; drop_nulls, drop_empty_arrays, drop_both: compact,
        /// and without members that are null or empty arrays, of which Debezium drops both by
        /// default. In an array such a member stays where another object of the array has a value
        /// for it, as in Debezium.
        expand_json: ExpandJson = ExpandJson::No, choice(EXPAND_JSON);
        /// A payload that expand_json would expand and that is no JSON. halt: the router stops at
        /// that row; as_text: it stands in the value as a string, as in Debezium, so that consumers
        /// find strings among objects.
        on_not_json: OnNotJson = OnNotJson::Halt, choice(ON_NOT_JSON);
        /// Payloads that become Kafka's null, a tombstone on a compacted topic: null; blank: a text
        /// of white space alone; empty_bytea. Without "null", NULL is still Kafka's null, except in
        /// a JSON value, where it is written as null.
        tombstone_on: TombstoneOn = TombstoneOn::default(), tombstones();
        /// Headers after those of the format, in this order: { name, column }, or { name, value }
        /// with a text that may have ${column} in it. With format = "debezium" a column is written
        /// as Kafka Connect writes it.
        extra_headers: Vec<ExtraHeader> = Vec::new(), extra_headers();
        /// Members beside payload: the value is a JSON object of the payload and these columns.
        envelope: Vec<EnvelopeMember> = Vec::new(), envelope();
        /// An extra header or a member of the envelope whose column the table lacks. error: the
        /// router stops at the table's first row; ignore: it is left out.
        missing_columns: MissingColumns = MissingColumns::Error, choice(MISSING_COLUMNS);
        /// With format = "debezium": how a numeric is written that is no text in Debezium, as its
        /// decimal.handling.mode says. precise: in JSON the bytes of its digits in Base64, without
        /// a declared scale an object of scale and bytes; string: a text; double: a number of JSON.
        decimals: Decimals = Decimals::Precise, choice(DECIMALS);
        /// With format = "debezium": how a time without a time zone is written, as Debezium's
        /// time.precision.mode says. adaptive: a number of ms where at most three digits of a
        /// second's fraction are declared, else of us. With connect and isostring a timestamp, a
        /// date or a time is refused as a key, a header or in the envelope; with structured, also a
        /// timestamptz and an interval.
        times: Times = Times::Adaptive, choice(TIMES);
        /// With format = "debezium": how an interval is written, as Debezium's
        /// interval.handling.mode says. numeric: a number of us, a month having 30.4375 days;
        /// string: as in ISO 8601.
        intervals: Intervals = Intervals::Number, choice(INTERVALS);
        /// Which rows are events, by the text of one column: in, or not_in, a list. A row whose
        /// column is NULL is in neither, as in SQL. Rows that are no events are counted. A word is
        /// read as the type of the column reads it (false, 01), and compared as in SQL: without the
        /// blanks of a char(n) and the last zeros of a numeric; one that no value of it is written
        /// as, or no label of an enum, is R008. A session reads the labels when it begins, and ends
        /// at a value that is none of them: the next one knows a label that was added; at one that
        /// was renamed the router stops (R008). The column is the one that had this name when the
        /// row was written (polled: that has it now): a migration that gives the name to another
        /// column changes which rows are events.
        filter as "where": Option<RowFilter> = None, filter();
        /// An UPDATE of a row, which the publication should not have: ignore: it is counted; error:
        /// the router stops there. A DELETE is counted.
        on_update: OnUpdate = OnUpdate::Ignore, choice(ON_UPDATE);
        /// Columns that differ from the preset's: a name, or alternatives of which the first that
        /// the table has is taken, e.g. ["aggregate_id", "agg_id"], so that a column can be renamed
        /// while the router runs. Where two of them are there, and the first one stands behind the
        /// other in the table, it may have been added just now: R007 (payload, aggregate_id,
        /// event_type, headers) until one alone is named. An empty list leaves a column out. A text
        /// with ${…} stands for a column, too: "${ordering_key|event_id}" is the first of two that
        /// is not NULL, "${payload#/customer/id}" a value within a JSON column (RFC 6901).
        columns: ColumnNames = ColumnNames::default(), group();
        /// Names of the headers that carry the event's id and type.
        headers: HeaderNames = HeaderNames::defaults(), group();
    }

    impl HeaderNames {
        /// The header with the event's id.
        id: String = "id".to_owned(), text("a header's name", parse::header, String::clone);
        /// The header with the event's type.
        event_type: String = "type".to_owned(),
            text("a header's name", parse::header, String::clone);
    }

    /// `[kafka]`
    pub struct KafkaSection {
        /// host:port, several separated by commas.
        bootstrap_servers: String = "127.0.0.1:9092".to_owned(),
            text("a list of brokers", parse::servers, String::clone);
        /// How a missing topic is created. Without it a missing topic blocks the router, which
        /// reports its name.
        create_topics: Option<CreateTopics> = None, inline();
        /// A compacted topic of one partition, which the router creates if it has the permission.
        /// It holds one small record for each pipeline, the witness: how far everything is
        /// acknowledged, on which server and cluster, and which gaps are open (docs/guarantees.md).
        /// Several routers may share it, each under its own name, database or slot. "" keeps no
        /// witness: then a slot that was moved, another server or another cluster is not noticed
        /// while no router runs, and a restart closes every gap.
        state_topic: Option<TopicName> = TopicName::new("outbox-router.state").ok(),
            text("a topic's name, or \"\"", parse::state_topic, parse::print_optional_topic);
        // librdkafka's timer has a resolution of one second.
        /// How often librdkafka's statistics of each broker are taken: its connection, round-trip
        /// times, requests that wait, errors, retries and time-outs, as outbox_kafka_broker_* in
        /// /metrics. They cost CPU, the more the more topics and partitions there are.
        statistics: Option<Duration> = None, optional_duration(
            SECOND..=HOUR,
            "no statistics are taken, and there are no outbox_kafka_broker_* metrics",
            Duration::from_secs(10)
        );
        /// Any property of librdkafka that weakens no promise (acks, idempotence and the like are
        /// fixed, and refused here).
        properties: Properties = Properties::default(), properties(&[
            ("compression.type", "lz4"),
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("sasl.username", "outbox-router"),
            ("sasl.password", "${env:KAFKA_PASSWORD}"),
        ]);
    }

    /// `kafka.create_topics`
    #[derive(Copy)]
    pub struct CreateTopics {
        // A larger number would be a mistake, and no broker could serve so many.
        /// Partitions of a new topic. Left out, the broker decides (num.partitions).
        partitions: i32 = -1, count_or_broker_default(1..=10_000, 6);
        /// Copies of each partition. Left out, the broker decides (default.replication.factor).
        replication_factor: i16 = -1, count_or_broker_default(1..=100, 3);
    }

    impl ErrorPolicy {
        /// A value of the row cannot be used: R001, R004, R009, R012, R013, R014.
        bad_row: OnError = OnError::Halt, choice(ON_ERROR);
        /// The row has no legal topic: R002, R003, R015.
        unroutable: OnError = OnError::Halt, choice(ON_ERROR);
        /// The row is larger than limits.row_bytes, or its record larger than the topic takes:
        /// R005, K012.
        too_large: OnError = OnError::Halt, choice(ON_ERROR);
        /// The broker refuses the record: K013.
        rejected: OnError = OnError::Halt, choice(ON_ERROR);
    }

    /// `[dead_letters]`
    pub struct DeadLettersSection {
        /// Where dead letters are shown to people and tools, with their key, value and headers, and
        /// why they were not delivered. The table has them, too. "" writes no such records. Used
        /// only when an error makes dead letters.
        topic: Option<TopicName> = TopicName::new("outbox-router.dead-letters").ok(),
            text("a topic's name, or \"\"", parse::dead_letter_topic, parse::print_optional_topic);
        /// Whether later events of a dead letter's key are held behind it, so that the order within
        /// the key stays. false delivers them although an earlier event of their key is missing.
        hold_key: HoldKeys = HoldKeys::Yes, switch(HoldKeys::Yes, HoldKeys::No);
        // The router remembers each key, in some 200 bytes. The most of both is read in three
        // seconds, or six where nothing is in a cache. A session that has waited longer than five
        // for the table gives the slot up, and the next one finds it in the cache.
        /// The most keys of which events are held; an event without a key counts as one.
        max_keys: u64 = 10_000, count_because(1..=100_000, READ_AT_BEGIN);
        /// The most events that are held. A router reads them when it gets the slot.
        max_events: u64 = 1_000_000, count_because(1..=2_000_000, READ_AT_BEGIN);
        /// Their bytes, as the table has them.
        max_bytes: u64 = GIB, size(MIB..=16 * TIB);
    }

    /// `[limits]`
    #[derive(Copy)]
    pub struct LimitsSection {
        /// Events past the last confirmable position: what may be in flight, and the bound on
        /// duplicates after a crash. Where events go to a thousand topics and more at a time,
        /// 200_000 events and 128MiB cost far less CPU.
        window_events: u64 = 20_000, count(1..=10_000_000);
        /// Their bytes; not smaller than row_bytes. Memory stays below 40 MB + 3 × this.
        window_bytes: u64 = 32 * MIB, size(64 * KIB..=16 * GIB);
        // Below 64 KiB a Relation message of a wide table would not pass; above 900 MiB the record
        // would not fit into librdkafka's largest message, 1,000,000,000 bytes.
        /// The largest row. A larger one stops the router at that row.
        row_bytes: u64 = 16 * MIB, size(64 * KIB..=900 * MIB);
        // The default is below the 30 s after which Kubernetes kills a process.
        /// How long SIGTERM waits for the acknowledgement of what was read. The exit code is 75
        /// where the router stopped with events that were read and not confirmed.
        shutdown: Duration = Duration::from_secs(25), duration(SECOND..=HOUR);
    }

    /// `[monitor]`
    #[derive(Copy)]
    pub struct MonitorSection {
        // Each reading costs PostgreSQL a query; a gap must be noticed within 10 s.
        /// Time between two readings of the slot.
        interval: Duration = Duration::from_secs(5), duration(100..=10 * SECOND);
        /// How far the slot may be behind the current WAL position before a warning and an error
        /// are logged and shown.
        bytes_behind: BytesBehind = BytesBehind::defaults(), group();
    }

    /// `monitor.bytes_behind`
    #[derive(Copy)]
    pub struct BytesBehind {
        /// A warning from this distance on; below critical.
        warning: u64 = 256 * MIB, size(1..=1024 * TIB);
        /// An error from this distance on.
        critical: u64 = 2 * GIB, size(1..=1024 * TIB);
    }

    /// `[admin]`
    pub struct AdminSection {
        /// / (a page for people) /metrics /livez /readyz /startupz /status.json. Read-only and
        /// without authentication: keep it on loopback or a private network.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8788)),
            text("an address with a port", parse::address, ToString::to_string);
        /// What `outbox-router tap` (/tap) shows of events as they are routed. metadata: table,
        /// topic, partition, LSN, types and sizes, but nothing of their content. content: also
        /// keys (up to 1 KiB), values (up to 4 KiB) and headers (up to 32, with 4 KiB of values);
        /// then everybody who reaches listen can read events.
        tap: TapShows = TapShows::Metadata, choice(TAP_SHOWS);
        /// Names by which browsers and other clients may ask for / and /status.json, separated by
        /// commas: "router.example.org, router.shop.svc". By an IP address and as localhost they
        /// may in any case, and /metrics and the probes are answered under every name. Any other
        /// name is refused, since a web page could be behind it (DNS rebinding).
        hosts: Vec<String> = Vec::new(),
            text("names of hosts, separated by commas", parse::hosts, |hosts| hosts.join(", "));
    }

    /// `[log]`
    pub struct LogSection {
        /// The format of a line. auto: text on a terminal, json elsewhere.
        format: LogFormat = LogFormat::Auto, choice(LOG_FORMATS);
        /// error, warn, info, debug, trace; or by module: "info,outbox_router::kafka=debug".
        level: String = "info".to_owned(), text("a filter", parse::log_filter, String::clone);
    }
}
