//! Properties of the connector, of Kafka Connect's connectors in general, and of Debezium Server.

use super::rule::{Outcome, Rule, by_value, carried, different, same, unsupported};

const NO_SNAPSHOT: &str = "there is no snapshot";
const NO_SIGNALS: &str = "there are no signals: setup, accept and teardown are commands";
const SLOT_IS_POSITION: &str = "the slot is the position; no offset is stored beside it";
const NOT_A_TASK: &str = "the router is one process without tasks";
const OWN_QUEUE: &str = "what may be in flight is limits.window_events and limits.window_bytes";
const OWN_LOOP: &str = "the router reconnects and reports its state by itself";
const NOT_POSTGRESQL: &str = "Debezium uses it for other databases";
const ONLY_OUTBOX: &str = "the router reads the outbox alone";
const NO_MESSAGES: &str = "messages of pg_logical_emit_message are not read: the records that \
                           Debezium writes of them to the topic PREFIX.message end with it";
/// What Debezium's default, a publication by leaf, means here.
pub(in super::super) const BY_LEAF: &str = "if the outbox is partitioned, P025 stops run until \
                       publish_via_partition_root is true in the publication (P025 says how); rows \
                       that come under a partition's name, such as those from before, are routed, too";
const ONLY_INSERT: &str = "only INSERTs become records";
const NO_SOURCE_DLQ: &str = "no effect in Kafka Connect either: it is for sinks";
const NO_PREFIX: &str = "EventRouter's topics do not have it";
const JAVA_CLASS: &str = "it is a Java class";
const NO_TRANSACTIONS: &str = "transaction metadata is not written";
const AT_LEAST_ONCE: &str = "delivery is at least once; deduplicate by the header id";
const NO_SCHEMAS: &str = "there are no Connect schemas";
const TYPES: &str = "a column of hstore or money is refused where Debezium would write it (R008)";
pub(super) const NAMES_STAY: &str = "names are written as they are";
const ADJUSTED_COLUMNS: &str = "where a column's name has characters that Avro does not allow, \
                                Debezium knows the column by an adjusted name, and the router by \
                                the table's name (R006 for the other one): give the table's name \
                                in columns, extra_headers and envelope, and leave the name of a \
                                header or member as it is";

