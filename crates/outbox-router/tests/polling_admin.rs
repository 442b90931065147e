//! The admin endpoint of a router that polls, over a real socket: what each path answers, and when.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

mod polling_fixture;

use std::time::Duration;

use outbox_router::polling::survey::{RowCount, SurveyReport};
use polling_fixture::{Endpoint, Keeps, start, start_with};
use relay::{Case, Code, Failure, Name, polling::PollState};
use serde_json::{Value, json};
use tokio::time::Instant;

impl Endpoint {
    fn set_state(&self, state: PollState, reason: Option<Failure>) {
        self.worker.send_modify(|report| {
            (report.poller.state, report.poller.reason) = (state, reason);
            report.at = Instant::now();
        });
    }

    async fn probe(&self, path: &str) -> (u16, Value) {
        let (code, _, body) = self.ask("GET", path, "any.name.example").await;
        (code, serde_json::from_str(&body).unwrap())
    }

    async fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status.json").await).unwrap()
    }
}

fn topic_missing() -> Failure {
    Failure::new(Code::TopicMissing, "topic x does not exist").naming(Name::Topic, "x")
}

#[tokio::test]
async fn every_metric_has_its_exact_name_labels_and_value() {
    let endpoint = start().await;
    let (_, head, text) = endpoint.ask("GET", "/metrics", "any.name.example").await;
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let table = r#"{pipeline="shop",table="public.outbox"}"#;
    for line in [
        format!("outbox_polling_pending_rows{table} 25"),
        format!("outbox_polling_not_due_rows{table} 3"),
        format!("outbox_polling_ready_rows{table} 17"),
        format!("outbox_polling_oldest_pending_seconds{table} 1.5"),
        format!("outbox_polling_failed_rows{table} 1"),
        format!("outbox_polling_abandoned_rows{table} 2"),
        format!("outbox_polling_processing_rows{table} 4"),
        format!("outbox_polling_shards_held{table} 32"),
        format!("outbox_polling_batches_total{table} 40"),
        format!("outbox_polling_rows_read_total{table} 120"),
        format!("outbox_polling_rows_published_total{table} 100"),
        format!("outbox_polling_retries_total{table} 3"),
        format!("outbox_polling_rows_abandoned_total{table} 2"),
        format!("outbox_retention_deleted_total{table} 30"),
        format!("outbox_table_rows{table} 130"),
        format!("outbox_table_bytes{table} 24576"),
        format!("outbox_table_oldest_row_seconds{table} 86410.5"),
        r#"outbox_retention_errors_total{pipeline="shop"} 1"#.to_owned(),
        r#"outbox_retention_keep_seconds{pipeline="shop"} 86400"#.to_owned(),
        r#"outbox_polling_workers{pipeline="shop"} 2"#.to_owned(),
        r#"outbox_polling_claims_lost_total{pipeline="shop"} 1"#.to_owned(),
        r#"outbox_polling_batch_seconds_bucket{pipeline="shop",le="0.001"} 7"#.to_owned(),
        r#"outbox_polling_batch_seconds_bucket{pipeline="shop",le="+Inf"} 10"#.to_owned(),
        r#"outbox_polling_batch_seconds_sum{pipeline="shop"} 400.02"#.to_owned(),
        r#"outbox_events_total{pipeline="shop",topic="outbox.event.order",result="acked"} 10"#
            .to_owned(),
        r#"outbox_event_latency_seconds_sum{pipeline="shop",topic="outbox.event.order"} 400.02"#
            .to_owned(),
        r#"outbox_state{pipeline="shop",state="polling"} 1"#.to_owned(),
        r#"outbox_state{pipeline="shop",state="standby"} 0"#.to_owned(),
        r#"outbox_verdict{pipeline="shop",verdict="ok"} 1"#.to_owned(),
        r#"outbox_inflight_events{pipeline="shop"} 4"#.to_owned(),
        r#"outbox_reconnects_total{pipeline="shop",peer="postgres"} 3"#.to_owned(),
        r#"outbox_kafka_broker_info{pipeline="shop",broker="1",address="kafka-1.example:9092"} 1"#
            .to_owned(),
        r#"outbox_kafka_broker_requests_total{pipeline="shop",broker="1"} 7"#.to_owned(),
        r#"outbox_errors_total{pipeline="shop",component="postgres",code="P001"} 2"#.to_owned(),
        r#"outbox_errors_total{pipeline="shop",component="postgres",code="P042"} 0"#.to_owned(),
        format!(
            r#"outbox_build_info{{pipeline="shop",version="{}"}} 1"#,
            env!("CARGO_PKG_VERSION")
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    for absent in ["outbox_slot", "outbox_lag_bytes", "outbox_gaps", "outbox_leader"] {
        assert!(!text.contains(absent), "{absent} is of a slot: {text}");
    }
    assert!(text.contains("\nprocess_resident_memory_bytes{"), "{text}");
}

/// A router that was started while PostgreSQL is down knows nothing, and zeros would end alerts.
#[tokio::test]
async fn what_was_never_counted_is_absent_and_what_was_keeps_its_value() {
    let endpoint = start().await;
    endpoint.surveyed.send_modify(|report| {
        report.failure = Some(Failure::new(Code::ServerUnreachable, "no answer"));
    });
    let kept = endpoint.get("/metrics").await;
    assert!(kept.contains("\noutbox_polling_pending_rows{"), "{kept}");
    let status = endpoint.status().await;
    assert_eq!(status["survey"]["trouble"]["code"], "P001");
    let sentence = status["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("pending rows cannot be counted: no answer (P001)"), "{sentence}");
    endpoint.surveyed.send_replace(SurveyReport::default());
    let empty = endpoint.get("/metrics").await;
    for name in ["pending_rows", "oldest_pending_seconds", "abandoned_rows", "failed_rows"] {
        assert!(!empty.contains(&format!("outbox_polling_{name}{{")), "{name} in {empty}");
    }
    let line = "\noutbox_polling_survey_timestamp_seconds{pipeline=\"shop\"} 0\n";
    assert!(empty.contains(line), "{empty}");
    assert!(empty.contains("\noutbox_polling_retries_total{"), "{empty}");
    assert_eq!(endpoint.status().await["pending"]["rows"], Value::Null);
}

#[tokio::test]
async fn the_document_says_what_is_pending_and_who_holds_what() {
    let endpoint = start().await;
    let status = endpoint.status().await;
    assert_eq!((&status["source"], &status["schema"]), (&json!("polling"), &json!(1)));
    assert_eq!((&status["state"], &status["name"]), (&json!("polling"), &json!("shop")));
    assert_eq!(status["verdict"]["word"], "ok");
    let sentence = status["verdict"]["sentence"].as_str().unwrap();
    let begins = "rows flow; 1 row waits for another attempt; 2 rows are abandoned; 3 rows are not due \
                  yet, the first is in ";
    assert!(sentence.starts_with(begins), "{sentence}");
    assert_eq!(status["pending"]["rows"], 25);
    assert_eq!(status["pending"]["is_at_least"], false);
    let table = &status["tables"][0];
    assert_eq!((&table["shards_held"], &table["shards"]), (&json!(32), &json!(64)));
    assert_eq!(table["rows"]["processing"], 4);
    assert_eq!(
        table["holders"][1],
        json!({
            "worker": "bbbb", "name": "shop", "shards": 32, "lease_seconds": -3.0,
        })
    );
    assert_eq!(status["totals"]["claims_lost"], 1);
    let retention = &status["retention"];
    assert_eq!((&retention["on"], &retention["errors"]), (&json!(true), &json!(1)));
    assert_eq!(
        (&retention["failure"]["code"], &retention["abandoned_removed"]),
        (&json!("P038"), &json!(2))
    );
    assert_eq!(retention["tables"][0]["removed"], 30);
}

#[tokio::test]
async fn a_tap_is_opened_by_the_command_alone() {
    let endpoint = start().await;
    let (code, _, body) = endpoint.ask("GET", "/tap", "admin").await;
    assert_eq!(code, 403, "{body}");
    assert!(body.contains("/tap is for outbox-router tap"), "{body}");
}

#[tokio::test]
async fn without_retention_the_survey_says_how_large_the_tables_are() {
    let endpoint = start_with(Keeps::All).await;
    let text = endpoint.get("/metrics").await;
    let line = r#"outbox_table_bytes{pipeline="shop",table="public.outbox"} 24576"#;
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(!text.contains("outbox_retention_"), "{text}");
    assert_eq!(endpoint.status().await["retention"]["on"], false);
}

#[tokio::test]
async fn probes_follow_state_and_tasks_and_name_the_code() {
    let endpoint = start().await;
    for path in ["/livez", "/readyz", "/startupz"] {
        assert_eq!(endpoint.probe(path).await.0, 200, "{path}");
    }
    endpoint.set_state(PollState::Blocked, Some(topic_missing()));
    let (code, body) = endpoint.probe("/readyz").await;
    assert_eq!(
        (code, &body["reason"]["code"], &body["state"]),
        (503, &json!("K010"), &json!("blocked"))
    );
    assert!(body["reason"]["hint"].as_str().unwrap().contains("--create --topic x"), "{body}");
    assert_eq!(endpoint.probe("/livez").await.0, 200, "a restart would not help");
    endpoint.set_state(PollState::Standby, None);
    assert_eq!(endpoint.probe("/readyz").await.0, 200);
    endpoint.worker.send_modify(|report| report.at -= Duration::from_secs(31));
    let (code, body) = endpoint.probe("/livez").await;
    assert_eq!((code, &body["reason"]["code"]), (503, &json!("stale")));
    let (_, _, verbose) = endpoint.ask("GET", "/livez?verbose", "any").await;
    assert!(verbose.contains("[-]worker failed: stale") && verbose.contains("[+]survey ok"));
}

#[tokio::test]
async fn a_router_whose_tables_nobody_polls_is_not_ready() {
    let endpoint = start().await;
    endpoint.surveyed.send_modify(|report| {
        let what = "table public.outbox is being handed to the stream, and nobody polls it";
        report.tables[0].handed = Some(Failure::of(Case::Switching, what));
    });
    for state in [PollState::Polling, PollState::Standby] {
        endpoint.set_state(state, None);
        let (code, body) = endpoint.probe("/readyz").await;
        assert_eq!((code, &body["reason"]["code"]), (503, &json!("P043")), "{state:?}");
        let status = endpoint.status().await;
        assert_eq!(status["verdict"]["word"], "blocked");
        assert_eq!(status["pending"]["empty_in_seconds"], Value::Null);
    }
}

#[tokio::test]
async fn rows_that_the_worker_alone_knows_to_wait_are_counted_everywhere() {
    let endpoint = start().await;
    endpoint.worker.send_modify(|report| report.poller.tables[0].waiting = 3);
    let metrics = endpoint.get("/metrics").await;
    let line = r#"outbox_polling_failed_rows{pipeline="shop",table="public.outbox"} 3"#;
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    let status = endpoint.status().await;
    let table = &status["tables"][0];
    assert_eq!((&table["waiting"], &table["rows"]["failed"]), (&json!(3), &json!(3)));
    let sentence = status["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("3 rows wait for another attempt"), "{sentence}");
}

#[tokio::test]
async fn rows_that_are_not_due_are_pending_and_keep_nobody_waiting() {
    let endpoint = start().await;
    endpoint.surveyed.send_modify(|report| {
        let figures = report.tables[0].figures.as_mut().unwrap();
        (figures.not_due, figures.ready, figures.oldest_seconds) = (24, 0, None);
    });
    let metrics = endpoint.get("/metrics").await;
    let table = r#"{pipeline="shop",table="public.outbox"}"#;
    for line in [
        format!("outbox_polling_pending_rows{table} 25"),
        format!("outbox_polling_not_due_rows{table} 24"),
        format!("outbox_polling_ready_rows{table} 0"),
        format!("outbox_polling_oldest_pending_seconds{table} 0"),
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    }
    let status = endpoint.status().await;
    assert_eq!(
        (&status["pending"]["rows"], &status["pending"]["not_due"]),
        (&json!(25), &json!(24))
    );
    assert_eq!(status["pending"]["oldest_seconds"], Value::Null);
    assert_eq!(status["tables"][0]["rows"]["due_in_seconds"], 3_600.0);
}

/// An alert asks whether rows could be read that nobody reads.
#[tokio::test]
async fn a_row_that_is_due_behind_as_many_as_are_counted_could_be_read() {
    let endpoint = start().await;
    endpoint.surveyed.send_modify(|report| {
        let figures = report.tables[0].figures.as_mut().unwrap();
        figures.pending = RowCount::AtLeast(100_000);
        (figures.not_due, figures.ready, figures.oldest_seconds) = (100_000, 0, Some(7_300.0));
    });
    let metrics = endpoint.get("/metrics").await;
    let line = r#"outbox_polling_ready_rows{pipeline="shop",table="public.outbox"} 1"#;
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    assert_eq!(endpoint.status().await["tables"][0]["rows"]["ready"], 1);
}

#[tokio::test]
async fn the_start_is_over_once_and_for_all() {
    let endpoint = start().await;
    endpoint.worker.send_modify(|report| report.poller.tables[0].batches = 0);
    endpoint.set_state(PollState::Starting, None);
    let (code, body) = endpoint.probe("/startupz").await;
    assert_eq!((code, &body["reason"]["code"]), (503, &json!("not_polling")));
    endpoint.set_state(PollState::Polling, None);
    assert_eq!(endpoint.probe("/startupz").await.0, 200);
    endpoint.set_state(PollState::Starting, None);
    assert_eq!(endpoint.probe("/startupz").await.0, 200);
}

#[tokio::test]
async fn the_page_shows_the_same_verdict_and_every_block_once() {
    let endpoint = start().await;
    let page = endpoint.get("/").await;
    for id in ["head", "verdict", "to-do", "flow", "tables", "latency", "topics", "timeline"] {
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    for shown in ["<h1>OK</h1>", "public.outbox", "32 of 64 shards", "lease ended 3 s ago"] {
        assert!(page.contains(shown), "{shown} in {page}");
    }
    endpoint.set_state(PollState::Blocked, Some(topic_missing()));
    endpoint.surveyed.send_modify(|report| {
        report.tables[0].figures.as_mut().unwrap().pending = RowCount::AtLeast(100_000);
    });
    let page = endpoint.get("/").await;
    assert!(page.contains("<h1>BLOCKED</h1>"), "{page}");
    assert!(page.contains("≥ 100\u{202f}000"), "{page}");
    assert!(page.contains("--create --topic x"), "{page}");
}

#[tokio::test]
async fn state_is_shown_under_the_router_s_own_names_alone() {
    let endpoint = start().await;
    for path in ["/", "/status.json", "/page/events", "/tap"] {
        assert_eq!(endpoint.ask("GET", path, "attacker.example").await.0, 421, "{path}");
    }
    assert_eq!(endpoint.ask("GET", "/metrics", "attacker.example").await.0, 200);
    let (code, _, body) = endpoint.ask("GET", "/slot", "admin").await;
    assert_eq!(code, 404);
    assert!(body.contains("/status.json and /tap"), "{body}");
    assert_eq!(endpoint.ask("POST", "/metrics", "admin").await.0, 405);
}

#[tokio::test]
async fn former_verdicts_are_remembered() {
    let endpoint = start().await;
    endpoint.set_state(PollState::Blocked, Some(topic_missing()));
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    endpoint.set_state(PollState::Polling, None);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let history = endpoint.status().await["history"].take();
    let words: Vec<&str> =
        history.as_array().unwrap().iter().map(|change| change["word"].as_str().unwrap()).collect();
    assert_eq!(words.last(), Some(&"ok"), "{words:?}");
    assert!(words.contains(&"blocked"), "{words:?}");
}
