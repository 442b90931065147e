//! Which keys each table has, what they take, and what they mean: from the tree to [`Config`]. Limits of values are
//! here, with the reason for each; what concerns several values at once is in [`super::validate`].

use std::{net::SocketAddr, time::Duration};

use relay::{
    ColumnNames, Format, HeaderNames, OutboxTable, Preset, Role, TableName, Timestamp, TopicName,
    TopicTemplate,
};

use super::{
    error::Rejection,
    model::{
        Admin, BytesBehind, Config, CreateTopics, Kafka, Limits, Log, LogFormat, Monitor, Postgres,
        Properties,
    },
    names::{PublicationName, SlotName, identifier, parse_table},
    quantity::Quantity,
    read::{Problems, Section},
    tree::Table,
};

/// Reads the whole tree; whatever is wrong goes to `problems` and leaves its default.
pub(super) fn read(tree: Table, problems: &mut Problems<'_>) -> Config {
    let mut root = Section::root(tree);
    let default = Config::default();
    let config = Config {
        name: root.text("name", problems, name).unwrap_or(default.name),
        postgres: postgres(root.section("postgres", problems), problems),
        outbox: root
            .sections("outbox", problems)
            .into_iter()
            .map(|section| outbox(section, problems))
            .collect(),
        kafka: kafka(root.section("kafka", problems), problems),
        limits: limits(root.section("limits", problems), problems),
        monitor: monitor(root.section("monitor", problems), problems),
        admin: admin(root.section("admin", problems), problems),
        log: log(root.section("log", problems), problems),
    };
    root.finish(problems);
    config
}

/// PostgreSQL cuts an application name at 63 bytes and replaces what is not printable ASCII; the same word is a metric
/// label and a Kafka client id, so it is kept to what all three leave alone.
fn name(text: &str) -> Result<String, Rejection> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !text.is_empty() && text.len() <= 63 && text.chars().all(legal) {
        return Ok(text.to_owned());
    }
    Err(Rejection::value("is no name").hint("1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-'"))
}

fn postgres(mut section: Section, problems: &mut Problems<'_>) -> Postgres {
    let default = Postgres::default();
    let postgres = Postgres {
        url: section.secret("url", problems),
        slot: section.text("slot", problems, SlotName::parse).unwrap_or(default.slot),
        publication: section
            .text("publication", problems, PublicationName::parse)
            .unwrap_or(default.publication),
    };
    section.finish(problems);
    postgres
}

/// One of a few words.
fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, Rejection> {
    let found = choices.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        Rejection::value("is not a choice").hint(format!("one of {}", words.join(", ")))
    })
}

/// What an `[[outbox]]` that names no table means, and what `setup` makes when there is none.
pub fn default_table() -> TableName {
    TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
}

const PRESETS: [(&str, Preset); 3] =
    [("auto", Preset::Auto), ("default", Preset::Default), ("debezium", Preset::Debezium)];
const TIMESTAMPS: [(&str, Timestamp); 2] = [("commit", Timestamp::Commit), ("now", Timestamp::Now)];
const FORMATS: [(&str, Format); 2] = [("plain", Format::Plain), ("debezium", Format::Debezium)];

fn outbox(mut section: Section, problems: &mut Problems<'_>) -> OutboxTable {
    let table = section.text("table", problems, parse_table).unwrap_or_else(default_table);
    let default = OutboxTable::with_defaults(table);
    let preset = section.text("preset", problems, |text| choice(text, &PRESETS));
    let format = section.text("format", problems, |text| choice(text, &FORMATS));
    let topic = section.text("topic", problems, |text| {
        TopicTemplate::parse(text)
            .map_err(|error| Rejection::value(format!("is no topic: {error}")))
    });
    let timestamp = section.text("timestamp", problems, |text| choice(text, &TIMESTAMPS));
    let columns = columns(section.section("columns", problems), problems);
    let headers = headers(section.section("headers", problems), problems);
    section.finish(problems);
    OutboxTable {
        preset: preset.unwrap_or(default.preset),
        format: format.unwrap_or(default.format),
        topic: topic.unwrap_or(default.topic),
        timestamp: timestamp.unwrap_or(default.timestamp),
        columns,
        headers,
        name: default.name,
    }
}

fn columns(mut section: Section, problems: &mut Problems<'_>) -> ColumnNames {
    let mut columns = ColumnNames::default();
    for role in Role::ALL {
        let names =
            section.texts(role.as_str(), problems, |text| identifier(text).map(str::to_owned));
        if let Some(names) = names {
            columns.set(role, names);
        }
    }
    section.finish(problems);
    columns
}

fn headers(mut section: Section, problems: &mut Problems<'_>) -> HeaderNames {
    let default = HeaderNames::default();
    let headers = HeaderNames {
        id: section.text("id", problems, header).unwrap_or(default.id),
        event_type: section.text("event_type", problems, header).unwrap_or(default.event_type),
    };
    section.finish(problems);
    headers
}

/// Consumers bridge headers to HTTP: no line may be smuggled in.
fn header(text: &str) -> Result<String, Rejection> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(Rejection::value("is no header name")
            .hint("at least one character, none of them a control character"));
    }
    Ok(text.to_owned())
}

