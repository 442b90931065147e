//! Makes librdkafka's configuration from the router's: properties that are pinned because a
//! guarantee depends on them, defaults that a user may change, and sizes that follow from the
//! router's limits.

mod reader;

use std::{collections::BTreeMap, fmt, time::Duration};

use rdkafka::{
    ClientConfig,
    config::RDKafkaLogLevel,
    error::{KafkaError, KafkaResult},
};

use relay::Timestamp;

use super::{
    distance::IN_FLIGHT,
    overrides::{self, SettingRefused},
    statistics::StatisticsFeed,
};

/// The configuration of everything that connects to Kafka.
#[derive(Clone)]
pub struct KafkaSettings {
    /// The router's name, which brokers use in logs and quotas.
    pub client_id: String,
    /// Comma-separated `host:port`.
    pub bootstrap_servers: String,
    /// librdkafka properties that the user has set. May hold secrets.
    pub properties: BTreeMap<String, String>,
    /// How to create missing topics; `None` never creates a topic for events.
    pub create_topics: Option<TopicCreation>,
    /// Which time records carry. `Commit` if at least one outbox says so.
    pub timestamp: Timestamp,
    /// `limits.window_bytes`: how much may be unacknowledged.
    pub window_bytes: usize,
    /// `limits.row_bytes`: the largest row.
    pub row_bytes: usize,
    /// `kafka.statistics`; `None` where it is off, and of every client but the router's own.
    pub statistics: Option<StatisticsFeed>,
    /// After which time a record is given up that no broker has taken; `None`: never. With the
    /// stream it is never: a record that is given up would have to be read again. A worker that
    /// polls must not produce when its lease has ended.
    pub give_up_after: Option<Duration>,
}

/// How a topic is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicCreation {
    /// Partitions of a new topic.
    pub partitions: i32,
    /// Replicas of each partition.
    pub replication_factor: i32,
}

/// These cannot be changed: a guarantee of the router depends on each but the last, which
/// `kafka.statistics` sets. [`KafkaSettings::give_up_after`] replaces `message.timeout.ms`.
const REQUIRED: &[(&str, &str)] = &[
    ("acks", "all"),
    ("allow.auto.create.topics", "false"),
    ("delivery.report.only.error", "false"),
    ("enable.gapless.guarantee", "true"),
    ("enable.idempotence", "true"),
    // A consumer's property that `rd_kafka_query_watermark_offsets` obeys in a producer, too: the
    // end of the state topic must not stay before an open transaction of another client.
    ("isolation.level", "read_uncommitted"),
    ("message.timeout.ms", "0"),
    ("retries", "2147483647"),
    ("statistics.interval.ms", "0"),
];

/// Defaults that suit this use better than librdkafka's. A user may change them.
const DEFAULTS: &[(&str, &str)] = &[
    // librdkafka's timers round any linger up to a millisecond. Batches form without it: the task
    // produces at once everything that one coalesced read of WAL brought, and more gathers behind
    // requests in flight.
    ("linger.ms", "0"),
    // Close to the broker two are better (`distance.rs`); at a distance of three milliseconds, two
    // are four times as late as five.
    (IN_FLIGHT, "5"),
    ("reconnect.backoff.ms", "50"),
    ("reconnect.backoff.max.ms", "2000"),
    ("retry.backoff.ms", "50"),
    ("retry.backoff.max.ms", "1000"),
    // A broker that disappeared without closing its connections is given up after these instead of
    // after one minute.
    ("request.timeout.ms", "15000"),
    ("socket.connection.setup.timeout.ms", "10000"),
    ("socket.timeout.ms", "30000"),
    ("socket.keepalive.enable", "true"),
    ("socket.nagle.disable", "true"),
    // A topic that is missing in the metadata for a while (a controller restarts) does not fail the
    // records that are queued for it.
    ("topic.metadata.propagation.max.ms", "60000"),
    ("topic.metadata.refresh.interval.ms", "30000"),
];

/// librdkafka's default of `batch.size`. Every broker accepts it unless configured for less.
const BATCH_BYTES: usize = 1_000_000;

