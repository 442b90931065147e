//! From the configuration to the parts that `run` starts with. `check` builds the same parts by the
//! same functions, so it refuses what `run` refuses; the other commands take single parts from
//! here.
//!
//! Building looks at values alone. What files and addresses of this machine `run` needs is tried
//! apart, by `check` only: `run` reads TLS files at every connection, and waits for one that is
//! missing (a certificate may be mounted after the router starts), and it listens by itself.

use std::{io, net::SocketAddr, os::unix};

use relay::{OutboxTable, Outboxes, Timestamp, witness::Pipeline};
use socket2::{Domain, Socket, Type};

use crate::{
    config::{
        Code, Config, ConfigError, ConfigErrors, Environment, HIDDEN, Loaded, Places,
        is_secret_property,
    },
    kafka::{self, CreateTopics, KafkaSettings, SettingRefused},
    postgres::{ConnInfo, Host, try_tls},
    shell::{Endpoint, Source},
};

/// Where a client's failure is told when it names no property.
const KAFKA: &str = "kafka.properties";

/// What is built from the configuration before anything is started: all of it can be wrong, none of
/// it connects.
pub struct Prepared {
    /// The configuration.
    pub config: Config,
    /// How PostgreSQL is reached.
    pub conninfo: ConnInfo,
    /// How Kafka is reached.
    pub kafka: KafkaSettings,
}

impl Prepared {
    /// Builds the parts, which check what the configuration's reader cannot.
    ///
    /// # Errors
    /// Every value that is wrong.
    pub fn build(loaded: Loaded, environment: &Environment) -> Result<Self, ConfigErrors> {
        let kafka = kafka_settings(&loaded.config);
        let mut errors = refused_properties(&kafka, &loaded.places);
        match conninfo(&loaded, environment) {
            Ok(conninfo) if errors.is_empty() => {
                Ok(Self { config: loaded.config, conninfo, kafka })
            }
            conninfo => {
                errors.extend(conninfo.err());
                Err(ConfigErrors(errors))
            }
        }
    }
}

/// Builds the same parts, and tries what `run` needs of this machine: TLS files, a Kafka client,
/// the admin address.
///
/// # Errors
/// Everything that is wrong or cannot be used.
pub fn check(loaded: &Loaded, environment: &Environment) -> Result<(), ConfigErrors> {
    let Loaded { config, places } = loaded;
    let unusable = |key: &str, why: String| {
        ConfigError::new(Code::Unusable, format!("{key}: {why}")).at(places.find(key))
    };
    let kafka = kafka_settings(config);
    let mut errors = refused_properties(&kafka, places);
    if errors.is_empty()
        && let Err(why) = kafka::try_open(&kafka, config.kafka.state_topic.as_ref())
    {
        let why = format!("librdkafka refuses it: {}", without_secrets(&kafka, &why));
        errors.push(unusable(&property_in(&kafka, &why), why));
    }
    match conninfo(loaded, environment) {
        Ok(conninfo) => {
            let outcome = try_postgres(&conninfo);
            errors.extend(outcome.err().map(|why| unusable("postgres.url", why)));
        }
        Err(error) => errors.push(error),
    }
    let address = config.admin.listen;
    if let Err(why) = try_listen(address) {
        errors.push(unusable("admin.listen", format!("cannot listen on {address}: {why}")));
    }
    if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
}

fn conninfo(loaded: &Loaded, environment: &Environment) -> Result<ConnInfo, ConfigError> {
    let url = loaded.config.postgres.url.as_ref().map(|url| url.expose().as_str());
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    ConnInfo::resolve(url, &variable).map_err(|error| {
        let message = format!("postgres.url: {error}");
        ConfigError::new(Code::Value, message).at(loaded.places.find("postgres.url"))
    })
}

