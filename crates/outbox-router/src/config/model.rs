//! The configuration as the program uses it: every value typed, checked and present. The defaults are here and nowhere
//! else; `config/outbox-router.example.toml` shows them, and a test holds the two together.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use relay::{OutboxTable, Outboxes, TopicName};

use super::{
    names::{PublicationName, SlotName},
    secret::{HIDDEN, Secret, is_secret_property},
};

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Label `pipeline` of every metric, Kafka's `client.id`, PostgreSQL's `application_name`.
    pub name: String,
    /// Where rows come from.
    pub postgres: Postgres,
    /// The outbox tables; none means every table of the publication, each with the defaults.
    pub outbox: Vec<OutboxTable>,
    /// Where records go.
    pub kafka: Kafka,
    /// What may be in flight, and for how long at the end.
    pub limits: Limits,
    /// Watching the slot.
    pub monitor: Monitor,
    /// The admin endpoint.
    pub admin: Admin,
    /// Log lines.
    pub log: Log,
}

impl Config {
    /// The outbox tables for the core.
    pub fn outboxes(&self) -> Outboxes {
        Outboxes { tables: self.outbox.clone() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "outbox-router".to_owned(),
            postgres: Postgres::default(),
            outbox: Vec::new(),
            kafka: Kafka::default(),
            limits: Limits::default(),
            monitor: Monitor::default(),
            admin: Admin::default(),
            log: Log::default(),
        }
    }
}

/// `[postgres]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Postgres {
    /// A URL or `key=value` form; absent: libpq's `PG*` variables.
    pub url: Option<Secret<String>>,
    /// The logical replication slot.
    pub slot: SlotName,
    /// The publication.
    pub publication: PublicationName,
}

/// The state topic of a router that was told nothing else.
const STATE_TOPIC: &str = "outbox-router.state";

/// `[kafka]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kafka {
    /// `host:port`, several separated by commas.
    pub bootstrap_servers: String,
    /// How a missing topic is made; absent: it is not, and blocks.
    pub create_topics: Option<CreateTopics>,
    /// Where the witness is kept; absent: nowhere.
    pub state_topic: Option<TopicName>,
    /// Properties for librdkafka, checked by the sink.
    pub properties: Properties,
}

/// `kafka.create_topics`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateTopics {
    /// Partitions of a new topic.
    pub partitions: i32,
    /// Copies of each partition; −1 leaves it to the broker.
    pub replication_factor: i16,
}

/// `[kafka.properties]`, in alphabetical order. `Debug` hides every value that may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(Vec<(String, Secret<String>)>);

impl Properties {
    pub(super) fn new(properties: Vec<(String, String)>) -> Self {
        Self(properties.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }

    /// Name and value of each, for librdkafka.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret<String>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of one.
    pub fn get(&self, name: &str) -> Option<&Secret<String>> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Name and value of each, for people.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(name, value)| {
            (name, if is_secret_property(name) { HIDDEN } else { value.expose().as_str() })
        })
    }
}

impl std::fmt::Debug for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// `[limits]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Events past the last confirmed position: also the bound on duplicates.
    pub window_events: u64,
    /// Their bytes.
    pub window_bytes: u64,
    /// The largest row.
    pub row_bytes: u64,
    /// How long a drain may take.
    pub shutdown: Duration,
}

/// `[monitor]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Monitor {
    /// Time between two looks at the slot.
    pub interval: Duration,
    /// When to say that the slot is too far behind.
    pub bytes_behind: BytesBehind,
}

/// `monitor.bytes_behind`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesBehind {
    /// From here on a warning.
    pub warning: u64,
    /// From here on an error.
    pub critical: u64,
}

/// `[admin]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admin {
    /// Where `/metrics`, `/livez`, `/readyz` and `/status.json` are served.
    pub listen: SocketAddr,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// What a line looks like.
    pub format: LogFormat,
    /// A filter as `tracing` reads it: `info`, `info,outbox_router::kafka=debug`.
    pub level: String,
}

/// `log.format`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl LogFormat {
    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Json => "json",
            Self::Text => "text",
        }
    }
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            bootstrap_servers: "127.0.0.1:9092".to_owned(),
            create_topics: None,
            state_topic: TopicName::new(STATE_TOPIC).ok(),
            properties: Properties::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window_events: 20_000,
            window_bytes: 32 << 20,
            row_bytes: 16 << 20,
            // Below the 30 s after which Kubernetes kills.
            shutdown: Duration::from_secs(25),
        }
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            bytes_behind: BytesBehind { warning: 256 << 20, critical: 2 << 30 },
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8788)) }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info".to_owned() }
    }
}