/// What a record on the wire takes beside its row: the framing of request and batch, varints, and
/// header names from the configuration.
const RECORD_OVERHEAD: usize = 64 * 1024;

/// librdkafka's bounds for `message.max.bytes`.
const MESSAGE_BYTES_MIN: usize = 1_000_000;
const MESSAGE_BYTES_MAX: usize = 1_000_000_000;

/// The least that one record holds of the window: [`relay::Record::held_bytes`] of an empty record.
const HELD_BYTES_MIN: usize = 256;

impl KafkaSettings {
    /// Checks everything that can be checked without a broker.
    ///
    /// # Errors
    /// The first property that the router or librdkafka refuses.
    pub fn check(&self) -> Result<(), SettingRefused> {
        self.client_config().map(drop)
    }

    /// Whether `security.protocol` is plaintext: neither TLS nor SASL.
    pub(super) fn is_plaintext(&self) -> bool {
        self.properties
            .get("security.protocol")
            .is_none_or(|protocol| protocol.trim().eq_ignore_ascii_case("plaintext"))
    }

    /// Whether batches are compressed, for all topics or for some.
    pub fn compresses(&self) -> bool {
        ["compression.type", "compression.codec"]
            .into_iter()
            .filter_map(|name| self.properties.get(name))
            .any(|codec| codec != "none")
    }

    /// Leaves a refused property out, and what follows from it; `false` where it was not set.
    pub fn leave_out(&mut self, key: &str) -> bool {
        overrides::leave_out(&mut self.properties, key)
    }

    /// The largest batch that these settings allow, apart from a topic's own limit.
    pub fn batch_bytes(&self) -> usize {
        let given = self.properties.get("batch.size");
        given.and_then(|size| size.trim().parse().ok()).unwrap_or(BATCH_BYTES)
    }

    /// librdkafka's configuration for the producer.
    pub(super) fn client_config(&self) -> Result<ClientConfig, SettingRefused> {
        checked(self.librdkafka_properties()?).map_err(|refused| {
            let key = overrides::as_spelled(&self.properties, &refused.key).unwrap_or(refused.key);
            SettingRefused { key, why: refused.why }
        })
    }

    /// Whether the user has set this property, by whatever name.
    pub(super) fn sets(&self, property: &str) -> bool {
        self.properties.contains_key(property)
            || overrides::as_spelled(&self.properties, property).is_some()
    }

    fn librdkafka_properties(&self) -> Result<BTreeMap<String, String>, SettingRefused> {
        let mut properties: BTreeMap<String, String> =
            DEFAULTS.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        properties.extend(overrides::accept(&self.properties, &self.bootstrap_servers)?);
        self.size(&mut properties)?;
        properties.extend(REQUIRED.iter().map(|(key, value)| ((*key).into(), (*value).into())));
        properties.insert("bootstrap.servers".into(), self.bootstrap_servers.clone());
        properties.insert("client.id".into(), self.client_id.clone());
        if let Some(statistics) = &self.statistics {
            properties.insert("statistics.interval.ms".into(), statistics.interval_ms());
        }
        if let Some(time) = self.give_up_after {
            // Zero would be never.
            let millis = bounded(usize::try_from(time.as_millis()).unwrap_or(usize::MAX));
            properties.insert("message.timeout.ms".into(), millis.to_string());
        }
        Ok(properties)
    }

    /// Sets what follows from the limits. The queue has room for all that the window admits and one
    /// more record, so that the window, and not the queue, limits the router.
    fn size(&self, properties: &mut BTreeMap<String, String>) -> Result<(), SettingRefused> {
        let queue_bytes = self.window_bytes.saturating_add(self.row_bytes);
        let mut set = |key: &str, value: usize| properties.insert(key.into(), value.to_string());
        set("queue.buffering.max.kbytes", bounded(queue_bytes.div_ceil(1024)));
        set("queue.buffering.max.messages", bounded(queue_bytes / HELD_BYTES_MIN + 1));

        let needed = self
            .row_bytes
            .saturating_add(RECORD_OVERHEAD)
            .clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX);
        let given = number(properties, "message.max.bytes")?;
        if given.is_some_and(|given| given < needed) {
            let why = format!("a row of limits.row_bytes needs {needed}");
            return Err(SettingRefused { key: "message.max.bytes".into(), why });
        }
        properties.insert("message.max.bytes".into(), given.unwrap_or(needed).to_string());