/// Every property that is refused, by us or by librdkafka: each is taken out to see the next.
fn refused_properties(settings: &KafkaSettings, places: &Places) -> Vec<ConfigError> {
    let mut settings = settings.clone();
    let mut errors = Vec::new();
    while let Err(SettingRefused { key, why }) = settings.check() {
        let was_set = settings.properties.remove(&key).is_some();
        let is_servers = !was_set && key == "bootstrap.servers";
        let key = match key.as_str() {
            _ if is_servers => "kafka.bootstrap_servers".to_owned(),
            KAFKA if !was_set => KAFKA.to_owned(),
            key => format!("kafka.properties.{key}"),
        };
        let message = format!("{key} is refused: {why}");
        errors.push(ConfigError::new(Code::Property, message).at(places.find(&key)));
        if is_servers {
            settings.bootstrap_servers.clear();
        } else if !was_set {
            break;
        }
    }
    errors
}

fn try_postgres(conninfo: &ConnInfo) -> Result<(), String> {
    match &conninfo.host {
        Host::Unix(_) => unix::net::SocketAddr::from_pathname(conninfo.target())
            .map(drop)
            .map_err(|error| format!("{}: {error}", conninfo.target())),
        Host::Tcp(_) => try_tls(conninfo).map_err(|error| with_causes(&error)),
    }
}

/// librdkafka may quote a value.
fn without_secrets(settings: &KafkaSettings, text: &str) -> String {
    let secret = |(name, value): &(&String, &String)| is_secret_property(name) && !value.is_empty();
    let secrets = settings.properties.iter().filter(secret);
    secrets.fold(text.to_owned(), |text, (_, value)| text.replace(value.as_str(), HIDDEN))
}

/// The key of the property that librdkafka speaks of, as far as that can be seen.
fn property_in(settings: &KafkaSettings, text: &str) -> String {
    let named = settings.properties.keys().filter(|name| text.contains(name.as_str()));
    let longest = named.max_by_key(|name| name.len());
    longest.map_or_else(|| KAFKA.to_owned(), |name| format!("kafka.properties.{name}"))
}

/// The address is bound and given back without listening, so that nobody can connect and a router
/// that starts meanwhile is not disturbed. One that is in use may be the running router's.
fn try_listen(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    match socket.bind(&address.into()) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The error and what brought it about, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// What is read of PostgreSQL, and how it is reached.
pub fn source(config: &Config, endpoint: Endpoint) -> Source {
    Source {
        endpoint,
        slot: config.postgres.slot.as_str().to_owned(),
        publication: config.postgres.publication.as_str().to_owned(),
        outboxes: config.outboxes(),
        row_bytes: size(config.limits.row_bytes),
    }
}

/// Under which name this configuration's witness is kept.
pub fn pipeline(config: &Config, database: &str) -> Pipeline {
    Pipeline {
        name: config.name.clone(),
        database: database.to_owned(),
        slot: config.postgres.slot.as_str().to_owned(),
    }
}

/// What librdkafka is told.
pub fn kafka_settings(config: &Config) -> KafkaSettings {
    let kafka = &config.kafka;
    KafkaSettings {
        client_id: config.name.clone(),
        bootstrap_servers: kafka.bootstrap_servers.clone(),
        properties: kafka
            .properties
            .iter()
            .map(|(name, value)| (name.to_owned(), value.expose().clone()))
            .collect(),
        create_topics: kafka.create_topics.map(|create| CreateTopics {
            partitions: create.partitions,
            replication_factor: i32::from(create.replication_factor),
        }),
        timestamp: timestamp(&config.outboxes()),
        window_bytes: size(config.limits.window_bytes),
        row_bytes: size(config.limits.row_bytes),
    }
}

/// Without a table in the configuration every outbox has the defaults.
fn timestamp(outboxes: &Outboxes) -> Timestamp {
    let now = |table: &OutboxTable| table.timestamp == Timestamp::Now;
    if !outboxes.tables.is_empty() && outboxes.tables.iter().all(now) {
        Timestamp::Now
    } else {
        Timestamp::Commit
    }
}

/// Bytes as a length; on a machine of 32 bits no limit is larger than its memory.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