pub(in super::super) const CONNECTOR: &[Rule] = &[
    // What is carried over.
    carried("name", &["name"]),
    carried(
        "postgres.url",
        &[
            "database.hostname",
            "database.port",
            "database.user",
            "database.password",
            "database.dbname",
            "database.sslmode",
            "database.sslrootcert",
            "database.sslcert",
            "database.sslkey",
        ],
    ),
    carried("postgres.slot", &["slot.name"]),
    carried("postgres.publication", &["publication.name"]),
    carried("outbox.table", &["table.include.list", "table.whitelist"]),
    carried("outbox.key_format", &["key.converter*", "debezium.format.key*"]),
    carried("outbox.value_format", &["value.converter*", "debezium.format.value*"]),
    // Settings of Confluent's managed connectors.
    carried("outbox.key_format", &["output.key.format"]),
    carried("outbox.value_format", &["output.data.format"]),
    carried("kafka.properties: SASL_SSL with PLAIN", &["kafka.auth.mode"]),
    carried("kafka.properties: sasl.username", &["kafka.api.key"]),
    carried("kafka.properties: sasl.password", &["kafka.api.secret"]),
    carried("", &["kafka.service.account.id"]),
    by_value(
        &["json.output.decimal.format"],
        &["BASE64"],
        Outcome::Same("the router writes Base64 of a numeric's digits, too"),
        Outcome::Different(
            "a numeric is a number in Debezium's JSON; the router writes Base64 of its digits, and \
             a number with outbox.decimals = \"double\"",
        ),
    ),
    carried("kafka.create_topics", &["topic.creation.*"]),
    // What decides how the rest is read.
    carried("", &["connector.class", "transforms", "transforms.*", "predicates", "predicates.*"]),
    carried("", &["plugin.name", "snapshot.mode", "header.converter*", "debezium.format.header*"]),
    carried("", &["debezium.format.schemas.enable", "debezium.sink.type", "producer.override.*"]),
    carried("", &["topic.prefix", "database.server.name", "extended.headers.enabled"]),
    carried("", &["binary.handling.mode"]),
    carried("outbox.decimals", &["decimal.handling.mode"]),
    carried("outbox.times", &["time.precision.mode"]),
    carried("outbox.intervals", &["interval.handling.mode"]),
    // PostgreSQL.
    unsupported("the router runs no SQL of yours", &["database.initial.statements"]),
    unsupported("the client's key is read without a password", &["database.sslpassword"]),
    unsupported(JAVA_CLASS, &["database.sslfactory"]),
    unsupported(
        "it is a Java class, such as the one for IAM on Amazon RDS; the router logs in with a \
         password or a client certificate",
        &["database.connection.factory.class"],
    ),
    same(
        "the router sets its own limits for connections",
        &["database.tcpKeepAlive", "database.query.timeout.ms", "database.connectionTimeoutMs"],
    ),
    same(NOT_POSTGRESQL, &["database.server.id", "database.include.list", "database.encrypt"]),
    same(
        NOT_POSTGRESQL,
        &["include.schema.changes", "database.history*", "schema.history.internal*"],
    ),
    by_value(
        &["slot.drop.on.stop"],
        &["false"],
        Outcome::Same("the router never drops a slot"),
        Outcome::Different("the router never drops a slot; outbox-router teardown does"),
    ),
    by_value(
        &["slot.failover"],
        &["false"],
        Outcome::Same("an existing slot is used as it is"),
        Outcome::Different(
            "setup prints what to add for a failover slot; run uses a slot as it is",
        ),
    ),
    unsupported("options of the plug-in are not passed on", &["slot.stream.params"]),
    same(OWN_LOOP, &["slot.max.retries", "slot.retry.delay.ms", "status.update.interval.ms"]),
    by_value(
        &["publication.autocreate.mode"],
        &["filtered", "disabled"],
        Outcome::Same("setup creates a publication of the outbox alone; run uses what is there"),
        Outcome::Different(
            "setup creates a publication of the outbox alone, never FOR ALL TABLES; run uses one \
             that is there",
        ),
    ),
    by_value(
        &["publish.via.partition.root"],
        &["true"],
        Outcome::Same("setup creates a publication with publish_via_partition_root"),
        Outcome::Different(BY_LEAF),
    ),
    same(ONLY_INSERT, &["replica.identity.autoset.values", "skipped.operations"]),
    same(ONLY_INSERT, &["skip.messages.without.change"]),
    same(ONLY_INSERT, &["tombstones.on.delete", "unavailable.value.placeholder"]),
    same(
        "the outbox's table says it",
        &["schema.include.list", "schema.whitelist", "schema.exclude.list", "schema.blacklist"],
    ),
    same(ONLY_OUTBOX, &["table.exclude.list", "table.blacklist", "table.ignore.builtin"]),
    same(ONLY_OUTBOX, &["guardrail.collections.*"]),
    by_value(
        &["message.prefix.exclude.list"],
        &[".*"],
        Outcome::Same("logical messages are not read"),
        Outcome::Different(NO_MESSAGES),
    ),
    different(NO_MESSAGES, &["message.prefix.*"]),
    same(
        "the router reads the columns that it is given",
        &["column.include.list", "column.exclude.list", "column.whitelist", "column.blacklist"],
    ),
    unsupported("values of columns are not changed", &["column.mask.*", "column.truncate.*"]),
    unsupported("values of columns are not changed", &["column.propagate.*", "converters"]),
    unsupported("values of columns are not changed", &["post.processors", "post.processors.*"]),
    by_value(
        &["include.unknown.datatypes"],
        &["false"],
        Outcome::Same("a column of a type that Debezium does not know is left out there"),
        Outcome::Different(
            "of a type that Debezium does not know it writes the bytes; the router writes the text \
             of a composite type, and refuses the others (R008)",
        ),
    ),
    same("EventRouter sets the key", &["message.key.columns"]),
    different(TYPES, &["hstore.handling.mode", "money.fraction.digits"]),
    same(
        NO_SCHEMAS,
        &[
            "datatype.propagate.source.type",
            "schema.name.adjustment.mode",
            "include.schema.comments",
            "sourceinfo.struct.maker",
        ],
    ),
    by_value(
        &["field.name.adjustment.mode"],
        &["none"],
        Outcome::Same(NAMES_STAY),
        Outcome::Different(ADJUSTED_COLUMNS),
    ),
    // The former name of the option: true is the mode avro.
    by_value(
        &["sanitize.field.names"],
        &["false"],
        Outcome::Same(NAMES_STAY),
        Outcome::Different(ADJUSTED_COLUMNS),
    ),
    // Reading, and the position.
    same(NO_SNAPSHOT, &["snapshot.*", "incremental.snapshot.*", "read.only", "min.row.count.*"]),
    same(NO_SNAPSHOT, &["legacy.snapshot.max.threads", "streaming.delay.ms"]),
    same("the columns are those of the stream's last Relation message", &["schema.refresh.mode"]),
    carried("", &["heartbeat.*", "topic.heartbeat.prefix", "topic.heartbeat.name"]),
    different(NO_SIGNALS, &["signal.*", "notification.*"]),
    same(SLOT_IS_POSITION, &["offset.*", "lsn.flush.*", "flush.lsn.source"]),
    same("it is monitored all the same", &["xmin.fetch.interval.ms"]),
    same("records are sent as they arrive", &["poll.interval.ms", "poll.dispatch.interval.ms"]),
    // A name before 2.0 that tutorials still show.
    same("records are sent as they arrive", &["poll.interval"]),
    same(OWN_QUEUE, &["max.batch.size", "max.queue.size", "max.queue.size.in.bytes"]),
    same(OWN_QUEUE, &["query.fetch.size", "queue.provider.type"]),
    by_value(
        &["provide.transaction.metadata"],
        &["false"],
        Outcome::Same(NO_TRANSACTIONS),
        Outcome::Unsupported(NO_TRANSACTIONS),
    ),
    same(NO_TRANSACTIONS, &["transaction.*", "topic.transaction"]),
    different(
        "it belongs to exactly.once.support: delivery is at least once; deduplicate by the header \
         id",
        &["transaction.boundary", "transaction.boundary.interval.ms"],
    ),
    by_value(
        &["exactly.once.support"],
        &["requested"],
        Outcome::Different(AT_LEAST_ONCE),
        Outcome::Unsupported(AT_LEAST_ONCE),
    ),
    // Errors.
    by_value(
        &["event.processing.failure.handling.mode", "event.deserialization.failure.handling.mode"],
        &["fail"],
        Outcome::Same("the router stops at a row that it cannot read"),
        Outcome::Different("the router never skips: it stops at a row that it cannot read"),
    ),
    by_value(
        &["event.converting.failure.handling.mode"],
        &["fail"],
        Outcome::Same("the router stops at a row that it cannot read"),
        Outcome::Different("the router never writes null instead: it stops at such a row"),
    ),
    by_value(
        &["errors.tolerance"],
        &["none"],
        Outcome::Same("the router stops at a row that cannot become a record"),
        Outcome::Different(
            "Kafka Connect drops a record that fails; the router stops at the row and says why",
        ),
    ),
    same(NO_SOURCE_DLQ, &["errors.deadletterqueue.*"]),
    same("failures are logged, with a code", &["errors.log.enable", "errors.log.include.messages"]),
    same(
        OWN_LOOP,
        &["errors.retry.*", "errors.max.retries", "retriable.restart.connector.wait.ms"],
    ),
    same(OWN_LOOP, &["executor.shutdown.timeout.ms", "connection.validation.timeout.ms"]),
    // Kafka Connect.
    same(NOT_A_TASK, &["tasks.max", "tasks.max.enforce", "config.action.reload"]),
    same(NOT_A_TASK, &["spec.pause", "spec.state", "spec.autoRestart", "spec.version"]),
    same(SLOT_IS_POSITION, &["spec.listOffsets", "spec.alterOffsets"]),
    unsupported(
        "how the worker reaches Kafka is not in the connector: set security.protocol and what \
         belongs to it in [kafka.properties]",
        &["worker.tls", "worker.authentication"],
    ),
    same("Kafka Connect has not read them since 2.0", &["internal.key.converter*"]),
    same("Kafka Connect has not read them since 2.0", &["internal.value.converter*"]),
    same(NO_PREFIX, &["topic.naming.strategy", "topic.delimiter", "topic.cache.size"]),
    same("metrics are at /metrics", &["statistics.metrics.enabled", "custom.metric.tags"]),
    same("metrics are at /metrics", &["custom.sanitize.pattern", "openlineage.*"]),
    different(
        "it belongs to Confluent's managed connectors, where EventRouter needs false",
        &["after.state.only"],
    ),
    unsupported(
        "a consumer's and an admin client's overrides have no place here",
        &["consumer.override.*", "admin.override.*"],
    ),
    // Debezium Server.
    same("the endpoint is admin.listen, the log is [log]", &["quarkus.*", "debezium.log.*"]),
    same("the endpoint is admin.listen", &["debezium.api.*", "engine.*"]),
    same(FOR_EVER, &["debezium.sink.kafka.wait.message.delivery.timeout.ms"]),
];

const FOR_EVER: &str = "the router tries until Kafka has acknowledged";
