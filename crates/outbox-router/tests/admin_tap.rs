//! `/tap` over a real socket: what it answers where nothing is routed, and what it refuses.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

#[allow(dead_code, reason = "what changes the answers is for the endpoint's other tests")]
mod admin_fixture;

use std::time::Duration;

use admin_fixture::start;
use serde_json::{Value, json};
use tokio::time::timeout;

#[tokio::test]
async fn a_tap_is_named_asked_and_ended() {
    let endpoint = start().await;
    let (code, head, body) = endpoint.ask("GET", "/tap?topic=outbox%2e%2A").await;
    assert_eq!(code, 200);
    assert!(head.contains("content-type: application/x-ndjson"), "{head}");
    let opened: Value = serde_json::from_str(&body).unwrap();
    let id = opened["id"].as_str().unwrap();
    assert_eq!(opened, json!({ "kind": "tap", "id": id, "after": 0 }));

    // Nothing is routed, and it answers all the same.
    let next = format!("/tap?id={id}&after=0");
    let asked = timeout(Duration::from_secs(8), endpoint.get(&next)).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&asked).unwrap(), opened);

    assert_eq!(endpoint.get(&format!("/tap?id={id}&end")).await, "");
    assert_eq!(endpoint.ask("GET", &next).await.0, 410);
}

/// Four of them would keep the operator out for a minute.
#[tokio::test]
async fn a_web_page_opens_no_tap() {
    let endpoint = start().await;
    for _ in 0..5 {
        let headers = ["host: 127.0.0.1:8788", "origin: https://attacker.example"];
        let (code, _, body) = endpoint.ask_with("GET", "/tap", &headers).await;
        assert_eq!(code, 403, "{body}");
        assert!(body.contains("send the header x-outbox-router: 1"), "{body}");
    }
    endpoint.get("/tap").await;
}

#[tokio::test]
async fn what_cannot_be_shown_is_refused_with_a_reason() {
    let endpoint = start().await;
    for (path, code, why) in [
        ("/tap?content=true", 403, "admin.tap = \\\"content\\\""),
        ("/tap?key=order-7", 403, "admin.tap = \\\"content\\\""),
        ("/tap?topics=x", 400, "there are topic, key,"),
        ("/tap?topic=%ff", 400, "topic is not UTF-8"),
        ("/tap?id=x&after=-1", 400, "after is no number"),
        ("/tap?id=x", 410, "no such tap"),
    ] {
        let (found, _, body) = endpoint.ask("GET", path).await;
        assert_eq!(found, code, "{path}: {body}");
        assert!(body.contains(why), "{path}: {body}");
    }
    for _ in 0..4 {
        endpoint.get("/tap").await;
    }
    let (code, _, body) = endpoint.ask("GET", "/tap").await;
    assert_eq!(code, 503);
    assert!(body.contains("4 taps of this router are open"), "{body}");
}
