//! Reads the brokers from one of librdkafka's documents of statistics.
//!
//! rdkafka's type `Statistics` was rejected: it reads the whole document, of which topics and
//! partitions are nearly all, into maps that nobody asks. The brokers stand before the topics, so
//! the reading ends behind them, and keeps nothing of the partitions that are listed with each.
//!
//! A field that is missing, or is no number, makes the document unreadable: a zero in its place
//! would look like a measurement. A negative count becomes zero: librdkafka reads its counts
//! without a lock while other threads change them.

use std::{borrow::Cow, collections::BTreeMap, fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};

use super::figures::{BrokerConnection, BrokerFigures, RoundTrip, Waiting};

/// The brokers of the cluster by their node id. librdkafka also lists what it dials to find them
/// (the bootstrap servers), and what it keeps for itself, without such an id.
pub(super) fn brokers(document: &[u8]) -> Result<BTreeMap<i32, BrokerFigures>, serde_json::Error> {
    let mut found = None;
    let read = serde_json::Deserializer::from_slice(document).deserialize_map(Top(&mut found));
    match (found, read) {
        (Some(Brokers(brokers)), _) => Ok(brokers),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(Error::missing_field("brokers")),
    }
}

/// The top of the document.
struct Top<'f>(&'f mut Option<Brokers>);

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("librdkafka's statistics")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if name == "brokers" {
                *self.0 = Some(members.next_value()?);
                // The only way to leave the rest unread.
                return Err(Error::custom("nothing more is wanted"));
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

struct Brokers(BTreeMap<i32, BrokerFigures>);

impl<'de> Deserialize<'de> for Brokers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Listed)
    }
}

struct Listed;

impl<'de> Visitor<'de> for Listed {
    type Value = Brokers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the brokers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut listed: A) -> Result<Brokers, A::Error> {
        let mut brokers = BTreeMap::new();
        while let Some((IgnoredAny, broker)) = listed.next_entry::<IgnoredAny, Native<'de>>()? {
            if broker.nodeid >= 0 {
                brokers.entry(broker.nodeid).or_insert_with(|| broker.figures());
            }
        }
        Ok(Brokers(brokers))
    }
}

/// A broker, in librdkafka's names.
#[derive(Deserialize)]
struct Native<'d> {
    nodeid: i32,
    #[serde(borrow)]
    nodename: Cow<'d, str>,
    #[serde(borrow)]
    state: Cow<'d, str>,
    outbuf_cnt: Whole,
    outbuf_msg_cnt: Whole,
    waitresp_cnt: Whole,
    waitresp_msg_cnt: Whole,
    tx: Whole,
    txbytes: Whole,
    txerrs: Whole,
    txretries: Whole,
    req_timeouts: Whole,
    rxbytes: Whole,
    connects: Whole,
    disconnects: Whole,
    /// In microseconds.
    rtt: NativeTimes,
    /// In milliseconds. What librdkafka adds up here is never zero.
    throttle: NativeSum,
}

#[derive(Deserialize)]
struct NativeTimes {
    avg: Whole,
    max: Whole,
    p50: Whole,
    p99: Whole,
    outofrange: Whole,
    cnt: Whole,
}

#[derive(Deserialize)]
struct NativeSum {
    sum: Whole,
}

impl Native<'_> {
    fn figures(&self) -> BrokerFigures {
        BrokerFigures {
            address: self.nodename.clone().into_owned(),
            connection: connection(&self.state),
            unsent: Waiting { requests: self.outbuf_cnt.0, records: self.outbuf_msg_cnt.0 },
            unanswered: Waiting { requests: self.waitresp_cnt.0, records: self.waitresp_msg_cnt.0 },
            round_trip: self.rtt.round_trip(),
            requests: self.tx.0,
            sent_bytes: self.txbytes.0,
            received_bytes: self.rxbytes.0,
            send_errors: self.txerrs.0,
            retries: self.txretries.0,
            timeouts: self.req_timeouts.0,
            connects: self.connects.0,
            disconnects: self.disconnects.0,
            throttled: Duration::from_millis(self.throttle.sum.0),
        }
    }
}

impl NativeTimes {
    /// librdkafka's percentiles leave out what took longer than about half a second, which it only
    /// counts (`outofrange`). Where a percentile lies among these, the longest time stands for it:
    /// a percentile that falls when brokers become slow would be worse than one that is too high.
    fn round_trip(&self) -> Option<RoundTrip> {
        let (all, left_out) = (self.cnt.0, self.outofrange.0);
        if all == 0 {
            return None;
        }
        let percentile = |percent: u64, measured: &Whole| {
            let lies_beyond = left_out.saturating_mul(100) > all.saturating_mul(100 - percent);
            // A percentile is rounded, and may pass the longest time.
            let known = if lies_beyond { self.max.0 } else { measured.0.min(self.max.0) };
            Duration::from_micros(known)
        };
        Some(RoundTrip {
            mean: Duration::from_micros(self.avg.0),
            p50: percentile(50, &self.p50),
            p99: percentile(99, &self.p99),
            max: Duration::from_micros(self.max.0),
        })
    }
}

fn connection(state: &str) -> Option<BrokerConnection> {
    match state {
        "INIT" => Some(BrokerConnection::Idle),
        "DOWN" => Some(BrokerConnection::Down),
        "TRY_CONNECT" | "CONNECT" | "SSL_HANDSHAKE" | "AUTH_LEGACY" | "AUTH_HANDSHAKE"
        | "AUTH_REQ" | "APIVERSION_QUERY" => Some(BrokerConnection::Connecting),
        // It is in use while its credentials are renewed.
        "UP" | "REAUTH" => Some(BrokerConnection::Up),
        _ => None,
    }
}

/// A whole number, zero in the place of a negative one.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(AnyWhole)
    }
}

struct AnyWhole;

impl Visitor<'_> for AnyWhole {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Whole, E> {
        Ok(Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Whole, E> {
        Ok(Whole(u64::try_from(value).unwrap_or(0)))
    }
}
