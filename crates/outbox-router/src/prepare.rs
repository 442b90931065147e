//! Builds the parts that `run` starts with from the configuration. `check` builds the same parts by
//! the same functions, so it refuses what `run` refuses. The other commands take single parts from
//! here.
//!
//! Building reads only values. The files and addresses of this machine that `run` needs are tried
//! separately, by `check` only: `run` reads TLS files at every connection and waits for a missing
//! file (a certificate may be mounted after the router starts), and `run` itself listens on the
//! admin address.

use std::{io, net::SocketAddr, os::unix};

use relay::{
    OnFailed, OutboxTable, Outboxes, Timestamp,
    polling::{LeaseLength, PollerSettings},
    witness::WitnessKey,
};
use socket2::{Domain, Socket, Type};
use uuid::Uuid;

use crate::{
    config::{
        Config, ConfigCode, ConfigError, ConfigErrors, Environment, HIDDEN, Loaded, Places,
        RetentionMode, Secret, SourceKind, is_secret_property,
    },
    held::Pipeline,
    kafka::{self, KafkaSettings, SettingRefused, TopicCreation},
    polling::{
        retention::SweepSettings,
        sql::{RemovalRules, RowScope, Scan, SqlSettings, StreamNames},
    },
    postgres::{ConnInfo, Host, try_tls},
    shell::{Endpoint, Source},
    wording::chain,
};

/// The key that an error names when librdkafka names no property.
const KAFKA: &str = "kafka.properties";

/// The parts that are built from the configuration before anything is started. Building can fail on
/// any of them, and connects to nothing.
pub struct Prepared {
    /// The configuration.
    pub config: Config,
    /// How to connect to PostgreSQL: `postgres.url` and the environment variables of libpq.
    pub conninfo: ConnInfo,
    /// How to connect for retention: `retention.url`, else the same.
    pub retention: ConnInfo,
    /// How to connect to Kafka, and how to produce.
    pub kafka: KafkaSettings,
}

impl Prepared {
    /// Builds the parts. This checks what reading the configuration could not check.
    ///
    /// # Errors
    /// Every wrong value: a property that the router or librdkafka refuses, or `postgres.url`.
    pub fn build(loaded: Loaded, environment: &Environment) -> Result<Self, ConfigErrors> {
        let kafka = producer_settings(&loaded.config);
        let mut errors = refused_properties(&kafka, &loaded.places);
        let own = conninfo(&loaded, environment);
        let retention = retention_conninfo(&loaded, environment).transpose();
        match (own, retention) {
            (Ok(conninfo), Ok(retention)) if errors.is_empty() => {
                let retention = retention.unwrap_or_else(|| conninfo.clone());
                Ok(Self { config: loaded.config, conninfo, retention, kafka })
            }
            (own, retention) => {
                errors.extend(own.err().into_iter().chain(retention.err()));
                Err(ConfigErrors(errors))
            }
        }
    }
}

/// How tables are polled, by this worker: all pending rows.
pub fn polled_sql(config: &Config, worker: Uuid) -> SqlSettings {
    SqlSettings {
        worker,
        name: config.name.clone(),
        lease: config.polling.lease,
        hold_keys: config.dead_letters.hold_key,
        row_bytes: size(config.limits.row_bytes),
        keep_bytes: size(config.limits.window_bytes),
        on_error: config.on_error,
        scope: RowScope::All,
        stream: StreamNames {
            slot: config.postgres.slot.as_str().to_owned(),
            publication: config.postgres.publication.as_str().to_owned(),
        },
    }
}

/// What a sweep over polled tables is told; `None` where retention is off.
pub fn polled_sweep(config: &Config, scan: Scan) -> Option<SweepSettings> {
    let section = &config.retention;
    if section.mode == RetentionMode::Off {
        return None;
    }
    Some(SweepSettings {
        tables: config.polled_tables(),
        // It takes no row.
        sql: polled_sql(config, Uuid::nil()),
        rules: RemovalRules {
            keep: section.keep,
            time_column: section.time_column.clone(),
            batch: section.batch,
            lock_timeout: section.lock_timeout,
            scan,
        },
        pause: section.pause,
        interval: section.interval,
    })
}

