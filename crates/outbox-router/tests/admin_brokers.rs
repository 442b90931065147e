//! What `/metrics` shows of librdkafka's statistics.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

#[allow(dead_code, reason = "what changes the answers is for the endpoint's own tests")]
mod admin_fixture;

#[tokio::test]
async fn every_figure_of_a_broker_is_in_the_metrics() {
    let text = admin_fixture::start().await.get("/metrics").await;
    for line in [
        r#"statistics_interval_seconds{pipeline="shop"} 10"#,
        r#"statistics_timestamp_seconds{pipeline="shop"} 1800000000"#,
        r#"brokers_other{pipeline="shop"} 3"#,
        r#"broker_info{pipeline="shop",broker="1",address="kafka-1.example:9092"} 1"#,
        r#"broker_info{pipeline="shop",broker="2",address="kafka-2.example:9092"} 1"#,
        r#"broker_state{pipeline="shop",broker="1",state="up"} 1"#,
        r#"broker_state{pipeline="shop",broker="1",state="idle"} 0"#,
        r#"broker_state{pipeline="shop",broker="2",state="up"} 0"#,
        r#"broker_state{pipeline="shop",broker="2",state="idle"} 1"#,
        r#"broker_requests_waiting{pipeline="shop",broker="1",stage="unsent"} 1"#,
        r#"broker_requests_waiting{pipeline="shop",broker="1",stage="unanswered"} 5"#,
        r#"broker_records_waiting{pipeline="shop",broker="1",stage="unsent"} 20"#,
        r#"broker_records_waiting{pipeline="shop",broker="1",stage="unanswered"} 400"#,
        r#"broker_rtt_seconds{pipeline="shop",broker="1",stat="mean"} 0.0025"#,
        r#"broker_rtt_seconds{pipeline="shop",broker="1",stat="p50"} 0.002"#,
        r#"broker_rtt_seconds{pipeline="shop",broker="1",stat="p99"} 0.02"#,
        r#"broker_rtt_seconds{pipeline="shop",broker="1",stat="max"} 0.025"#,
        r#"broker_requests_total{pipeline="shop",broker="1"} 1000"#,
        r#"broker_sent_bytes_total{pipeline="shop",broker="1"} 500000"#,
        r#"broker_received_bytes_total{pipeline="shop",broker="1"} 60000"#,
        r#"broker_send_errors_total{pipeline="shop",broker="1"} 1"#,
        r#"broker_retries_total{pipeline="shop",broker="1"} 2"#,
        r#"broker_request_timeouts_total{pipeline="shop",broker="1"} 3"#,
        r#"broker_connects_total{pipeline="shop",broker="1"} 5"#,
        r#"broker_disconnects_total{pipeline="shop",broker="1"} 4"#,
        r#"broker_throttle_seconds_total{pipeline="shop",broker="1"} 1.5"#,
    ] {
        let line = format!("outbox_kafka_{line}");
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    let unmeasured = r#"outbox_kafka_broker_rtt_seconds{pipeline="shop",broker="2""#;
    assert!(!text.contains(unmeasured), "a zero would look like a fast broker:\n{text}");
}

#[tokio::test]
async fn without_statistics_there_is_no_series_of_a_broker() {
    let endpoint = admin_fixture::start_without_statistics().await;
    let text = endpoint.get("/metrics").await;
    assert!(text.contains("\noutbox_state{") && !text.contains("outbox_kafka_"), "{text}");
}
