//! What the probes add to what `admin.rs` shows: when the start is over, and the list of checks.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

#[allow(dead_code, reason = "the figures are for the endpoint's own tests")]
mod admin_fixture;

use std::{sync::Arc, time::Duration};

use admin_fixture::{Endpoint, snapshot, start};
use outbox_router::monitor::{Gap, Interval, Mark, ObservedSlot, RelayReport};
use relay::{
    Code, Failure, Lsn, State,
    source::{Baseline, TableOids},
    testing::{Source, wire::TEXT},
};
use serde_json::{Value, json};
use tokio::time::Instant;

impl Endpoint {
    fn is_in(&self, state: State, reason: Option<Failure>) {
        self.relay.send_modify(|report| {
            report.snapshot.condition.state = state;
            report.snapshot.condition.reason = reason;
            report.published_at = Instant::now();
        });
    }

    async fn code(&self, path: &str) -> u16 {
        self.ask("GET", path).await.0
    }
}

/// What a session begins with.
fn baseline() -> Baseline {
    let source = Source::of("outbox", 16_400, &[("id", TEXT)]);
    let reading = source.slot_reading();
    Baseline {
        server: source.server(),
        checked: reading.mark(),
        moment: reading.moment(),
        slot: reading.slot.unwrap(),
        catalog: source.catalog(),
        alterations: Vec::new(),
        tables: TableOids::default(),
    }
}

#[tokio::test]
async fn the_start_is_not_over_while_a_server_does_not_answer() {
    let endpoint = start().await;
    endpoint.is_in(State::Starting, None);
    assert_eq!(endpoint.code("/startupz").await, 503);
    endpoint.is_in(State::Starting, Some(Failure::new(Code::ServerUnreachable, "no answer")));
    let (code, _, body) = endpoint.ask("GET", "/startupz").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &body["reason"]["code"]), (503, &json!("P001")));
    // Kafka cannot be reached: the first session waits for it.
    endpoint.is_in(State::Blocked, Some(Failure::new(Code::KafkaUnreachable, "no broker")));
    assert_eq!(endpoint.code("/startupz").await, 503);
}

#[tokio::test]
async fn the_start_is_over_with_the_first_session_a_standby_or_a_persons_task() {
    for state in [State::Streaming, State::Standby, State::Failed] {
        let endpoint = start().await;
        endpoint.is_in(State::Starting, None);
        assert_eq!(endpoint.code("/startupz").await, 503, "{state:?}");
        endpoint.is_in(state, None);
        assert_eq!(endpoint.code("/startupz").await, 200, "{state:?}");
        endpoint.is_in(State::Starting, None);
        assert_eq!(endpoint.code("/startupz").await, 200, "it is over for good: {state:?}");
    }
    let endpoint = start().await;
    endpoint.is_in(State::Starting, None);
    let mark = Mark { lsn: Lsn::from_u64(0x100), at: None };
    let interval = Interval { from: None, to: mark };
    let gap = Gap::new(Failure::new(Code::SlotMissing, "gone"), interval);
    endpoint.monitor.send_modify(|report| report.gap = Some(gap));
    assert_eq!(endpoint.code("/startupz").await, 200);
}

/// Nobody asked while it streamed: the session's baseline shows that it did.
#[tokio::test]
async fn a_session_that_is_over_still_ends_the_start() {
    let endpoint = start().await;
    endpoint.is_in(State::Starting, None);
    endpoint.relay.send_modify(|report| {
        report.snapshot.baseline = Some(Arc::new(baseline()));
    });
    assert_eq!(endpoint.code("/startupz").await, 200);
}

#[tokio::test]
async fn verbose_lists_every_check_as_text() {
    let endpoint = start().await;
    let page = |path: &'static str| endpoint.ask("GET", path);
    let (code, head, body) = page("/readyz?verbose").await;
    assert!(head.contains("content-type: text/plain"), "{head}");
    let passed = "[+]relay ok\n[+]monitor ok\n[+]gaps ok\n[+]stream ok\nreadyz check passed\n";
    assert_eq!((code, body.as_str()), (200, passed));
    assert_eq!(
        page("/livez?verbose=1").await.2,
        "[+]relay ok\n[+]monitor ok\nlivez check passed\n"
    );
    assert_eq!(page("/startupz?a=b&verbose").await.2, "[+]start ok\nstartupz check passed\n");

    let failure = Failure::new(Code::KafkaUnreachable, "no broker\nanswers");
    endpoint.is_in(State::Blocked, Some(failure));
    let (code, _, body) = page("/readyz?verbose").await;
    let failed = "[+]relay ok\n[+]monitor ok\n[+]gaps ok\n\
         [-]stream failed: K001 no broker answers\nreadyz check failed\n";
    assert_eq!((code, body.as_str()), (503, failed));
    assert_eq!(page("/livez?verbose").await.0, 200);

    let long_ago = Instant::now().checked_sub(Duration::from_secs(31)).unwrap();
    endpoint.relay.send_replace(RelayReport::initial(snapshot(State::Streaming), long_ago));
    let (code, _, body) = page("/livez?verbose").await;
    assert_eq!(code, 503);
    assert!(body.starts_with("[-]relay failed: stale the streaming task has reported"), "{body}");
    assert!(body.ends_with("[+]monitor ok\nlivez check failed\n"), "{body}");
}

/// Programs read the body of today.
#[tokio::test]
async fn without_verbose_the_answers_are_json() {
    let endpoint = start().await;
    endpoint.monitor.send_modify(|report| report.slot = ObservedSlot::Unknown);
    for path in ["/livez", "/readyz", "/startupz", "/readyz?verbosely", "/readyz?quiet=verbose"] {
        let (_, head, body) = endpoint.ask("GET", path).await;
        assert!(head.contains("content-type: application/json"), "{path}: {head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let expected = json!({"status": "ok", "state": "streaming", "reason": null});
        assert_eq!(body, expected, "{path}");
    }
}
