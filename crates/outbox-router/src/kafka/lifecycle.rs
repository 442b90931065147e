//! Making a producer. It blocks (threads, files of certificates), so it belongs on a blocking thread of the runtime
//! whose I/O will wake the sink.

use rdkafka::error::KafkaError;
use relay::{Code, Failure};

use super::{errors::Cluster, ffi::Producer, settings::KafkaSettings, sink::KafkaSink};

/// Makes a producer.
///
/// It connects in the background: that no broker can be reached is told by [`KafkaSink::health`], not here.
///
/// # Panics
/// Outside a tokio runtime that does I/O.
///
/// # Errors
/// When librdkafka refuses the settings as a whole, a certificate cannot be read, or the machine is out of threads.
pub fn open(settings: &KafkaSettings) -> Result<KafkaSink, Failure> {
    let cluster = Cluster::new(&settings.bootstrap_servers);
    let config = settings
        .client_config()
        .map_err(|refused| Failure::new(Code::ProducerFatal, refused.to_string()))?;
    let failed = |reason: &str| {
        Failure::new(code_of_failed_start(settings), format!("the producer cannot start: {reason}"))
            .hint("check [kafka.properties], then outbox-router check")
    };
    let producer = Producer::open(&config).map_err(|error| {
        if let KafkaError::ClientCreation(reason) = &error {
            failed(reason)
        } else {
            failed(&error.to_string())
        }
    })?;
    KafkaSink::new(producer, cluster, settings.batch_bytes())
        .map_err(|error| failed(&error.to_string()))
}

/// With TLS or SASL nearly every failed start is a certificate, a key or a mechanism: a person's work.
fn code_of_failed_start(settings: &KafkaSettings) -> Code {
    if settings.is_plaintext() { Code::ProducerFatal } else { Code::KafkaAuthentication }
}
