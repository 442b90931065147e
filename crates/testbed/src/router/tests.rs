use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const SOON: Duration = Duration::from_secs(10);

/// A router whose program is a shell script.
fn scripted(script: &str) -> RouterProcess {
    let router = RouterProcess::with_config("name = \"x\"").unwrap();
    let program = router.dir().join("program");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    router.program(program)
}

/// Answers one request after another, each with the next body.
async fn answer(listener: TcpListener, bodies: &[&str]) {
    for body in bodies {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1000];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        let text = format!("HTTP/1.0 200 OK\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn waiting_for_a_state_ends_when_the_endpoint_reports_it() {
    let mut router = scripted("exec sleep 600");
    router.start_again().unwrap();
    let listener = TcpListener::bind(router.admin()).await.unwrap();
    let bodies = [r#"{"state": "starting"}"#, r#"{"state": "streaming", "lag": 1}"#];
    let (status, ()) =
        tokio::join!(router.wait_state("streaming", SOON), answer(listener, &bodies));
    assert_eq!(status.unwrap()["lag"], 1);
    router.kill9().await.unwrap();
    router.start_again().unwrap();
}

#[tokio::test]
async fn waiting_for_a_state_fails_with_the_log_if_the_router_ends() {
    let mut router = scripted("echo the reason; exit 78");
    router.start_again().unwrap();
    let error = router.wait_state("streaming", SOON).await.unwrap_err();
    let message = format!("{error:#}");
    assert!(message.contains("the reason") && message.contains("exit status: 78"), "{message}");
}

#[tokio::test]
async fn sigterm_reaches_the_program_and_its_exit_code_is_returned() {
    let mut router = scripted("trap 'exit 75' TERM; echo ready; while :; do sleep 0.05; done");
    router.start_again().unwrap();
    eventually(SOON, "the script", async || Ok(router.log().contains("ready").then_some(())))
        .await
        .unwrap();
    router.sigterm().unwrap();
    assert_eq!(router.wait_exit(SOON).await.unwrap().code(), Some(75));
}

#[tokio::test]
async fn commands_run_with_the_configuration_and_the_environment() {
    let router = scripted("echo \"$1 $2 $OUTBOX_ROUTER__NAME\"; cat \"$3\"");
    let router = router.env("OUTBOX_ROUTER__NAME", "y");
    let output = router.command(&["check"]).await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "check --config y\nname = \"x\"");
}

const METRICS: &str = "# TYPE outbox_events_total counter\n\
    outbox_events_total{topic=\"a b\"} 3\noutbox_events_total{topic=\"c\"} 4\n\
    outbox_events_total_other 100\noutbox_window_events 7 1700000000\n";

#[test]
fn series_of_a_metric_are_summed_without_those_of_longer_names() {
    assert_eq!(sum_of_series(METRICS, "outbox_events_total", ""), Some(7.0));
    assert_eq!(sum_of_series(METRICS, "outbox_events_total", "topic=\"c\""), Some(4.0));
    assert_eq!(sum_of_series(METRICS, "outbox_window_events", ""), Some(7.0));
}

#[test]
fn a_missing_series_is_none_and_not_zero() {
    assert_eq!(sum_of_series(METRICS, "outbox_state", ""), None);
}
