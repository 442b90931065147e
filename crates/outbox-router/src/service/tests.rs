//! What is said when, by a view that the test makes.

use std::time::SystemTime;

use relay::{Code, Failure, HeldReport, State, Window, testing::samples};

use super::*;
use crate::{
    admin::{AdminSettings, standing::standing, view::View},
    monitor::{MonitorReport, ObservedSlot, RelayReport, Thresholds},
    retention::{RetentionReport, RetentionSettings},
    status::{Observed, facts::RELAY_STALE_AFTER},
};

fn settings() -> AdminSettings {
    AdminSettings {
        name: "shop".to_owned(),
        slot: "shop_slot".to_owned(),
        thresholds: Thresholds { warning: 1, critical: 2 },
        keep: None,
        hosts: Vec::new(),
        window: Window { events: 1, bytes: 1 },
    }
}

fn view(settings: &AdminSettings, state: State) -> View<'_> {
    let now = Instant::now();
    let mut monitor = MonitorReport::initial(now);
    monitor.slot = ObservedSlot::Seen(samples::slot());
    let config = crate::config::Config::default();
    View {
        settings,
        relay: RelayReport::initial(samples::snapshot(state), now),
        monitor,
        observed: Observed::begin(now),
        retention: RetentionReport::initial(
            &RetentionSettings::of(&config),
            SystemTime::UNIX_EPOCH,
        ),
        brokers: None,
        now,
    }
}

/// The messages as they are on the wire, without the status line's figures.
fn said(reporter: &mut Reporter, view: &View<'_>) -> Vec<String> {
    let line = |message: &NotifyState<'_>| message.to_string();
    reporter.messages(&standing(view)).iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn ready_is_said_once_and_not_before_the_start_is_over() {
    let settings = settings();
    let mut reporter = Reporter::new(None);
    let mut starting = view(&settings, State::Starting);
    starting.relay.snapshot.condition.reason =
        Some(Failure::new(Code::ServerUnreachable, "no\nanswer"));
    let first = said(&mut reporter, &starting);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0], "STATUS=blocked: no answer (P001)");
    assert!(said(&mut reporter, &starting).is_empty(), "the line is not due");

    let streaming = said(&mut reporter, &view(&settings, State::Streaming));
    assert_eq!(streaming[0], "READY=1");
    assert!(streaming[1].starts_with("STATUS=catching_up: "), "{streaming:?}");
    assert!(said(&mut reporter, &view(&settings, State::Streaming)).is_empty());
    tokio::time::advance(STATUS_EVERY).await;
    let later = said(&mut reporter, &view(&settings, State::Streaming));
    assert_eq!(later.len(), 1, "{later:?}");
    assert!(later[0].ends_with(", 0 events/s"), "{later:?}");
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_is_fed_only_while_the_streaming_task_ticks() {
    let settings = settings();
    let mut reporter = Reporter::new(Some(Duration::from_secs(30)));
    // A person is needed, and a restart would not help.
    let failed = view(&settings, State::Failed);
    assert!(said(&mut reporter, &failed).contains(&"WATCHDOG=1".to_owned()));
    assert_eq!(said(&mut reporter, &failed), ["WATCHDOG=1"]);
    let mut hangs = view(&settings, State::Streaming);
    hangs.now = hangs.relay.published_at + RELAY_STALE_AFTER + Duration::from_secs(1);
    let messages = said(&mut reporter, &hangs);
    assert!(!messages.contains(&"WATCHDOG=1".to_owned()), "{messages:?}");
    assert!(said(&mut Reporter::new(None), &failed).iter().all(|line| line != "WATCHDOG=1"));
}

#[tokio::test(start_paused = true)]
async fn stopping_is_said_once_even_before_the_start_is_over() {
    let settings = settings();
    let mut reporter = Reporter::new(None);
    reporter.stops();
    let draining = view(&settings, State::Draining);
    let messages = said(&mut reporter, &draining);
    assert_eq!(messages[0], "STOPPING=1", "{messages:?}");
    let stops = "STATUS=catching_up: the router stops, and delivers what it has read";
    assert_eq!(messages[1], stops);
    assert!(said(&mut reporter, &view(&settings, State::Streaming)).is_empty());
    assert!(reporter.is_stopping());
}

