//! Events for which the channel to the streaming task has no room; and when a gap is over.

use std::time::Duration;

use relay::{
    Code, OutboxTable, Outboxes, State, TableName, Window, WitnessReport,
    source::{Gap, SlotReading},
    testing::{Source, samples::snapshot, wire::TEXT},
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::super::*;
use crate::monitor::{RelayReport, Thresholds};

const COLUMNS: [(&str, u32); 5] = [
    ("id", 2950),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
];

/// A monitor beside a stream, and the streaming task's end of a channel with room for one event.
fn monitor() -> (Monitor<()>, mpsc::Receiver<MonitorEvent>) {
    let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
    let thresholds = Thresholds { warning: 1 << 20, critical: 4 << 20 };
    let settings = MonitorSettings {
        name: "monitor".to_owned(),
        slot: "s".to_owned(),
        publication: "p".to_owned(),
        outboxes: Outboxes {
            tables: vec![OutboxTable::with_defaults(name)],
            ..Outboxes::default()
        },
        interval: Duration::from_secs(5),
        thresholds,
        window: Window { events: 1_000, bytes: 1 << 20 },
    };
    let now = Instant::now();
    let streaming = RelayReport::initial(snapshot(State::Streaming), now);
    let (_, relay) = watch::channel(streaming);
    let (report, _) = watch::channel(MonitorReport::initial(now));
    let (sender, events) = mpsc::channel(1);
    let monitor = Monitor::new(settings, (), Channels { relay, events: sender, report });
    (monitor, events)
}

/// Fills the channel, as if the streaming task did not read it for a while.
fn fill(monitor: &Monitor<()>) {
    let source = Source::of("outbox", 16_400, &COLUMNS);
    let state = SourceState { reading: source.slot_reading(), catalog: source.catalog() };
    monitor.channels.events.try_send(MonitorEvent::SourceVerified(Box::new(state))).unwrap();
}

fn assert_only_the_good_reading(events: &mut mpsc::Receiver<MonitorEvent>) {
    assert!(matches!(events.try_recv(), Ok(MonitorEvent::SourceVerified(_))));
    assert!(events.is_empty(), "there was no room");
}

#[test]
fn a_gap_that_found_the_channel_full_is_sent_after_the_next_check_and_then_no_more() {
    let (mut monitor, mut events) = monitor();
    let source = Source::of("outbox", 16_400, &COLUMNS);
    monitor.check(&source.slot_reading(), source.catalog(), Vec::new());
    assert_eq!(monitor.report.findings, []);
    let gone = SlotReading { slot: None, ..source.slot_reading() };
    fill(&monitor);
    monitor.check(&gone, source.catalog(), Vec::new());
    assert_only_the_good_reading(&mut events);

    monitor.check(&gone, source.catalog(), Vec::new());
    let Ok(MonitorEvent::GapSuspected(gap)) = events.try_recv() else { panic!("it is not sent") };
    assert_eq!(gap.failure.code, Code::SlotMissing);
    monitor.check(&gone, source.catalog(), Vec::new());
    assert!(events.is_empty(), "it was sent");
}

/// P034 is a note. As a defect, it would keep every reading from counting as good, and no standby
/// would take over.
#[test]
fn an_outdated_server_is_reported_and_its_readings_still_count_as_good() {
    let (mut monitor, _events) = monitor();
    let source = Source::of("outbox", 16_400, &COLUMNS);
    let notes = notes(&[], 17_00_04);
    monitor.check(&source.slot_reading(), source.catalog(), notes.clone());
    assert_eq!(monitor.report.findings, notes);
    assert_eq!(notes[0].code, Code::ServerOutdated);
    assert!(monitor.last_good.is_some());
}

#[test]
fn a_stop_that_found_the_channel_full_is_sent_after_the_next_check_and_then_no_more() {
    let (mut monitor, mut events) = monitor();
    let stops = || Failure::new(Code::ServerNotReady, "the database system is shutting down");
    fill(&monitor);
    monitor.not_read(stops());
    assert_only_the_good_reading(&mut events);

    monitor.not_read(stops());
    assert_eq!(events.try_recv(), Ok(MonitorEvent::ServerStopping));
    monitor.not_read(stops());
    assert!(events.is_empty(), "it was sent");
}

/// Begins a session that has found this alteration between its witness and now.
fn begin(monitor: &mut Monitor<()>, source: &Source) {
    let mut snapshot = snapshot(State::Streaming);
    let server = relay::source::Server {
        version: 18_00_01,
        encoding: relay::source::ServerEncoding::SqlAscii,
        history: History { system_id: "1".to_owned(), timeline: 1 },
        wal_end: source.slot_reading().current_wal_lsn,
        note_writes: None,
    };
    let reading = source.slot_reading();
    snapshot.baseline = Some(Arc::new(Baseline {
        server,
        checked: reading.mark(),
        moment: reading.moment(),
        slot: reading.slot.unwrap(),
        catalog: owned_by_another(source),
        alterations: vec![Failure::new(Code::PublicationAltered, "it was altered")],
        tables: relay::source::TableOids::default(),
    }));
    let now = Instant::now();
    let report = RelayReport::initial(snapshot, now);
    (_, monitor.channels.relay) = watch::channel(report);
    monitor.before();
}

fn owned_by_another(source: &Source) -> Catalog {
    let mut catalog = source.catalog();
    let publication = catalog.publication.as_mut().unwrap();
    (publication.written_by, publication.owner) = (2_000, relay::source::Oid::from_u32(9));
    catalog
}

#[test]
fn an_alteration_before_the_session_is_shown_once_even_if_the_monitor_read_it_first() {
    let source = Source::of("outbox", 16_400, &COLUMNS);
    // The monitor of a new process has read only the altered publication.
    let (mut late, _events) = monitor();
    late.check(&source.slot_reading(), owned_by_another(&source), Vec::new());
    begin(&mut late, &source);
    assert_eq!(late.report.alterations.len(), 1);
    assert_eq!(late.report.alterations[0].message, "it was altered");

    // Another monitor has read the publication before and after the alteration.
    let (mut early, _events) = monitor();
    early.check(&source.slot_reading(), source.catalog(), Vec::new());
    early.check(&source.slot_reading(), owned_by_another(&source), Vec::new());
    assert_eq!(early.report.alterations.len(), 1);
    begin(&mut early, &source);
    assert_eq!(early.report.alterations.len(), 1, "{:?}", early.report.alterations);
    begin(&mut early, &source);
    assert_eq!(early.report.alterations.len(), 2, "of the next session");
}

/// Sets what the streaming task publishes from now on.
fn relay_says(monitor: &mut Monitor<()>, state: State, generation: u64, gaps: Vec<Gap>) {
    let witness = WitnessReport { generation, gaps, ..WitnessReport::default() };
    let snapshot = Snapshot { witness, ..snapshot(state) };
    let (_, relay) = watch::channel(RelayReport::initial(snapshot, Instant::now()));
    monitor.channels.relay = relay;
}

/// The slot as it is while another router's walsender holds it.
fn held_by(source: &Source, pid: Option<i32>) -> SlotReading {
    let mut reading = source.slot_reading();
    reading.slot.as_mut().unwrap().active_pid = pid;
    reading
}

/// A standby that has read a good state, and then a re-created publication.
fn standby_with_a_gap() -> (Monitor<()>, mpsc::Receiver<MonitorEvent>, Catalog) {
    standby_with_a_gap_at(1)
}

fn standby_with_a_gap_at(generation: u64) -> (Monitor<()>, mpsc::Receiver<MonitorEvent>, Catalog) {
    let (mut monitor, mut events) = monitor();
    relay_says(&mut monitor, State::Standby, generation, vec![]);
    let source = Source::of("outbox", 16_400, &COLUMNS);
    monitor.check(&held_by(&source, Some(7)), source.catalog(), Vec::new());
    assert!(events.is_empty(), "there is room for what is wrong alone");
    let mut replaced = source.catalog();
    replaced.publication.as_mut().unwrap().oid = relay::source::Oid::from_u32(99_999);
    monitor.check(&held_by(&source, Some(7)), replaced.clone(), Vec::new());
    let Ok(MonitorEvent::GapSuspected(gap)) = events.try_recv() else { panic!("it is not sent") };
    assert_eq!(gap.failure.code, Code::PublicationReplaced);
    assert!(monitor.report.gap.is_some());
    (monitor, events, replaced)
}

/// A standby begins no session, so it has no baseline of its own that would end a gap.
#[test]
fn a_gap_that_was_accepted_is_over_on_a_standby_too_and_the_same_one_is_reported_again() {
    let (mut monitor, mut events, replaced) = standby_with_a_gap();
    let source = Source::of("outbox", 16_400, &COLUMNS);
    let open = monitor.report.gap.clone().unwrap();
    relay_says(&mut monitor, State::Failed, 2, vec![open]);
    monitor.check(&held_by(&source, None), replaced.clone(), Vec::new());
    assert!(monitor.report.gap.is_some(), "nobody has accepted it");

    relay_says(&mut monitor, State::Standby, 3, vec![]);
    monitor.check(&held_by(&source, Some(8)), replaced.clone(), Vec::new());
    assert_eq!((&monitor.report.gap, &*monitor.report.findings), (&None, &[][..]));
    monitor.check(&held_by(&source, Some(8)), replaced, Vec::new());
    while events.try_recv().is_ok() {}

    monitor.check(&held_by(&source, Some(8)), source.catalog(), Vec::new());
    assert!(monitor.report.gap.is_some());
    let Ok(MonitorEvent::GapSuspected(gap)) = events.try_recv() else { panic!("it is not sent") };
    assert_eq!(gap.failure.code, Code::PublicationReplaced);
}

/// The gap ends by what the streaming task has read, whether or not PostgreSQL answers the monitor.
#[test]
fn a_gap_that_was_accepted_is_over_although_the_monitor_sees_nothing() {
    let (mut monitor, _events, _) = standby_with_a_gap();
    relay_says(&mut monitor, State::Standby, 3, vec![]);
    monitor.not_read(Failure::new(Code::ServerUnreachable, "no route"));
    assert_eq!(monitor.report.gap, None);
}

/// A router that begins a session checks everything before it, so a session that begins after the
/// gap was found would have found it. The session that already held the slot may only have missed
/// what is no longer wrong.
#[test]
fn a_defect_that_is_gone_is_over_once_another_session_holds_the_slot() {
    let (mut monitor, mut events, replaced) = standby_with_a_gap();
    let source = Source::of("outbox", 16_400, &COLUMNS);
    monitor.check(&held_by(&source, Some(7)), source.catalog(), Vec::new());
    assert!(monitor.report.gap.is_some(), "the session of before");
    monitor.check(&held_by(&source, None), source.catalog(), Vec::new());
    assert!(monitor.report.gap.is_some(), "nobody has judged it");
    monitor.check(&held_by(&source, Some(8)), replaced.clone(), Vec::new());
    assert!(monitor.report.gap.is_some(), "it is wrong still");
    monitor.check(&held_by(&source, Some(8)), source.catalog(), Vec::new());
    assert_eq!(monitor.report.gap, None);
    while events.try_recv().is_ok() {}
    monitor.check(&held_by(&source, Some(8)), replaced, Vec::new());
    assert!(matches!(events.try_recv(), Ok(MonitorEvent::GapSuspected(_))), "it is sent again");
}

/// The gap is left to the streaming task of the monitor's own process: that task has halted, or
/// will.
#[test]
fn a_gap_of_the_router_that_streams_is_over_only_with_its_acceptance() {
    let (mut monitor, mut events) = monitor();
    relay_says(&mut monitor, State::Streaming, 1, vec![]);
    let source = Source::of("outbox", 16_400, &COLUMNS);
    monitor.check(&held_by(&source, Some(7)), source.catalog(), Vec::new());
    while events.try_recv().is_ok() {}
    let gone = SlotReading { slot: None, ..source.slot_reading() };
    monitor.check(&gone, source.catalog(), Vec::new());
    for state in [State::Streaming, State::Failed, State::Starting] {
        relay_says(&mut monitor, state, 1, vec![]);
        monitor.check(&held_by(&source, Some(8)), source.catalog(), Vec::new());
        assert!(monitor.report.gap.is_some(), "{state:?}");
    }
}

/// The generation was not known when the gap was found, so learning it is no sign of an acceptance.
#[test]
fn a_gap_that_was_found_before_the_state_topic_was_read_is_not_over_when_it_is() {
    let (mut monitor, _events, replaced) = standby_with_a_gap_at(0);
    let source = Source::of("outbox", 16_400, &COLUMNS);
    for (generation, is_open) in [(5, true), (5, true), (6, false)] {
        relay_says(&mut monitor, State::Standby, generation, vec![]);
        monitor.check(&held_by(&source, Some(7)), replaced.clone(), Vec::new());
        assert_eq!(monitor.report.gap.is_some(), is_open, "generation {generation}");
    }
}