        let batch = number(properties, "batch.size")?.unwrap_or(BATCH_BYTES);
        properties.insert("batch.size".into(), batch.to_string());
        Ok(())
    }
}

/// The configuration with these properties, if librdkafka accepts them.
fn checked(properties: BTreeMap<String, String>) -> Result<ClientConfig, SettingRefused> {
    let mut config: ClientConfig = properties.into_iter().collect();
    config.set_log_level(match config.get("debug") {
        Some(_) => RDKafkaLogLevel::Debug,
        None => RDKafkaLogLevel::Info,
    });
    accepted_by_librdkafka(config.create_native_config())?;
    Ok(config)
}

/// Limits a value to librdkafka's largest integer.
fn bounded(value: usize) -> usize {
    value.clamp(1, 2_147_483_647)
}

fn number(
    properties: &BTreeMap<String, String>,
    key: &str,
) -> Result<Option<usize>, SettingRefused> {
    let Some(value) = properties.get(key) else { return Ok(None) };
    value
        .trim()
        .parse()
        .map(Some)
        .map_err(|_| SettingRefused { key: key.into(), why: "it is not a number of bytes".into() })
}

/// Turns librdkafka's error about an unknown name or a value out of range into a refusal, in
/// librdkafka's words.
fn accepted_by_librdkafka<T>(outcome: KafkaResult<T>) -> Result<(), SettingRefused> {
    match outcome {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(_, why, key, _value)) => Err(SettingRefused { key, why }),
        Err(error) => {
            Err(SettingRefused { key: "kafka.properties".into(), why: error.to_string() })
        }
    }
}

impl fmt::Debug for KafkaSettings {
    /// Without the values of properties, some of which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSettings")
            .field("client_id", &self.client_id)
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("create_topics", &self.create_topics)
            .field("timestamp", &self.timestamp)
            .field("window_bytes", &self.window_bytes)
            .field("row_bytes", &self.row_bytes)
            .field("statistics", &self.statistics.is_some())
            .field("give_up_after", &self.give_up_after)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::{Headers, Record, RowHeaders, TopicId};

    pub(super) fn settings(properties: &[(&str, &str)]) -> KafkaSettings {
        KafkaSettings {
            client_id: "outbox-router".into(),
            bootstrap_servers: "127.0.0.1:9092".into(),
            properties: properties.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            create_topics: None,
            timestamp: Timestamp::Commit,
            window_bytes: 32 << 20,
            row_bytes: 16 << 20,
            statistics: None,
            give_up_after: None,
        }
    }

    #[test]
    fn every_pin_and_default_is_in_force_in_librdkafka() {
        let native = settings(&[]).client_config().unwrap().create_native_config().unwrap();
        let in_force = |key: &str| native.get(key).unwrap();
        for (key, value) in REQUIRED.iter().chain(DEFAULTS) {
            let expected = match (*key, *value) {
                ("acks", _) => "-1",
                (_, value) => value,
            };
            assert_eq!(in_force(key), expected, "{key}");
        }
        assert_eq!(in_force("client.id"), "outbox-router");
        assert_eq!(in_force("metadata.broker.list"), "127.0.0.1:9092");
    }

    #[test]
    fn a_property_is_set_by_any_of_its_names() {
        let name = "max.in.flight.requests.per.connection";
        assert!(!settings(&[("linger.ms", "5")]).sets(name));
        assert!(settings(&[(name, "3")]).sets(name));
        assert!(settings(&[("max.in.flight", "3")]).sets(name));
    }

    /// The clients that read have an end of their own: nobody would take their statistics.
    #[test]
    fn statistics_are_those_of_the_producer_and_only_on_request() {
        let (feed, _read) = StatisticsFeed::every(Duration::from_secs(10));
        let on = KafkaSettings { statistics: Some(feed), ..settings(&[]) };
        let interval = |config: ClientConfig| {
            config.create_native_config().unwrap().get("statistics.interval.ms").unwrap()
        };
        assert_eq!(interval(on.client_config().unwrap()), "10000");
        assert_eq!(interval(on.reader_config().unwrap()), "0");
        assert_eq!(interval(settings(&[]).client_config().unwrap()), "0");
    }