#[test]
fn a_short_watchdog_is_fed_three_times_in_its_time() {
    assert_eq!(period(None), Duration::from_secs(1));
    assert_eq!(period(Some(Duration::from_secs(90))), Duration::from_secs(1));
    assert_eq!(period(Some(Duration::from_millis(600))), Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn the_line_a_minute_says_verdict_distance_and_events() {
    let settings = settings();
    let mut seen = view(&settings, State::Blocked);
    let failure = Failure::new(Code::TopicMissing, "topic x does not exist");
    let lines = crate::telemetry::tests::lines_of(|| {
        minute::write(&standing(&seen), 1_240);
        seen.monitor.slot = ObservedSlot::Unknown;
        seen.relay.snapshot.condition.reason = Some(failure.clone());
        minute::write(&standing(&seen), 0);
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["level"], &lines[0]["state"]), (&"INFO".into(), &"blocked".into()));
    assert_eq!((&lines[0]["events"], lines[0]["behind_bytes"].is_u64()), (&1_240.into(), true));
    let message = "blocked: nothing is acknowledged; 1240 events acknowledged in the last minute";
    assert_eq!(lines[0]["message"], message);
    let code = failure.code.as_str();
    let message = format!(
        "blocked: topic x does not exist ({code}); 0 events acknowledged in the last minute"
    );
    assert_eq!(lines[1]["message"], message);
    assert_eq!((&lines[1]["verdict"], &lines[1]["code"]), (&"blocked".into(), &code.into()));
    assert!(lines[1]["behind_bytes"].is_null());
}

/// No two of log, service manager and `/status.json` can disagree.
#[tokio::test(start_paused = true)]
async fn every_state_is_told_in_the_words_of_the_verdict() {
    let settings = settings();
    for state in State::ALL {
        let mut seen = view(&settings, state);
        seen.relay.snapshot.condition.reason = Some(Failure::new(Code::TopicMissing, "no topic"));
        let verdict = seen.verdict(&seen.facts());
        let told = format!("{}: {}", verdict.word.as_str(), verdict.sentence);
        let status = said(&mut Reporter::new(None), &seen);
        assert!(status.contains(&format!("STATUS={told}")), "{status:?}");
        let lines = crate::telemetry::tests::lines_of(|| minute::write(&standing(&seen), 7));
        assert!(lines[0]["message"].as_str().unwrap().starts_with(&format!("{told}; ")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sentence_that_is_cut_keeps_its_code() {
    let settings = settings();
    let mut seen = view(&settings, State::Failed);
    let long = Failure::new(Code::TopicMissing, "x".repeat(400));
    seen.relay.snapshot.condition.reason = Some(long.clone());
    let status = said(&mut Reporter::new(None), &seen);
    let end = format!("xxx… ({})", long.code.as_str());
    assert!(status.iter().any(|line| line.ends_with(&end) && line.len() < 220), "{status:?}");
}

#[test]
fn decisions_that_took_effect_are_a_line_and_nothing_else_is() {
    let mut report = HeldReport::default();
    let mut left = decisions::Left::default();
    let lines = crate::telemetry::tests::lines_of(|| {
        left.write(&report);
        report.totals.delivered = 3;
        report.totals.dropped = 1;
        report.held.events = 12;
        left.write(&report);
        left.write(&report);
        (report.totals.dropped, report.held.events) = (2, 0);
        left.write(&report);
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    let message =
        "as was decided, 3 events that were held are delivered, and 1 dropped; 12 events are held";
    assert_eq!((&lines[0]["message"], &lines[0]["level"]), (&message.into(), &"INFO".into()));
    assert_eq!((&lines[1]["delivered"], &lines[1]["dropped"]), (&0.into(), &1.into()));
    assert!(lines[1]["message"].as_str().unwrap().ends_with("; none is held"), "{lines:?}");
}
