//! What librdkafka tells of each broker, in the metrics.
//!
//! The label `broker` is the node id: two brokers can have one address, as when one that was given
//! up is replaced by another with a new id, and one broker can move to another address.
//! `outbox_kafka_broker_info` has the address.

use std::time::Duration;

use super::{
    epoch::epoch,
    exposition::{Page, Type},
};
use crate::{
    kafka::{BrokerConnection, BrokerFigures, BrokerStatistics, RoundTrip, Waiting},
    monitor::rates::number,
};

/// Where `kafka.statistics` is off there are none of these series. Where it is on, those of a
/// broker exist from the first statistics that name it.
pub(crate) fn metrics(page: &mut Page, statistics: Option<&BrokerStatistics>) {
    let Some(statistics) = statistics else { return };
    let BrokerStatistics { interval, received, brokers, others } = statistics;
    page.gauge_float(
        "outbox_kafka_statistics_interval_seconds",
        "Configured: the time between two of librdkafka's statistics.",
        interval.as_secs_f64(),
    );
    page.gauge_float(
        "outbox_kafka_statistics_timestamp_seconds",
        "When librdkafka's statistics last came; 0 before this producer's first. All outbox_kafka_broker_* series are of that moment.",
        received.map_or(0.0, |received| epoch(received).as_secs_f64()),
    );
    page.gauge(
        "outbox_kafka_brokers_other",
        "Brokers without series of their own: those after the hundred with the lowest node ids.",
        u64::try_from(*others).unwrap_or(u64::MAX),
    );
    let mut nodes = Nodes {
        page,
        brokers: brokers.iter().map(|(node, broker)| (node.to_string(), broker)).collect(),
    };
    if !nodes.brokers.is_empty() {
        nodes.now();
        nodes.since_the_start();
    }
}

/// The brokers, each under its node id.
struct Nodes<'p> {
    page: &'p mut Page,
    brokers: Vec<(String, &'p BrokerFigures)>,
}

impl Nodes<'_> {
    fn now(&mut self) {
        let mut info = self.page.family(
            "outbox_kafka_broker_info",
            Type::Gauge,
            "The address of the broker with this node id; always 1.",
        );
        for (node, broker) in &self.brokers {
            info.whole(&[("broker", node), ("address", &broker.address)], 1);
        }
        let mut state = self.page.family(
            "outbox_kafka_broker_state",
            Type::Gauge,
            "The connection to the broker: 1 for its present state, 0 for the others. It is idle when the router needs none.",
        );
        for (node, broker) in &self.brokers {
            for connection in BrokerConnection::ALL {
                let holds = u64::from(broker.connection == Some(connection));
                state.whole(&[("broker", node), ("state", connection.as_str())], holds);
            }
        }
        self.waiting(
            "outbox_kafka_broker_requests_waiting",
            "Requests that wait: unsent, or sent and unanswered.",
            |waiting| waiting.requests,
        );
        self.waiting(
            "outbox_kafka_broker_records_waiting",
            "Records in the requests that wait.",
            |waiting| waiting.records,
        );
        let mut round_trip = self.page.family(
            "outbox_kafka_broker_rtt_seconds",
            Type::Gauge,
            "From sending a request to its answer, of those answered in the last interval; absent when there were none.",
        );
        for (node, broker) in &self.brokers {
            let Some(RoundTrip { mean, p50, p99, max }) = broker.round_trip else { continue };
            for (stat, time) in [("mean", mean), ("p50", p50), ("p99", p99), ("max", max)] {
                round_trip.float(&[("broker", node), ("stat", stat)], time.as_secs_f64());
            }
        }
    }

    fn waiting(&mut self, name: &'static str, help: &str, count: fn(&Waiting) -> u64) {
        let mut family = self.page.family(name, Type::Gauge, help);
        for (node, broker) in &self.brokers {
            for (stage, waiting) in [("unsent", &broker.unsent), ("unanswered", &broker.unanswered)]
            {
                family.whole(&[("broker", node), ("stage", stage)], count(waiting));
            }
        }
    }

    /// librdkafka counts anew in each producer, as after a restart of the process.
    fn since_the_start(&mut self) {
        let mut counter = |name, help: &str, value: fn(&BrokerFigures) -> f64| {
            let mut family = self.page.family(name, Type::Counter, help);
            for (node, broker) in &self.brokers {
                family.float(&[("broker", node)], value(broker));
            }
        };
        counter("outbox_kafka_broker_requests_total", "Requests sent.", |broker| {
            number(broker.requests)
        });
        counter("outbox_kafka_broker_sent_bytes_total", "Bytes sent.", |broker| {
            number(broker.sent_bytes)
        });
        counter("outbox_kafka_broker_received_bytes_total", "Bytes received.", |broker| {
            number(broker.received_bytes)
        });
        counter(
            "outbox_kafka_broker_send_errors_total",
            "Requests that could not be sent.",
            |broker| number(broker.send_errors),
        );
        counter("outbox_kafka_broker_retries_total", "Requests that were sent again.", |broker| {
            number(broker.retries)
        });
        counter(
            "outbox_kafka_broker_request_timeouts_total",
            "Requests that were given up, because no answer came in time.",
            |broker| number(broker.timeouts),
        );
        counter(
            "outbox_kafka_broker_connects_total",
            "Attempts to connect, successful or not.",
            |broker| number(broker.connects),
        );
        counter("outbox_kafka_broker_disconnects_total", "Connections that ended.", |broker| {
            number(broker.disconnects)
        });
        counter(
            "outbox_kafka_broker_throttle_seconds_total",
            "For how long the broker has told the router to wait, because of a quota.",
            |broker| Duration::as_secs_f64(&broker.throttled),
        );
    }
}
