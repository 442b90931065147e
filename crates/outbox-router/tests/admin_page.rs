//! The page over HTTP: its policy, its size, and a stream of events that leaves room for others.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

#[allow(dead_code, reason = "what the monitor says is changed by other tests")]
mod admin_fixture;

use std::time::Duration;

use admin_fixture::start;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use relay::{Code, Failure, State};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

/// The policy, which allows the style of this page and nothing else that is inline.
fn policy(page: &str) -> String {
    let (_, rest) = page.split_once("<style>").unwrap();
    let (style, _) = rest.split_once("</style>").unwrap();
    let hash = BASE64_STANDARD.encode(Sha256::digest(style));
    format!(
        "content-security-policy: default-src 'none'; style-src 'sha256-{hash}'; \
         script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// A busy machine is slow; a stream that did not end would be cut after twelve seconds.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn every_file_of_the_page_has_the_policy_and_all_are_small() {
    let endpoint = start().await;
    let policy = policy(&endpoint.get("/").await);
    let mut bytes = 0;
    for (path, kind) in
        [("/", "text/html; charset=utf-8"), ("/page/script.js", "text/javascript; charset=utf-8")]
    {
        let (code, head, body) = endpoint.ask("GET", path).await;
        assert_eq!(code, 200, "{path}");
        let has = |line: &str| assert!(head.lines().any(|found| found == line), "{line}: {head}");
        has(&policy.to_lowercase());
        has("x-content-type-options: nosniff");
        has("referrer-policy: no-referrer");
        has("cache-control: no-store");
        has(&format!("content-type: {kind}"));
        bytes += body.len();
    }
    assert!(bytes < 100_000, "{bytes}");
    let (code, head, _) = endpoint.ask("POST", "/").await;
    assert_eq!(code, 405, "{head}");
    let (code, _, body) = endpoint.ask("GET", "/favicon.ico").await;
    assert_eq!(code, 404);
    assert!(body.contains("there are /, /metrics"), "{body}");
}

#[tokio::test]
async fn page_and_document_have_the_same_verdict() {
    let endpoint = start().await;
    endpoint.relay.send_modify(|report| {
        report.snapshot.condition.state = State::Blocked;
        report.snapshot.condition.reason = Some(Failure::new(Code::KafkaUnreachable, "no broker"));
    });
    let page = endpoint.get("/").await;
    let status: serde_json::Value =
        serde_json::from_str(&endpoint.get("/status.json").await).unwrap();
    assert_eq!(status["verdict"]["word"], "blocked");
    assert!(page.contains("<h1>BLOCKED</h1>") && page.contains("No broker (K001)"), "{page}");
    // The page shows each command in a box of its own, and the prose around it.
    let to_do = &status["verdict"]["to_do"][0];
    let commands = to_do["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 1, "{to_do}");
    let command = commands[0].as_str().unwrap();
    let (prose, _) = to_do["hint"].as_str().unwrap().split_once(command).unwrap();
    for shown in [command, prose.trim_end()] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}

/// The connection would be cut after ten seconds, and the browser's console would say so.
#[tokio::test]
async fn a_stream_ends_by_itself_and_sends_again_only_what_has_changed() {
    let endpoint = start().await;
    let began = Instant::now();
    let (code, head, body) = endpoint.ask("GET", "/page/events").await;
    let took = began.elapsed();
    assert_eq!(code, 200);
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(took >= Duration::from_secs(3), "{took:?}");
    assert!(body.ends_with("\r\n0\r\n\r\n"), "the answer is whole: {body}");
    assert_eq!(body.matches("event: at").count(), 5, "{body}");
    assert!(body.contains("retry: 1000"), "{body}");
    assert_eq!(body.matches("event: topics").count(), 1, "{body}");
    assert_eq!(body.matches("event: head").count(), 5, "its clock changes: {body}");
}

/// Pages that are left open must not keep a probe from its answer.
#[tokio::test]
async fn forty_open_pages_leave_room_for_probes_and_are_answered_too() {
    let endpoint = start().await;
    let mut pages = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(endpoint.address).await.unwrap();
        let request = b"GET /page/events HTTP/1.1\r\nhost: admin\r\n\r\n";
        stream.write_all(request).await.unwrap();
        pages.push(stream);
    }
    let mut first = String::new();
    tokio::select! {
        biased;
        probe = endpoint.ask("GET", "/livez") => assert_eq!(probe.0, 200),
        _ = pages[0].read_to_string(&mut first) => panic!("the probe waits for a page: {first}"),
    }
    let mut patient = 0;
    for mut page in pages {
        let mut answer = String::new();
        timeout(DEADLINE, page.read_to_string(&mut answer)).await.unwrap().unwrap();
        let answer = std::mem::take(&mut first) + &answer;
        assert!(answer.contains("event: verdict"), "{answer}");
        patient += usize::from(answer.contains("retry: 4000"));
    }
    assert_eq!(patient, 32, "eight have a seat");
}
