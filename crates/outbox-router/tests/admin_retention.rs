//! What `/metrics` and `/status.json` show of retention.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

#[allow(dead_code, reason = "what changes the answers is for the endpoint's own tests")]
mod admin_fixture;

use serde_json::{Value, json};

#[tokio::test]
async fn what_retention_does_is_in_the_metrics() {
    let text = admin_fixture::start().await.get("/metrics").await;
    for line in [
        r#"outbox_retention_deleted_total{pipeline="shop",table="public.outbox"} 30"#,
        r#"outbox_retention_errors_total{pipeline="shop"} 1"#,
        r#"outbox_retention_last_success_timestamp_seconds{pipeline="shop"} 1800000000"#,
        r#"outbox_retention_keep_seconds{pipeline="shop"} 86400"#,
        r#"outbox_table_rows{pipeline="shop",table="public.outbox"} 70"#,
        r#"outbox_table_bytes{pipeline="shop",table="public.outbox"} 16384"#,
        r#"outbox_table_oldest_row_seconds{pipeline="shop",table="public.outbox"} 86410.5"#,
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
}

#[tokio::test]
async fn what_retention_does_is_in_the_status() {
    let body = admin_fixture::start().await.get("/status.json").await;
    let mut status: Value = serde_json::from_str(&body).unwrap();
    let mut retention = status["retention"].take();
    let failure = retention["failure"].take();
    assert_eq!(failure["code"], "P038");
    assert!(failure["hint"].as_str().unwrap().starts_with("who holds it: select pid"));
    let expected = json!({
        "on": true,
        "keep_seconds": 86_400.0,
        "last_success": 1_800_000_000.0,
        "errors": 1,
        "failure": null,
        "waits": null,
        "abandoned_removed": 2,
        "tables": [{
            "table": "public.outbox",
            "removed": 30,
            "older": 0,
            "rows": 70,
            "bytes": 16_384,
            "oldest_seconds": 86_410.5,
        }],
    });
    assert_eq!(retention, expected);
}
