//! Statistics as librdkafka 2.12 wrote them, of a cluster of two brokers after some fifty records.
//! Two entries were added: a bootstrap server that is dialled still, and librdkafka's own.

use std::{collections::BTreeMap, time::Duration};

use super::*;

const RECORDED: &str = include_str!("recorded.json");

fn read(document: &str) -> BTreeMap<i32, BrokerFigures> {
    document::brokers(document.as_bytes()).unwrap()
}

/// The document with another value of the first field of that name.
fn with(field: &str, value: &str) -> String {
    let brokers = RECORDED.find("\"brokers\"").unwrap();
    let start = brokers + RECORDED[brokers..].find(&format!("\"{field}\":")).unwrap();
    let start = start + field.len() + 3;
    let end = start + RECORDED[start..].find(',').unwrap();
    format!("{}{value}{}", &RECORDED[..start], &RECORDED[end..])
}

fn taken(documents: &[&str]) -> BrokerStatistics {
    let (feed, read) = StatisticsFeed::every(Duration::from_secs(10));
    for document in documents {
        feed.take(document.as_bytes());
    }
    read.borrow().clone()
}

#[test]
fn the_brokers_of_the_cluster_are_read_and_no_others() {
    let brokers = read(RECORDED);
    assert_eq!(brokers.keys().copied().collect::<Vec<_>>(), [1, 2]);
    let busy = BrokerFigures {
        address: "kafka-2.example:9092".to_owned(),
        connection: Some(BrokerConnection::Up),
        unsent: Waiting::default(),
        unanswered: Waiting::default(),
        round_trip: Some(RoundTrip {
            mean: Duration::from_micros(13_742),
            p50: Duration::from_micros(7_455),
            // librdkafka's percentile is rounded to 31359.
            p99: Duration::from_micros(31_268),
            max: Duration::from_micros(31_268),
        }),
        requests: 5,
        sent_bytes: 21_380,
        received_bytes: 894,
        send_errors: 0,
        retries: 0,
        timeouts: 0,
        connects: 1,
        disconnects: 0,
        throttled: Duration::ZERO,
    };
    assert_eq!(brokers[&2], busy);
    assert_eq!(brokers[&1].connection, Some(BrokerConnection::Idle));
    assert_eq!(brokers[&1].round_trip, None, "nothing was asked of it");
}

#[test]
fn each_figure_is_read_from_its_field() {
    let value = |field: &str| {
        let broker = read(&with(field, "77"))[&2].clone();
        [
            broker.unsent.requests,
            broker.unsent.records,
            broker.unanswered.requests,
            broker.unanswered.records,
            broker.requests,
            broker.sent_bytes,
            broker.received_bytes,
            broker.send_errors,
            broker.retries,
            broker.timeouts,
            broker.connects,
            broker.disconnects,
        ]
    };
    for (at, field) in [
        "outbuf_cnt",
        "outbuf_msg_cnt",
        "waitresp_cnt",
        "waitresp_msg_cnt",
        "tx",
        "txbytes",
        "rxbytes",
        "txerrs",
        "txretries",
        "req_timeouts",
        "connects",
        "disconnects",
    ]
    .into_iter()
    .enumerate()
    {
        let changed: Vec<usize> = (0..12).filter(|other| value(field)[*other] == 77).collect();
        assert_eq!(changed, [at], "{field}");
    }
}

#[test]
fn every_state_of_librdkafka_is_one_of_four_and_a_new_one_is_none() {
    let connection = |state: &str| read(&with("state", &format!("\"{state}\"")))[&2].connection;
    assert_eq!(connection("REAUTH"), Some(BrokerConnection::Up));
    assert_eq!(connection("DOWN"), Some(BrokerConnection::Down));
    for state in ["TRY_CONNECT", "CONNECT", "SSL_HANDSHAKE", "AUTH_LEGACY", "APIVERSION_QUERY"] {
        assert_eq!(connection(state), Some(BrokerConnection::Connecting), "{state}");
    }
    assert_eq!(connection("DREAMING"), None);
}