/// Builds the same parts, and tries what `run` needs on this machine: TLS files, a Kafka client,
/// the admin address.
///
/// # Errors
/// Every value that is wrong, and every file or address that cannot be used.
pub fn check(loaded: &Loaded, environment: &Environment) -> Result<(), ConfigErrors> {
    let Loaded { config, places } = loaded;
    let unusable = |key: &str, why: String| {
        ConfigError::new(ConfigCode::Unusable, format!("{key}: {why}")).at(places.find(key))
    };
    let kafka = producer_settings(config);
    let mut errors = refused_properties(&kafka, places);
    if errors.is_empty()
        && let Err(why) = kafka::try_open(&kafka, config.kafka.state_topic.as_ref())
    {
        let why = format!("librdkafka refuses it: {}", without_secrets(&kafka, &why));
        errors.push(unusable(&property_in(&kafka, &why), why));
    }
    let own = Some(("postgres.url", conninfo(loaded, environment)));
    let retention = retention_conninfo(loaded, environment).map(|it| ("retention.url", it));
    for (key, conninfo) in own.into_iter().chain(retention) {
        match conninfo {
            Ok(conninfo) => {
                let outcome = try_postgres(&conninfo);
                errors.extend(outcome.err().map(|why| unusable(key, why)));
            }
            Err(error) => errors.push(error),
        }
    }
    let address = config.admin.listen;
    if let Err(why) = try_listen(address) {
        errors.push(unusable("admin.listen", format!("cannot listen on {address}: {why}")));
    }
    if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
}

fn conninfo(loaded: &Loaded, environment: &Environment) -> Result<ConnInfo, ConfigError> {
    resolve("postgres.url", loaded.config.postgres.url.as_ref(), &loaded.places, environment)
}

/// `None` where retention has no connection string of its own.
fn retention_conninfo(
    loaded: &Loaded,
    environment: &Environment,
) -> Option<Result<ConnInfo, ConfigError>> {
    let url = loaded.config.retention.url.as_ref()?;
    let resolved = resolve("retention.url", Some(url), &loaded.places, environment);
    // A wrong postgres.url is reported by itself.
    let Ok(own) = conninfo(loaded, environment) else { return Some(resolved) };
    Some(resolved.and_then(|it| {
        if it.dbname == own.dbname {
            return Ok(it);
        }
        let message = format!(
            "retention.url: it names the database {}, and postgres.url names {}, whose rows are to \
             be removed",
            it.dbname, own.dbname
        );
        Err(ConfigError::new(ConfigCode::Value, message).at(loaded.places.find("retention.url")))
    }))
}

fn resolve(
    key: &str,
    url: Option<&Secret<String>>,
    places: &Places,
    environment: &Environment,
) -> Result<ConnInfo, ConfigError> {
    let url = url.map(|url| url.expose().as_str());
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    ConnInfo::resolve(url, &variable).map_err(|error| {
        let message = format!("{key}: {error}");
        ConfigError::new(ConfigCode::Value, message).at(places.find(key))
    })
}

/// Every property that the router or librdkafka refuses. Each check names only the first, so a
/// refused property is left out before the next check.
fn refused_properties(settings: &KafkaSettings, places: &Places) -> Vec<ConfigError> {
    let mut settings = settings.clone();
    let mut errors = Vec::new();
    while let Err(SettingRefused { key, why }) = settings.check() {
        let was_set = settings.leave_out(&key);
        let is_servers = !was_set && key == "bootstrap.servers";
        let key = match key.as_str() {
            _ if is_servers => "kafka.bootstrap_servers".to_owned(),
            KAFKA if !was_set => KAFKA.to_owned(),
            key => format!("kafka.properties.{key}"),
        };
        let message = format!("{key} is refused: {why}");
        errors.push(ConfigError::new(ConfigCode::Property, message).at(places.find(&key)));
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
        Host::Tcp(_) => try_tls(conninfo).map_err(|error| chain(&error)),
    }
}