fn kafka(mut section: Section, problems: &mut Problems<'_>) -> Kafka {
    let default = Kafka::default();
    let servers = section.text("bootstrap_servers", problems, servers);
    let create_topics = section
        .optional_section("create_topics", problems)
        .map(|section| create_topics(section, problems));
    let state_topic = section.text("state_topic", problems, state_topic);
    let properties = section.section("properties", problems).properties(problems);
    section.finish(problems);
    Kafka {
        bootstrap_servers: servers.unwrap_or(default.bootstrap_servers),
        create_topics,
        state_topic: state_topic.unwrap_or(default.state_topic),
        properties: Properties::new(properties),
    }
}

/// Empty: there is no witness.
fn state_topic(text: &str) -> Result<Option<TopicName>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    TopicName::new(text).map(Some).map_err(|error| {
        Rejection::value("is no topic name").hint(format!("{error}; \"\" keeps no witness at all"))
    })
}

fn servers(text: &str) -> Result<String, Rejection> {
    let plausible = |server: &str| {
        let server = server.trim();
        let port = server.rsplit_once(':').map(|(_, port)| port);
        !server.is_empty()
            && !server.contains(char::is_whitespace)
            && port.is_none_or(|port| {
                // What follows the last colon may be the end of "[::1]" or of "ssl://host".
                port.parse::<u16>().is_ok_and(|port| port != 0)
                    || server.ends_with(']')
                    || port.starts_with("//")
            })
    };
    if text.split(',').all(plausible) {
        return Ok(text.to_owned());
    }
    Err(Rejection::value("is no list of brokers").hint("write \"host:9092,other:9092\""))
}

fn create_topics(mut section: Section, problems: &mut Problems<'_>) -> CreateTopics {
    // A hundred thousand partitions would be a slip of the hand, and no broker would survive it.
    let partitions = section.count("partitions", 1..=10_000, problems);
    let replication_factor = section.count("replication_factor", 1..=100, problems);
    section.finish(problems);
    // Left out: as the broker has it configured, which it calls −1.
    CreateTopics {
        partitions: partitions.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1),
        replication_factor: replication_factor.and_then(|n| i16::try_from(n).ok()).unwrap_or(-1),
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn limits(mut section: Section, problems: &mut Problems<'_>) -> Limits {
    let default = Limits::default();
    // Below 64 KiB a Relation message of a wide table would not pass; above 900 MiB the record would not fit into
    // librdkafka's largest message, 1,000,000,000 bytes.
    let row = section.quantity("row_bytes", Quantity::Size, 64 * KIB..=900 * MIB, problems);
    let window = section.quantity("window_bytes", Quantity::Size, 64 * KIB..=16 * GIB, problems);
    let events = section.count("window_events", 1..=10_000_000, problems);
    let shutdown = section.quantity("shutdown", Quantity::Duration, 1_000..=3_600_000, problems);
    section.finish(problems);
    Limits {
        window_events: events.unwrap_or(default.window_events),
        window_bytes: window.unwrap_or(default.window_bytes),
        row_bytes: row.unwrap_or(default.row_bytes),
        shutdown: shutdown.map_or(default.shutdown, Duration::from_millis),
    }
}

fn monitor(mut section: Section, problems: &mut Problems<'_>) -> Monitor {
    let default = Monitor::default();
    // A look costs PostgreSQL a query; a gap must be noticed within 10 s.
    let interval = section.quantity("interval", Quantity::Duration, 100..=10_000, problems);
    let mut inner = section.section("bytes_behind", problems);
    let largest = 1 << 50;
    let warning = inner.quantity("warning", Quantity::Size, 1..=largest, problems);
    let critical = inner.quantity("critical", Quantity::Size, 1..=largest, problems);
    inner.finish(problems);
    section.finish(problems);
    Monitor {
        interval: interval.map_or(default.interval, Duration::from_millis),
        bytes_behind: BytesBehind {
            warning: warning.unwrap_or(default.bytes_behind.warning),
            critical: critical.unwrap_or(default.bytes_behind.critical),
        },
    }
}

fn admin(mut section: Section, problems: &mut Problems<'_>) -> Admin {
    let listen = section.text("listen", problems, |text| {
        text.parse::<SocketAddr>().map_err(|_| {
            Rejection::value("is no address with a port")
                .hint("write \"127.0.0.1:8788\", \"0.0.0.0:8788\" or \"[::1]:8788\"")
        })
    });
    section.finish(problems);
    listen.map_or_else(Admin::default, |listen| Admin { listen })
}

fn log(mut section: Section, problems: &mut Problems<'_>) -> Log {
    let default = Log::default();
    let formats = [LogFormat::Auto, LogFormat::Json, LogFormat::Text].map(|f| (f.as_str(), f));
    let format = section.text("format", problems, |text| choice(text, &formats));
    let level = section.text("level", problems, |text| {
        tracing_subscriber::EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|_| {
            Rejection::value("is no log filter")
                .hint("error, warn, info, debug or trace; or \"info,outbox_router::kafka=debug\"")
        })
    });
    section.finish(problems);
    Log { format: format.unwrap_or(default.format), level: level.unwrap_or(default.level) }
}
