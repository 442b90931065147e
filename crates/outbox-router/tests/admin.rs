//! The admin endpoint over a real socket: what each path answers, when, and what it never shows.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

mod admin_fixture;

use std::time::Duration;

use admin_fixture::{Endpoint, report, snapshot, start};
use outbox_router::monitor::{Gap, Interval, Mark, MonitorReport, ObservedSlot, RelayReport};
use relay::{Code, Failure, Lsn, Name, OtherTopics, State, TOPICS_COUNTED, TopicName, TopicTotals};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

impl Endpoint {
    fn set_state(&self, state: State, reason: Option<Failure>) {
        self.relay.send_modify(|report| {
            report.snapshot.condition.state = state;
            report.snapshot.condition.reason = reason;
            report.published_at = Instant::now();
        });
    }

    async fn probe(&self, path: &str) -> (u16, Value) {
        let (code, _, body) = self.ask("GET", path).await;
        (code, serde_json::from_str(&body).unwrap())
    }

    async fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status.json").await).unwrap()
    }
}

#[tokio::test]
async fn every_metric_has_its_exact_name_labels_and_value() {
    let endpoint = start().await;
    let (_, head, text) = endpoint.ask("GET", "/metrics").await;
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let slot = r#"pipeline="shop",slot="shop_slot""#;
    for line in [
        format!("outbox_slot_bytes_behind{{{slot}}} 1024"),
        format!("outbox_slot_retained_bytes{{{slot}}} 1280"),
        format!("outbox_slot_safe_wal_bytes{{{slot}}} 1073741824"),
        format!("outbox_slot_seconds_to_limit{{{slot}}} +Inf"),
        format!(r#"outbox_slot_wal_status{{{slot},wal_status="reserved"}} 1"#),
        format!(r#"outbox_slot_wal_status{{{slot},wal_status="lost"}} 0"#),
        format!("outbox_slot_active{{{slot}}} 1"),
        format!(r#"outbox_slot_bytes_behind_threshold{{{slot},severity="warning"}} 268435456"#),
        format!(r#"outbox_slot_bytes_behind_threshold{{{slot},severity="critical"}} 2147483648"#),
        r#"outbox_lag_bytes{pipeline="shop",stage="unread"} 512"#.to_owned(),
        r#"outbox_lag_bytes{pipeline="shop",stage="unacked"} 256"#.to_owned(),
        r#"outbox_lag_bytes{pipeline="shop",stage="unconfirmed"} 256"#.to_owned(),
        r#"outbox_events_total{pipeline="shop",topic="outbox.event.order",result="acked"} 10"#
            .to_owned(),
        r#"outbox_event_latency_seconds_bucket{pipeline="shop",topic="outbox.event.order",le="0.001"} 7"#.to_owned(),
        r#"outbox_event_latency_seconds_bucket{pipeline="shop",topic="outbox.event.order",le="300"} 9"#.to_owned(),
        r#"outbox_event_latency_seconds_bucket{pipeline="shop",topic="outbox.event.order",le="+Inf"} 10"#.to_owned(),
        r#"outbox_event_latency_seconds_sum{pipeline="shop",topic="outbox.event.order"} 400.02"#
            .to_owned(),
        r#"outbox_window_events{pipeline="shop"} 42"#.to_owned(),
        r#"outbox_window_bytes{pipeline="shop"} 4200"#.to_owned(),
        r#"outbox_state{pipeline="shop",state="streaming"} 1"#.to_owned(),
        r#"outbox_state{pipeline="shop",state="failed"} 0"#.to_owned(),
        r#"outbox_rows_ignored_total{pipeline="shop",op="insert"} 3"#.to_owned(),
        r#"outbox_rows_ignored_total{pipeline="shop",op="update"} 4"#.to_owned(),
        r#"outbox_rows_ignored_total{pipeline="shop",op="delete"} 5"#.to_owned(),
        r#"outbox_rows_ignored_total{pipeline="shop",op="truncate"} 6"#.to_owned(),
        r#"outbox_rows_filtered_total{pipeline="shop"} 7"#.to_owned(),
        r#"outbox_reconnects_total{pipeline="shop",peer="postgres"} 2"#.to_owned(),
        r#"outbox_reconnects_total{pipeline="shop",peer="kafka"} 1"#.to_owned(),
        r#"outbox_errors_total{pipeline="shop",component="postgres",code="P001"} 2"#.to_owned(),
        format!(
            r#"outbox_build_info{{pipeline="shop",version="{}"}} 1"#,
            env!("CARGO_PKG_VERSION")
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    assert!(text.contains("\n# TYPE outbox_events_total counter\n"), "{text}");
    assert!(text.contains("outbox_slot_last_poll_timestamp_seconds{"), "{text}");
}

/// An alert must not end because nobody sees any more what it warns of.
#[tokio::test]
async fn while_postgresql_does_not_answer_the_slots_numbers_keep_their_last_values() {
    let endpoint = start().await;
    endpoint.monitor.send_modify(|report| {
        report.slot = ObservedSlot::Unknown;
        report.trouble = Some(Failure::new(Code::ServerUnreachable, "no answer"));
    });
    let text = endpoint.get("/metrics").await;
    for line in [
        "bytes_behind{pipeline=\"shop\",slot=\"shop_slot\"} 1024",
        "exists{pipeline=\"shop\",slot=\"shop_slot\"} 1",
        "catalog_xmin_age{pipeline=\"shop\",slot=\"shop_slot\"} 7",
    ] {
        assert!(text.contains(&format!("\noutbox_slot_{line}\n")), "{line} in\n{text}");
    }
    assert!(
        text.contains("\noutbox_lag_bytes{pipeline=\"shop\",stage=\"unread\"} 1024\n"),
        "{text}"
    );
    let status = endpoint.status().await;
    assert_eq!(status["slot"]["bytes_behind"], 1024, "as it was read last");
    assert_eq!(status["monitor"]["trouble"]["code"], "P001");
    assert_eq!(status["verdict"]["word"], "ok", "rows flow");
    let sentence = status["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("the monitor cannot read the slot: no answer (P001)"), "{sentence}");
}

#[tokio::test]
async fn without_a_limit_the_safe_bytes_are_absent_and_the_time_is_infinite() {
    let endpoint = start().await;
    endpoint.monitor.send_modify(|report| {
        let last = report.watch.last.as_mut().unwrap();
        last.slot.as_mut().unwrap().safe_wal_bytes = None;
        last.to_limit = None;
    });
    let text = endpoint.get("/metrics").await;
    assert!(!text.contains("outbox_slot_safe_wal_bytes"), "{text}");
    let slot = r#"pipeline="shop",slot="shop_slot""#;
    let line = format!("\noutbox_slot_seconds_to_limit{{{slot}}} +Inf\n");
    assert!(text.contains(&line), "{text}");
}

#[tokio::test]
async fn a_slot_that_is_not_there_is_inactive_and_does_not_exist() {
    let endpoint = start().await;
    endpoint.monitor.send_modify(|report| {
        report.slot = ObservedSlot::Missing;
        report.watch.last.as_mut().unwrap().slot = None;
    });
    let text = endpoint.get("/metrics").await;
    for name in ["active", "exists", "bytes_behind"] {
        let line = format!(r#"outbox_slot_{name}{{pipeline="shop",slot="shop_slot"}} 0"#);
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert_eq!(endpoint.status().await["slot"], Value::Null);
}

/// Absent before the first reading.
const READ_BY_THE_MONITOR: [&str; 16] = [
    "outbox_held_decided",
    "outbox_slot_bytes_behind",
    "outbox_slot_catalog_xmin_age",
    "outbox_slot_failover",
    "outbox_slot_inactive_since_timestamp_seconds",
    "outbox_slot_invalidated",
    "outbox_slot_lsn_bytes",
    "outbox_slot_others_inactive",
    "outbox_slot_pin_age_seconds",
    "outbox_slot_retained_bytes",
    "outbox_slot_safe_wal_bytes",
    "outbox_slot_seconds_to_limit",
    "outbox_slot_spill_bytes_total",
    "outbox_slot_synced",
    "outbox_slot_wal_status",
    "outbox_wal_bytes_per_second",
];

/// A router that was started while PostgreSQL is down knows nothing. Zeros would end the alerts on
/// what the router before it has seen.
#[tokio::test]
async fn what_was_never_read_is_absent_and_not_zero() {
    let endpoint = start().await;
    let full = endpoint.get("/metrics").await;
    endpoint.monitor.send_replace(MonitorReport::initial(Instant::now()));
    let empty = endpoint.get("/metrics").await;
    let slot = r#"{pipeline="shop",slot="shop_slot"}"#;
    for name in ["bytes_behind", "seconds_to_limit", "pin_age_seconds", "others_inactive"] {
        let series = format!("\noutbox_slot_{name}{slot} ");
        assert!(full.contains(&series) && !empty.contains(&series), "{series} in {empty}");
    }
    for name in ["outbox_slot_wal_status{", "outbox_held_decided{"] {
        assert!(full.contains(name) && !empty.contains(name), "{name} in {empty}");
    }
    for name in ["last_poll", "figures_last_poll"] {
        let line = format!("\noutbox_slot_{name}_timestamp_seconds{slot} 0\n");
        assert!(empty.contains(&line), "{line} in {empty}");
    }
    // One reading does not tell how fast the limit comes nearer.
    endpoint.monitor.send_replace(report());
    endpoint.monitor.send_modify(|report| report.watch.last.as_mut().unwrap().to_limit = None);
    let once = endpoint.get("/metrics").await;
    assert!(!once.contains("outbox_slot_seconds_to_limit{"), "{once}");
}

/// The streaming task hangs: its state is what it said last, and the verdict says that it is mute.
#[tokio::test]
async fn a_task_that_hangs_is_a_verdict_although_the_state_is_streaming() {
    let endpoint = start().await;
    endpoint.relay.send_modify(|report| report.published_at -= Duration::from_secs(31));
    let text = endpoint.get("/metrics").await;
    for line in [
        r#"outbox_state{pipeline="shop",state="streaming"} 1"#,
        r#"outbox_verdict{pipeline="shop",verdict="failed"} 1"#,
        r#"outbox_verdict{pipeline="shop",verdict="ok"} 0"#,
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
    }
}

/// Of a series that appears late, an alert misses the beginning. What the monitor reads is absent
/// until then, and the alerts on it ask for its size, and not for its increase.
#[tokio::test]
async fn every_series_exists_before_anything_was_read() {
    let endpoint = start().await;
    let full = endpoint.get("/metrics").await;
    endpoint.monitor.send_replace(MonitorReport::initial(Instant::now()));
    endpoint.relay.send_replace(RelayReport::initial(
        relay::testing::samples::empty_snapshot(State::Starting),
        Instant::now(),
    ));
    let empty = endpoint.get("/metrics").await;
    let series = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    // Which topics there are, the data say.
    let may_be_late = |series: &&String| {
        let name = series.split('{').next().unwrap();
        series.contains("topic=\"outbox.event.") || READ_BY_THE_MONITOR.contains(&name)
    };
    let (before, after) = (series(&empty), series(&full));
    let late: Vec<&String> =
        after.iter().filter(|series| !may_be_late(series) && !before.contains(series)).collect();
    assert!(late.is_empty(), "{late:?}");
    assert!(before.iter().any(|series| series.contains("topic=\"_other\"")), "{empty}");
    for code in Code::ALL {
        assert!(before.iter().any(|series| series.contains(&format!("code=\"{code}\""))), "{code}");
    }
    let value = |text: &str, name: &str| -> f64 {
        let prefix = format!("process_{name}{{pipeline=\"shop\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap().parse().unwrap()
    };
    for name in ["resident_memory_bytes", "start_time_seconds", "open_fds"] {
        assert!(value(&empty, name) > 0.0, "{name}");
    }
    // The kernel counts in hundredths of a second, which scrapes take together.
    let mut scrapes = 0;
    while value(&endpoint.get("/metrics").await, "cpu_seconds_total") <= 0.0 {
        scrapes += 1;
        assert!(scrapes < 100_000, "cpu_seconds_total");
    }
}

#[tokio::test]
async fn the_verdict_is_one_word_for_status_and_metrics() {
    let endpoint = start().await;
    let failure =
        Failure::new(Code::TopicMissing, "topic x does not exist").naming(Name::Topic, "x");
    endpoint.set_state(State::Blocked, Some(failure));
    let verdict = endpoint.status().await["verdict"].take();
    assert_eq!((&verdict["word"], &verdict["blame"]), (&json!("blocked"), &json!("kafka")));
    assert_eq!(verdict["sentence"], "topic x does not exist (K010)");
    let to_do = &verdict["to_do"][0];
    assert!(to_do["hint"].as_str().unwrap().contains("--create --topic x"), "{to_do}");
    let text = endpoint.get("/metrics").await;
    for (word, value) in [("blocked", 1), ("ok", 0), ("failed", 0)] {
        let line = format!("\noutbox_verdict{{pipeline=\"shop\",verdict=\"{word}\"}} {value}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[tokio::test]
async fn topics_without_counters_of_their_own_are_one_row_and_are_counted() {
    let endpoint = start().await;
    let series = |text: &str| text.lines().filter(|line| line.contains(",topic=\"")).count();
    endpoint.relay.send_modify(|report| {
        let latencies = report.snapshot.topics[0].latencies.clone();
        let topic = |name: String| TopicTotals {
            name: TopicName::new(&name).unwrap(),
            acked: 10,
            latencies: latencies.clone(),
        };
        let names = (0..TOPICS_COUNTED - 1).map(|n| format!("t{n}"));
        report.snapshot.topics = names.chain(["_other".to_owned()]).map(topic).collect();
        report.snapshot.other_topics = OtherTopics { topics: 65_436, acked: 7, latencies };
    });
    let text = endpoint.get("/metrics").await;
    let line = |topic: &str, n: u64| {
        format!(r#"outbox_events_total{{pipeline="shop",topic="{topic}",result="acked"}} {n}"#)
    };
    assert!(text.contains(&line("t98", 10)), "{text}");
    assert!(text.contains(&line("_other", 17)), "a topic of this name is part of the sum: {text}");
    assert!(text.contains("outbox_topics_other{pipeline=\"shop\"} 65436\n"), "{text}");
    // The counter, 19 buckets, sum and count.
    assert_eq!(series(&text), TOPICS_COUNTED * 22);
}

#[tokio::test]
async fn readiness_follows_the_state_and_names_the_code() {
    let endpoint = start().await;
    assert_eq!(endpoint.probe("/readyz").await.0, 200);
    for state in [State::Starting, State::Draining] {
        endpoint.set_state(state, None);
        let (code, body) = endpoint.probe("/readyz").await;
        assert_eq!((code, &body["reason"]["code"]), (503, &json!("not_streaming")), "{state:?}");
    }
    for state in [State::Blocked, State::Failed] {
        let failure =
            Failure::new(Code::TopicMissing, "topic x does not exist").naming(Name::Topic, "x");
        endpoint.set_state(state, Some(failure));
        let (code, body) = endpoint.probe("/readyz").await;
        assert_eq!((code, &body["reason"]["code"]), (503, &json!("K010")), "{state:?}");
        assert!(body["reason"]["hint"].as_str().unwrap().contains("--create --topic x"), "{body}");
    }
}

#[tokio::test]
async fn a_standby_is_ready_while_it_could_take_over() {
    let endpoint = start().await;
    endpoint.set_state(State::Standby, None);
    assert_eq!(endpoint.probe("/readyz").await.0, 200);
    endpoint.monitor.send_modify(|report| {
        report.findings = vec![Failure::new(Code::PublicationMissing, "gone")];
    });
    let (code, body) = endpoint.probe("/readyz").await;
    assert_eq!((code, &body["reason"]["code"]), (503, &json!("P020")));
    endpoint.monitor.send_modify(|report| {
        report.findings.clear();
        report.slot = ObservedSlot::Unknown;
        report.trouble = Some(Failure::new(Code::ServerUnreachable, "no answer"));
    });
    let (code, body) = endpoint.probe("/readyz").await;
    assert_eq!((code, &body["reason"]["code"]), (503, &json!("P001")));
}

#[tokio::test]
async fn liveness_depends_only_on_whether_the_routers_own_tasks_run() {
    let endpoint = start().await;
    endpoint.set_state(State::Failed, Some(Failure::new(Code::SlotLost, "lost")));
    endpoint.monitor.send_modify(|report| report.slot = ObservedSlot::Unknown);
    assert_eq!(endpoint.probe("/livez").await.0, 200);
    let long_ago = Instant::now().checked_sub(Duration::from_secs(31)).unwrap();
    endpoint.relay.send_replace(RelayReport::initial(snapshot(State::Streaming), long_ago));
    let (code, body) = endpoint.probe("/livez").await;
    assert_eq!((code, &body["reason"]["code"]), (503, &json!("stale")));
    assert_eq!(endpoint.probe("/readyz").await.0, 503);
}

#[tokio::test]
async fn a_gap_is_unready_at_once_and_names_its_interval() {
    let endpoint = start().await;
    let mark = |lsn, at: &str| Mark { lsn: Lsn::from_u64(lsn), at: Some(at.to_owned()) };
    let gap = Gap::new(
        Failure::new(Code::SlotMissing, "slot \"shop_slot\" does not exist"),
        Interval {
            from: Some(mark(0x100, "2026-01-01T00:00:00Z")),
            to: mark(0x200, "2026-01-01T00:00:05Z"),
        },
    );
    endpoint.monitor.send_modify(|report| report.gap = Some(gap.clone()));
    let (code, body) = endpoint.probe("/readyz").await;
    assert_eq!((code, &body["reason"]["code"]), (503, &json!("P010")));
    // The streaming task has heard of it: the reason is its own, the interval the monitor's.
    endpoint.set_state(State::Failed, Some(gap.failure));
    let status = endpoint.status().await;
    assert_eq!(status["state"], "failed");
    assert_eq!(status["reason"]["lsn"], "0/100");
    assert_eq!(
        status["reason"]["interval"],
        json!({
            "from": {"lsn": "0/100", "at": "2026-01-01T00:00:00Z"},
            "to": {"lsn": "0/200", "at": "2026-01-01T00:00:05Z"},
        })
    );
    let message = status["reason"]["message"].as_str().unwrap();
    assert!(message.contains("after 0/100 (2026-01-01T00:00:00Z) and until"), "{message}");
}

/// Of a series that appears late, an alert misses the beginning.
#[tokio::test]
async fn the_metrics_of_gaps_are_there_from_the_start() {
    let endpoint = start().await;
    let expect = async |values: [u8; 4]| {
        let page = endpoint.get("/metrics").await;
        let names = [
            "outbox_gaps_open",
            "outbox_gap_recorded",
            "outbox_witness_missing",
            "outbox_topics_lost",
        ];
        for (name, value) in names.iter().zip(values) {
            let line = format!("\n{name}{{pipeline=\"shop\"}} {value}\n");
            assert!(page.contains(&line), "{line} in {page}");
        }
    };
    expect([0, 0, 0, 0]).await;
    let mark = Mark { lsn: Lsn::from_u64(0x100), at: None };
    let interval = Interval { from: Some(mark.clone()), to: mark.clone() };
    let gap = Gap::new(Failure::new(Code::SlotMissing, "gone"), interval);
    endpoint.monitor.send_modify(|report| report.gap = Some(gap.clone()));
    expect([1, 0, 0, 0]).await;
    let witness = |are_gaps_written, gaps, began_without| relay::WitnessReport {
        store: relay::witness::WitnessStore::Kafka,
        gaps,
        are_gaps_written,
        began_without,
        ..relay::WitnessReport::default()
    };
    let set_witness = |witness| {
        endpoint.relay.send_modify(|report| report.snapshot.witness = witness);
    };
    set_witness(witness(false, vec![gap.clone()], None));
    expect([1, 0, 0, 0]).await;
    assert_eq!(endpoint.probe("/readyz").await.0, 503);
    set_witness(witness(true, vec![gap.clone(), gap], Some(mark.clone())));
    expect([2, 1, 1, 0]).await;
    endpoint.monitor.send_modify(|report| report.gap = None);
    assert_eq!(endpoint.probe("/readyz").await.0, 503, "whoever found it");
    set_witness(relay::WitnessReport {
        lost_topics: vec![relay::witness::LostTopic {
            topic: "orders".to_owned(),
            was: relay::witness::TopicUuid::new("A"),
            now: None,
            noticed: mark.clone(),
        }],
        ..witness(true, Vec::new(), Some(mark))
    });
    expect([0, 0, 1, 1]).await;
    assert_eq!(endpoint.probe("/readyz").await.0, 200);
}

/// Of each code that can make a dead letter, and of nothing else.
#[tokio::test]
async fn what_is_held_is_shown_from_the_start_and_as_it_is() {
    let endpoint = start().await;
    let page = endpoint.get("/metrics").await;
    let letters: Vec<&str> =
        page.lines().filter(|line| line.starts_with("outbox_dead_letters_total{")).collect();
    let of =
        |code: &Code| format!("outbox_dead_letters_total{{pipeline=\"shop\",code=\"{code}\"}} 0");
    let codes = Code::ALL.iter().filter(|code| relay::ErrorClass::of(**code).is_some());
    assert_eq!(letters, codes.map(of).collect::<Vec<_>>());
    for name in ["held_keys", "held_events", "held_bytes", "held_oldest_seconds"] {
        assert!(
            page.contains(&format!("\noutbox_{name}{{pipeline=\"shop\"}} 0\n")),
            "{name}: {page}"
        );
    }
    let day_ago = std::time::SystemTime::now() - Duration::from_secs(86_400);
    let micros = day_ago.duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    endpoint.relay.send_modify(|report| {
        report.snapshot.held = relay::HeldReport {
            held: relay::HeldLimits { keys: 2, events: 5, bytes: 999 },
            oldest: Some(relay::PgTimestamp::from_unix_micros(i64::try_from(micros).unwrap())),
            totals: relay::HeldTotals {
                letters: [(Code::NotJson, 3)].into(),
                refused_again: 6,
                delivered: 7,
                dropped: 1,
                skipped: 4,
            },
            ..relay::HeldReport::default()
        };
    });
    let page = endpoint.get("/metrics").await;
    for line in [
        r#"outbox_held_decided{pipeline="shop"} 0"#,
        r#"outbox_dead_letters_total{pipeline="shop",code="R014"} 3"#,
        r#"outbox_rows_skipped_total{pipeline="shop"} 4"#,
        r#"outbox_held_keys{pipeline="shop"} 2"#,
        r#"outbox_held_events{pipeline="shop"} 5"#,
        r#"outbox_held_bytes{pipeline="shop"} 999"#,
        r#"outbox_held_refused_again_total{pipeline="shop"} 6"#,
        r#"outbox_held_delivered_total{pipeline="shop"} 7"#,
        r#"outbox_held_dropped_total{pipeline="shop"} 1"#,
        // Some time passes in the test.
        r#"outbox_held_oldest_seconds{pipeline="shop"} 864"#,
    ] {
        assert!(page.contains(&format!("\n{line}")), "{line}: {page}");
    }
    endpoint.monitor.send_modify(|report| report.decided = None);
    let unknown = endpoint.get("/metrics").await;
    assert!(!unknown.contains("outbox_held_decided"), "{unknown}");
    let mut held = endpoint.status().await["held"].take();
    assert!(held["oldest_seconds"].take().as_f64().unwrap() >= 86_400.0);
    assert_eq!(
        held,
        json!({
            "keys": 2, "events": 5, "bytes": 999, "oldest_seconds": null,
            "dead_letters": {"R014": 3}, "refused_again": 6, "delivered": 7, "dropped": 1, "skipped": 4,
        })
    );
}

#[tokio::test]
async fn the_status_has_its_documented_shape() {
    let endpoint = start().await;
    endpoint.monitor.send_modify(|report| report.watch.figures = None);
    let mut status = endpoint.status().await;
    for path in [
        "/age_seconds",
        "/monitor/polled_at",
        "/monitor/polled_seconds_ago",
        "/slot/read_seconds_ago",
        "/verdict/since",
        "/verdict/seconds_without_progress",
    ] {
        assert!(status.pointer(path).unwrap().as_f64().unwrap() >= 0.0, "{path}");
        *status.pointer_mut(path).unwrap() = json!(0);
    }
    // tests/admin_retention.rs shows its shape.
    assert!(status["retention"].take().is_object());
    assert_eq!(
        status,
        json!({
            "schema": 1,
            "verdict": {
                "word": "ok", "sentence": "rows flow", "code": null,
                "blame": "nobody", "acts": "nobody", "since": 0, "to_do": [], "oldest_unacked_seconds": null,
                "seconds_without_progress": 0,
            },
            "history": [],
            "server": null,
            "server_warning": null,
            "backpressure_seconds": {"window": 0.0, "queue": 0.0, "topic": 0.0, "row": 0.0, "isolation": 0.0},
            "name": "shop", "slot_name": "shop_slot", "version": env!("CARGO_PKG_VERSION"), "state": "streaming",
            "reason": null, "blame": "nobody", "age_seconds": 0, "retention": null,
            "backlog_reading": null,
            "slot": {
                "name": "shop_slot", "bytes_behind": 1024, "retained_bytes": 1280,
                "safe_wal_bytes": 1_073_741_824, "seconds_to_limit": null,
                "read_seconds_ago": 0, "limited_by": "max_slot_wal_keep_size",
                "wal_bytes_per_second": null, "wal_status": "reserved", "active": true,
                "active_pid": 4711, "confirmed_flush_lsn": "1/100", "restart_lsn": "1/0",
                "current_wal_lsn": "1/500", "plugin": "pgoutput", "database": "shop",
                "failover": null, "synced": null, "invalidation_reason": null,
                "inactive_since": null, "pinned_by": null,
            },
            "positions": {
                "received": "1/300", "acked": "1/200", "confirmed": "1/100", "holder_pid": null,
                "backlog_by_sql_until": null,
            },
            "window": {
                "events": 42, "bytes": 4200, "unacked_events": 40, "waiting_for_ack_seconds": null,
            },
            "witness": {
                "accepted": [],
                "began_without": null,
                "gaps": [],
                "gaps_recorded": true, "lost_topics": [],
                "kept": "off",
                "position": null,
            },
            "held": {
                "keys": 0, "events": 0, "bytes": 0, "oldest_seconds": null, "dead_letters": {},
                "refused_again": 0,
                "delivered": 0, "dropped": 0, "skipped": 0,
            },
            "lag": {"unread": 512, "unacked": 256, "unconfirmed": 256},
            "totals": {
                "events_acked": 20, "transactions": 12, "rows_ignored": 18, "rows_filtered": 7,
                "reconnects_postgres": 2, "reconnects_kafka": 1, "errors": {"P001": 2},
            },
            "monitor": {"polled_at": 0, "polled_seconds_ago": 0, "trouble": null, "alterations": [], "findings": []},
        })
    );
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_in_json() {
    let endpoint = start().await;
    let (code, head, body) = endpoint.ask("GET", "/debug").await;
    assert_eq!(code, 404);
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(serde_json::from_str::<Value>(&body).unwrap()["error"].is_string());
    let (code, head, _) = endpoint.ask("POST", "/metrics").await;
    assert_eq!(code, 405);
    assert!(head.contains("allow: get"), "{head}");
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_disconnected() {
    let endpoint = start().await;
    endpoint.monitor.send_replace(report());
    let mut silent = TcpStream::connect(endpoint.address).await.unwrap();
    silent.write_all(b"GET /met").await.unwrap();
    let mut answer = Vec::new();
    let hung_up =
        tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut answer)).await;
    // An orderly end or a reset: either way the connection is over and its place free.
    assert!(hung_up.is_ok());
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

/// A web page whose name resolves to the router's address (DNS rebinding) is read by a browser as
/// the page's own.
#[tokio::test]
async fn under_a_foreign_name_only_metrics_and_probes_are_answered() {
    let endpoint = start().await;
    let mark = "x-outbox-router: 1";
    for path in ["/", "/page/events", "/page/script.js", "/status.json", "/tap"] {
        for host in ["host: attacker.example", "host: attacker.example:8788"] {
            let (code, _, body) = endpoint.ask_with("GET", path, &[host, mark]).await;
            assert_eq!(code, 421, "{path}: {body}");
            assert!(body.contains("attacker.example"), "{body}");
            assert!(body.contains("admin.hosts"), "{body}");
        }
        let absolute = format!("http://attacker.example{path}");
        let code = endpoint.ask_with("GET", &absolute, &["host: admin", mark]).await.0;
        assert_eq!(code, 421, "{absolute}");
    }
    for host in ["host: 127.0.0.1:8788", "host: [::1]:8788", "host: localhost:8788", "host: ADMIN"]
    {
        for path in ["/", "/status.json"] {
            assert_eq!(endpoint.ask_with("GET", path, &[host]).await.0, 200, "{host}{path}");
        }
    }
    for path in ["/metrics", "/livez"] {
        let code = endpoint.ask_with("GET", path, &["host: router.monitoring.svc:8788"]).await.0;
        assert_eq!(code, 200, "{path}");
    }
}