/// Hides the values of secret properties, because librdkafka's messages may quote them.
fn without_secrets(settings: &KafkaSettings, text: &str) -> String {
    let secret = |(name, value): &(&String, &String)| is_secret_property(name) && !value.is_empty();
    let secrets = settings.properties.iter().filter(secret);
    secrets.fold(text.to_owned(), |text, (_, value)| text.replace(value.as_str(), HIDDEN))
}

/// The key of the property that librdkafka's message names: the longest configured name in the
/// text, or `kafka.properties` when there is none.
fn property_in(settings: &KafkaSettings, text: &str) -> String {
    let named = settings.properties.keys().filter(|name| text.contains(name.as_str()));
    let longest = named.max_by_key(|name| name.len());
    longest.map_or_else(|| KAFKA.to_owned(), |name| format!("kafka.properties.{name}"))
}

/// Binds the address and releases it without listening, so that nobody can connect and a router
/// that starts meanwhile is not disturbed. An address in use is accepted, because it may be the
/// running router's.
fn try_listen(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    match socket.bind(&address.into()) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What to read from PostgreSQL, and how to connect.
pub fn source(config: &Config, endpoint: Endpoint) -> Source {
    Source {
        endpoint,
        pipeline: pipeline(config),
        slot: config.postgres.slot.as_str().to_owned(),
        publication: config.postgres.publication.as_str().to_owned(),
        outboxes: config.outboxes(),
        row_bytes: size(config.limits.row_bytes),
    }
}

/// Whose events the table of held events has.
pub fn pipeline(config: &Config) -> Pipeline {
    Pipeline { name: config.name.clone(), slot: config.postgres.slot.as_str().to_owned() }
}

/// The key under which this configuration's witness is kept.
pub fn witness_key(config: &Config, database: &str) -> WitnessKey {
    WitnessKey {
        name: config.name.clone(),
        database: database.to_owned(),
        slot: config.postgres.slot.as_str().to_owned(),
    }
}

/// The settings from which librdkafka's configuration is made.
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
        create_topics: kafka.create_topics.map(|create| TopicCreation {
            partitions: create.partitions,
            replication_factor: i32::from(create.replication_factor),
        }),
        timestamp: timestamp(&config.outboxes()),
        window_bytes: size(config.limits.window_bytes),
        row_bytes: size(config.limits.row_bytes),
        // Only `run` has somebody who reads them.
        statistics: None,
        give_up_after: None,
    }
}

/// The settings of the producer by which `run` delivers.
pub(crate) fn producer_settings(config: &Config) -> KafkaSettings {
    let give_up_after = match config.postgres.source {
        SourceKind::Stream => None,
        // What a worker has produced is sent before its lease ends, or never.
        SourceKind::Polling => Some(lease_length(config).message_timeout()),
    };
    KafkaSettings { give_up_after, ..kafka_settings(config) }
}

/// How long a worker's lease lasts.
pub(crate) const fn lease_length(config: &Config) -> LeaseLength {
    LeaseLength::new(config.polling.lease)
}

/// The core of the polling source.
pub(crate) fn poller_settings(config: &Config, on_failed: OnFailed) -> PollerSettings {
    PollerSettings {
        outboxes: config.outboxes(),
        batch: config.polling.batch,
        interval: config.polling.interval,
        lease: lease_length(config),
        retry: config.retry,
        on_error: config.on_error,
        hold_keys: config.dead_letters.hold_key,
        keys_max: usize::try_from(config.dead_letters.max_keys).unwrap_or(usize::MAX),
        row_bytes: size(config.limits.row_bytes),
        shutdown_limit: config.limits.shutdown,
        on_failed,
        seed: u64::from(std::process::id()),
    }
}

/// `Now` only when every configured table says so. Without a configured table, every outbox has the
/// default, `Commit`.
fn timestamp(outboxes: &Outboxes) -> Timestamp {
    let now = |table: &OutboxTable| table.timestamp == Timestamp::Now;
    if !outboxes.tables.is_empty() && outboxes.tables.iter().all(now) {
        Timestamp::Now
    } else {
        Timestamp::Commit
    }
}

/// Bytes as a `usize`. A 32-bit machine saturates: no limit there can exceed the memory.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
