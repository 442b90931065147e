//! The Java producer's properties, below `producer.override.` in Kafka Connect and
//! `debezium.sink.kafka.producer.` in Debezium Server.

use super::rule::{Outcome, Rule, by_value, carried, same, unsupported};

const BATCHES: &str = "the router forms its batches itself; kafka.properties can change them";
const FOR_EVER: &str = "the router tries until Kafka has acknowledged";
const JKS: &str = "librdkafka reads PEM files, not Java's key stores: export the certificates, and \
                   set ssl.ca.location, ssl.certificate.location and ssl.key.location in \
                   [kafka.properties]";

pub(in super::super) const PRODUCER: &[Rule] = &[
    carried("kafka.bootstrap_servers", &["bootstrap.servers"]),
    carried(
        "kafka.properties",
        &[
            "security.protocol",
            "sasl.mechanism",
            "sasl.jaas.config",
            "compression.type",
            "linger.ms",
        ],
    ),
    carried(
        "kafka.properties",
        &[
            "ssl.truststore.location",
            "ssl.truststore.type",
            "ssl.keystore.location",
            "ssl.keystore.type",
        ],
    ),
    unsupported(
        JKS,
        &[
            "ssl.truststore.certificates",
            "ssl.keystore.certificate.chain",
            "ssl.keystore.key",
            "ssl.keystore.password",
            "ssl.key.password",
        ],
    ),
    same("a PEM file with certificates needs no password", &["ssl.truststore.password"]),
    by_value(
        &["ssl.endpoint.identification.algorithm"],
        &["https"],
        Outcome::Same("the broker's name is always compared with its certificate"),
        Outcome::Unsupported("the broker would not be authenticated, which the router refuses"),
    ),
    same("the TLS library chooses", &["ssl.protocol", "ssl.enabled.protocols", "ssl.provider"]),
    unsupported(
        "of SASL the router is given PLAIN and SCRAM; set what librdkafka needs for others in \
         [kafka.properties]",
        &[
            "sasl.kerberos.*",
            "sasl.oauthbearer.*",
            "sasl.login.*",
            "sasl.client.callback.handler.class",
        ],
    ),
    by_value(
        &["acks"],
        &["all", "-1"],
        Outcome::Same("the router waits for all in-sync replicas"),
        Outcome::Different("the router always waits for all in-sync replicas"),
    ),
    by_value(
        &["enable.idempotence"],
        &["true"],
        Outcome::Same("the router's producer is idempotent"),
        Outcome::Different("the router's producer is always idempotent"),
    ),
    by_value(
        &["partitioner.class"],
        &[
            "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
            "org.apache.kafka.clients.producer.internals.BuiltInPartitioner",
        ],
        Outcome::Same("murmur2 of the key"),
        Outcome::Unsupported("the partition is murmur2 of the key, or columns.partition"),
    ),
    same(
        BATCHES,
        &[
            "batch.size",
            "max.in.flight.requests.per.connection",
            "send.buffer.bytes",
            "receive.buffer.bytes",
        ],
    ),
    same("what may be in flight is limits.window_bytes", &["buffer.memory", "max.block.ms"]),
    same(
        FOR_EVER,
        &[
            "retries",
            "delivery.timeout.ms",
            "request.timeout.ms",
            "retry.backoff.ms",
            "retry.backoff.max.ms",
        ],
    ),
    same(
        "the largest row is limits.row_bytes, 16 MiB unless set; topics have max.message.bytes",
        &["max.request.size"],
    ),
    same("it is the router's name", &["client.id"]),
    same("the router writes bytes itself", &["key.serializer", "value.serializer"]),
    same(
        "the router keeps its connections itself",
        &[
            "metadata.max.age.ms",
            "metadata.max.idle.ms",
            "connections.max.idle.ms",
            "reconnect.backoff.ms",
            "reconnect.backoff.max.ms",
            "socket.connection.setup.timeout.ms",
            "client.dns.lookup",
        ],
    ),
    same("metrics are at /metrics", &["metric.reporters", "metrics.*"]),
    unsupported("interceptors are Java classes", &["interceptor.classes"]),
    unsupported(
        "the router produces at least once, without Kafka's transactions",
        &["transactional.id", "transaction.timeout.ms"],
    ),
];

/// How a property of the Java producer is written for librdkafka.
pub(in super::super) enum AsProperty {
    /// Under this name, with the same value.
    Named(&'static str),
    /// A file that librdkafka reads under this name if it is PEM.
    Pem {
        /// The property that tells the file's type.
        told_by: &'static str,
        /// librdkafka's name.
        named: &'static str,
    },
}

/// The properties that become one of librdkafka's.
pub(in super::super) fn as_property(name: &str) -> Option<AsProperty> {
    Some(match name {
        "security.protocol" => AsProperty::Named("security.protocol"),
        "sasl.mechanism" => AsProperty::Named("sasl.mechanism"),
        "linger.ms" => AsProperty::Named("linger.ms"),
        "compression.type" => AsProperty::Named("compression.type"),
        "ssl.truststore.location" => {
            AsProperty::Pem { told_by: "ssl.truststore.type", named: "ssl.ca.location" }
        }
        "ssl.keystore.location" => {
            AsProperty::Pem { told_by: "ssl.keystore.type", named: "ssl.certificate.location" }
        }
        _ => return None,
    })
}