#[test]
fn a_negative_count_becomes_zero_and_what_is_no_whole_number_is_refused() {
    assert_eq!(read(&with("outbuf_cnt", "-1"))[&2].unsent.requests, 0);
    assert_eq!(read(&with("tx", "18446744073709551615"))[&2].requests, u64::MAX);
    for value in ["null", "\"5\"", "1.5", "99999999999999999999999"] {
        assert!(document::brokers(with("tx", value).as_bytes()).is_err(), "{value}");
    }
    let lacking = RECORDED.replace("\"disconnects\"", "\"goodbyes\"");
    assert!(document::brokers(lacking.as_bytes()).is_err(), "a zero would look measured");
}

#[test]
fn nothing_behind_the_brokers_is_read() {
    let topics = RECORDED.find("\"topics\"").unwrap();
    assert_eq!(read(&RECORDED[..topics]), read(RECORDED));
    for cut in [0, 1, topics / 2] {
        assert!(document::brokers(&RECORDED.as_bytes()[..cut]).is_err());
    }
    assert!(document::brokers(b"{\"topics\":{}}").is_err(), "there are no brokers in it");
    assert!(document::brokers(b"[]").is_err());
    assert!(document::brokers(b"{\"brokers\":{\"\xff\":{}}}").is_err());
}

/// The percentiles of librdkafka leave out what takes longer than half a second.
#[test]
fn a_percentile_among_the_times_that_were_not_measured_is_the_longest() {
    let rtt = |out: u32| {
        let slow = RECORDED.replacen(
            "\"p99\": 31359, \"p99_99\": 31359, \"outofrange\": 0, \"hdrsize\": 13424, \"cnt\":3",
            &format!(
                "\"p99\": 31359, \"p99_99\": 1, \"outofrange\": {out}, \"hdrsize\": 1, \"cnt\":100"
            ),
            1,
        );
        assert_ne!(slow, RECORDED);
        let slow = slow.replacen("\"max\":31268", "\"max\":9000000", 1);
        read(&slow)[&2].round_trip.unwrap()
    };
    let (measured, max) = (Duration::from_micros(31_359), Duration::from_secs(9));
    assert_eq!(rtt(0).p99, measured);
    assert_eq!(rtt(1).p99, measured, "one of a hundred is longer");
    assert_eq!(rtt(2).p99, max);
    assert_eq!(rtt(50).p50, Duration::from_micros(7_455));
    assert_eq!(rtt(51).p50, max);
}

#[test]
fn one_that_cannot_be_read_leaves_the_figures_as_old_as_they_are() {
    let good = taken(&[RECORDED]);
    assert!(good.received.is_some());
    let (feed, read) = StatisticsFeed::every(Duration::from_secs(10));
    feed.take(RECORDED.as_bytes());
    let before = read.borrow().clone();
    feed.take(b"{}");
    assert_eq!(*read.borrow(), before);
    feed.begin();
    assert_eq!(taken(&[]), *read.borrow());
}

#[test]
fn the_time_of_throttling_adds_up() {
    let start = RECORDED.find("\"throttle\"").unwrap();
    let throttled = format!(
        "{}{}",
        &RECORDED[..start],
        RECORDED[start..].replacen("\"sum\":0", "\"sum\":1500", 1)
    );
    let sum = taken(&[&throttled, &throttled, RECORDED]).brokers[&2].throttled;
    assert_eq!(sum, Duration::from_secs(3));
}

#[test]
fn a_hundred_brokers_are_shown_and_the_others_counted() {
    let start = RECORDED.find("{ \"name\":\"kafka-2").unwrap();
    let end = RECORDED.find(" , \"kafka-1").unwrap();
    let one = &RECORDED[start..end];
    let all: Vec<String> = (0..104)
        .rev()
        .map(|node| {
            format!("\"{node}\": {}", one.replace("\"nodeid\":2", &format!("\"nodeid\":{node}")))
        })
        .collect();
    let document = format!("{{\"brokers\":{{{}}}}}", all.join(","));
    let taken = taken(&[&document]);
    assert_eq!((taken.brokers.len(), taken.others), (BROKERS_SHOWN, 4));
    assert_eq!(taken.brokers.keys().next_back(), Some(&99));
}