    #[test]
    fn a_record_is_given_up_only_where_a_time_is_set() {
        let in_force = |give_up_after| {
            let settings = KafkaSettings { give_up_after, ..settings(&[]) };
            let native = settings.client_config().unwrap().create_native_config().unwrap();
            native.get("message.timeout.ms").unwrap()
        };
        assert_eq!(in_force(None), "0", "zero is never");
        assert_eq!(in_force(Some(Duration::from_secs(5))), "5000");
        assert_eq!(in_force(Some(Duration::from_micros(10))), "1", "not never");
        assert_eq!(in_force(Some(Duration::MAX)), "2147483647", "librdkafka's largest");
        let user = KafkaSettings {
            give_up_after: Some(Duration::from_secs(5)),
            ..settings(&[("message.timeout.ms", "60000")])
        };
        let refused = user.client_config().unwrap_err();
        assert_eq!(refused.key, "message.timeout.ms", "it is not the user's to set");
    }

    #[test]
    fn another_value_of_a_required_property_is_refused() {
        for (key, _) in REQUIRED {
            let refused = settings(&[(key, "no-such-value")]).client_config().unwrap_err();
            assert_eq!(refused.key, *key);
        }
    }

    #[test]
    fn the_queue_takes_the_window_and_one_row_more() {
        let config = settings(&[]).client_config().unwrap();
        assert_eq!(config.get("queue.buffering.max.kbytes"), Some("49152"));
        assert_eq!(config.get("queue.buffering.max.messages"), Some("196609"));
        assert_eq!(config.get("message.max.bytes"), Some("16842752"));
    }

    #[test]
    fn no_record_holds_less_of_the_window_than_the_queue_allows_for() {
        let none = RowHeaders::new();
        let record = Record {
            topic: TopicId::from_index(0).unwrap(),
            partition: 0,
            key: b"",
            value: None,
            headers: Headers::new(&[], &none),
            timestamp_ms: 1,
        };
        assert_eq!(record.held_bytes(), HELD_BYTES_MIN);
    }

    #[test]
    fn a_user_may_choose_the_size_of_batches() {
        for (given, expected) in [(&[][..], 1_000_000), (&[("batch.size", " 50000")][..], 50_000)] {
            let settings = settings(given);
            let config = settings.client_config().unwrap();
            assert_eq!(config.get("batch.size"), Some(&*expected.to_string()));
            assert_eq!(settings.batch_bytes(), expected);
        }
    }

    #[test]
    fn a_user_may_choose_what_is_not_pinned() {
        let config = settings(&[("compression.codec", "lz4"), ("queue.buffering.max.ms", "7")])
            .client_config()
            .unwrap();
        assert_eq!(config.get("compression.type"), Some("lz4"));
        assert_eq!(config.get("linger.ms"), Some("7"));
    }

    #[test]
    fn a_record_that_the_producer_would_not_take_is_refused_as_a_setting() {
        let refused = settings(&[("message.max.bytes", "1000000")]).check().unwrap_err();
        assert_eq!(refused.key, "message.max.bytes");
        settings(&[("message.max.bytes", "20000000")]).check().unwrap();
    }

    #[test]
    fn an_unknown_property_is_refused_with_librdkafkas_message() {
        let refused = settings(&[("lingre.ms", "5")]).check().unwrap_err();
        assert_eq!(refused.key, "lingre.ms");
        assert!(refused.why.contains("No such configuration property"), "{refused}");
    }

    #[test]
    fn a_refused_property_is_named_as_the_user_spelled_it() {
        let refused = settings(&[("compression.codec", "zip")]).check().unwrap_err();
        assert_eq!(refused.key, "compression.codec");
    }

    #[test]
    fn secrets_are_not_printed() {
        let printed = format!("{:?}", settings(&[("sasl.password", "hunter2")]));
        assert!(printed.contains("sasl.password") && !printed.contains("hunter2"), "{printed}");
    }
}
