//! Makes producers. That blocks (threads, certificate files), so it belongs on a blocking thread of
//! the runtime whose I/O will wake the sink.

use std::sync::Arc;

use rdkafka::{config::ClientConfig, error::KafkaError};
use relay::{Case, Code, Failure, TopicName};

use super::{
    distance::{Distance, IN_FLIGHT, IN_FLIGHT_NEAR},
    errors::Cluster,
    ffi::{Producer, Reader},
    settings::KafkaSettings,
    sink::KafkaSink,
};

/// Makes a producer.
///
/// How far the brokers are is measured first, unless the settings say how many requests may be in
/// flight. The producer connects in the background: [`KafkaSink::health`], and not this function,
/// reports that no broker can be reached.
///
/// # Panics
/// Outside a tokio runtime that does I/O.
///
/// # Errors
/// librdkafka refuses the settings as a whole, a certificate cannot be read, or the machine is out
/// of threads. The code is [`Code::ProducerFatal`]; with TLS or SASL it is
/// [`Code::KafkaAuthentication`], unless a property is refused.
pub fn open(settings: &KafkaSettings) -> Result<KafkaSink, Failure> {
    let cluster = Cluster::new(&settings.bootstrap_servers);
    let mut config = settings
        .client_config()
        .map_err(|refused| Failure::of(Case::ProducerSettings, refused.to_string()))?;
    if !settings.sets(IN_FLIGHT) && Distance::of(&settings.bootstrap_servers) == Distance::Near {
        tracing::debug!("the brokers are near: requests in flight: {IN_FLIGHT_NEAR}");
        config.set(IN_FLIGHT, IN_FLIGHT_NEAR);
    }
    let failed =
        |reason: &str| failed_start(settings, format!("the producer cannot start: {reason}"));
    let producer = Producer::open(&config).map_err(|error| failed(&reason(&error)))?;
    KafkaSink::new(producer, cluster, settings).map_err(|error| failed(&error.to_string()))
}

/// Makes the clients that `run` makes, a producer and a reader of the state topic, but without
/// brokers, so that they do not connect. Only when a client is made does librdkafka check its
/// properties as a whole, and the files that they name.
///
/// # Errors
/// The reason that librdkafka gives.
pub fn try_open(settings: &KafkaSettings, state_topic: Option<&TopicName>) -> Result<(), String> {
    let config = settings.client_config().map_err(|refused| refused.to_string())?;
    Producer::open(&without_brokers(config)).map_err(|error| reason(&error))?;
    if let Some(topic) = state_topic {
        let config = settings.reader_config().map_err(|refused| refused.to_string())?;
        let mut reader = Reader::open(&without_brokers(config)).map_err(|error| reason(&error))?;
        reader.add(topic).map_err(|error| reason(&error))?;
    }
    Ok(())
}

fn without_brokers(mut config: ClientConfig) -> ClientConfig {
    config.remove("bootstrap.servers");
    // With GSSAPI a client would request a Kerberos ticket at once.
    if cfg!(feature = "gssapi") {
        config.set("sasl.kerberos.min.time.before.relogin", "0");
    }
    config
}

/// A client for a command, which has no sink.
///
/// # Errors
/// The producer cannot start.
pub(super) fn command_client(
    settings: &KafkaSettings,
) -> Result<(Arc<Producer>, Cluster), Failure> {
    let failed = |reason: String| {
        let what = format!("the producer cannot start: {reason}");
        Failure::of(Case::ProducerSettings, what)
    };
    let config = settings.client_config().map_err(|refused| failed(refused.to_string()))?;
    let producer = Producer::open(&config).map_err(|error| failed(reason(&error)))?;
    Ok((producer, Cluster::new(&settings.bootstrap_servers)))
}

fn reason(error: &KafkaError) -> String {
    if let KafkaError::ClientCreation(reason) = error { reason.clone() } else { error.to_string() }
}

/// With TLS or SASL nearly every failed start is due to a certificate, a key or a mechanism, which
/// a person has to correct.
fn failed_start(settings: &KafkaSettings, what: String) -> Failure {
    if settings.is_plaintext() {
        Failure::of(Case::ProducerSettings, what)
    } else {
        Failure::new(Code::KafkaAuthentication, what)
    }
}
