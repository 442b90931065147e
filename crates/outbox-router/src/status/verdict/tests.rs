use relay::{
    Case, Code, Lsn, Snapshot, Window,
    source::{Gap, Interval, Mark},
    testing::samples::{empty_snapshot, slot, snapshot},
};
use tokio::time::Instant;

use relay::HeldLimits;

use super::*;
use crate::{
    monitor::{
        MonitorReport, ObservedSlot, Polled, RelayReport, SlotHealth, Thresholds,
        watch::{
            LastSlot,
            figures::{OtherSlots, SlotFigures, StandbySlot, StandbySlotState, Standbys},
        },
    },
    status::Limits,
};

const LIMITS: Limits = Limits {
    thresholds: Thresholds { warning: 256 << 20, critical: 2 << 30 },
    window: Window { events: 1_000, bytes: 1 << 20 },
};

/// The slot is where the router is.
fn near() -> SlotHealth {
    let position = slot().confirmed_flush_lsn.unwrap();
    SlotHealth { current_wal_lsn: position, ..slot() }
}

fn seen(slot: SlotHealth) -> MonitorReport {
    MonitorReport { slot: ObservedSlot::Seen(slot), ..MonitorReport::initial(Instant::now()) }
}

fn judged_after(snapshot: Snapshot, monitor: &MonitorReport, stands: Duration) -> Verdict {
    let relay = RelayReport::initial(snapshot, Instant::now());
    Verdict::of(&Facts::of(&relay, monitor, LIMITS, Instant::now()), stands)
}

fn judged(snapshot: Snapshot, monitor: &MonitorReport) -> Verdict {
    judged_after(snapshot, monitor, Duration::ZERO)
}

fn because(state: State, failure: Failure) -> Snapshot {
    let mut snapshot = empty_snapshot(state);
    snapshot.condition.reason = Some(failure);
    snapshot
}

#[test]
fn rows_that_flow_are_ok_and_a_backlog_is_catching_up() {
    let ok = judged(empty_snapshot(State::Streaming), &seen(near()));
    assert_eq!((ok.word, ok.sentence.as_str()), (Word::Ok, "rows flow"));
    assert_eq!((ok.blame, ok.to_do.len()), (Blame::Nobody, 0));
    let behind = judged(snapshot(State::Streaming), &seen(slot()));
    assert_eq!(behind.word, Word::CatchingUp);
    assert!(behind.sentence.starts_with("60.0 MiB behind; the router waits for"), "{behind:?}");
    let connecting = judged(empty_snapshot(State::Starting), &seen(near()));
    assert_eq!(connecting.word, Word::CatchingUp);
}

#[test]
fn what_is_wrong_is_named_with_its_code_and_what_to_type() {
    let topic = || Failure::new(Code::TopicMissing, "topic x does not exist");
    let blocked = judged(because(State::Blocked, topic()), &seen(near()));
    assert_eq!(
        (blocked.word, blocked.blame, blocked.code),
        (Word::Blocked, Blame::Kafka, Some("K010"))
    );
    assert_eq!(blocked.sentence, "topic x does not exist (K010)");
    assert!(blocked.to_do[0].hint.is_some());
    let row = judged(because(State::Failed, Failure::new(Code::KeyIsNull, "x")), &seen(near()));
    assert_eq!((row.word, row.blame, row.acts()), (Word::Failed, Blame::Router, "person"));
    let away = Failure::new(Code::ServerUnreachable, "refused");
    let starting = judged(because(State::Starting, away), &MonitorReport::initial(Instant::now()));
    assert_eq!((starting.word, starting.blame), (Word::Blocked, Blame::Postgres));
    assert_eq!(starting.acts(), "postgresql", "it comes back, and the router goes on");
    // Before the first session the router looks for it again and again.
    let missing = because(State::Starting, Failure::new(Code::SlotMissing, "gone"));
    let missing = judged(missing, &MonitorReport::initial(Instant::now()));
    assert_eq!((missing.word, missing.acts()), (Word::Blocked, "person"));
}

/// The streaming task may not have acted on it yet.
#[test]
fn a_gap_fails_whatever_the_state_is() {
    let mark = Mark { lsn: Lsn::from_u64(1), at: None };
    let interval = Interval { from: None, to: mark };
    let gap = Gap::new(Failure::new(Code::SlotMissing, "gone"), interval);
    let monitor = MonitorReport { gap: Some(gap), ..seen(near()) };
    let verdict = judged(empty_snapshot(State::Streaming), &monitor);
    assert_eq!((verdict.word, verdict.code), (Word::Failed, Some("P010")));
    assert_eq!((verdict.acts(), verdict.to_do.len()), ("person", 1));
    let hint = verdict.to_do[0].hint.as_deref().unwrap();
    assert!(hint.contains("accept --gap P010@0/1 gives them up"), "{hint}");
}

fn with_figures(slot: SlotHealth, standbys: Option<Standbys>, keep: Option<u64>) -> MonitorReport {
    let read = Polled { at: Instant::now(), wall: std::time::SystemTime::now() };
    let limits = crate::monitor::watch::figures::Limits {
        wal_keep_bytes: keep,
        idle_timeout_seconds: None,
        wal_sender_timeout_seconds: None,
        slots_max: 10,
        slots_used: 1,
    };
    let other_slots = OtherSlots { inactive: 0, largest: None };
    let mut monitor = seen(slot.clone());
    monitor.watch.figures = Some(SlotFigures {
        read,
        limits,
        spill: None,
        pins: Vec::new(),
        other_slots,
        catalog_xmin_age: None,
        holder: None,
        standbys,
        wal_directory: None,
        denied: Vec::new(),
    });
    let slot = Some(slot);
    monitor.watch.last =
        Some(LastSlot { read, server_clock: 0.0, slot, rates: None, to_limit: None });
    monitor
}

#[test]
fn a_walsender_that_waits_for_a_standby_is_blocked_by_its_slot() {
    let standby = StandbySlot {
        name: "replica_1".to_owned(),
        state: StandbySlotState::Inactive,
        bytes_behind: Some(300),
    };
    let standbys = Standbys { failover: true, named: vec![standby], active_physical_slots: 0 };
    let position = slot().confirmed_flush_lsn.unwrap();
    let end = Lsn::from_u64(position.as_u64() + 300);
    let slot = SlotHealth { current_wal_lsn: end, ..near() };
    let monitor = with_figures(slot, Some(standbys), None);
    let quiet = |received| Snapshot {
        received,
        settled: received,
        confirmed: position,
        ..empty_snapshot(State::Streaming)
    };
    let waits = judged(quiet(position), &monitor);
    assert_eq!((waits.word, waits.code), (Word::Blocked, Some("D015")));
    assert_eq!((waits.blame, waits.acts()), (Blame::Postgres, "postgresql"), "it may come back");
    assert!(waits.sentence.contains("the standby of slot replica_1 has not"), "{waits:?}");
    assert!(waits.to_do[0].hint.as_deref().unwrap().starts_with("start the standby"), "{waits:?}");
    let mut gone = monitor.clone();
    let standbys = gone.watch.figures.as_mut().unwrap().standbys.as_mut().unwrap();
    standbys.named[0].state = StandbySlotState::Missing;
    assert_eq!(judged(quiet(position), &gone).acts(), "person");
    // The standby is gone, and has received what there is.
    let well = judged(quiet(end), &monitor);
    assert_eq!((well.word, well.to_do.len()), (Word::Ok, 0));
}

/// Where this role may not read slots, the warning says it.
#[test]
fn a_warning_of_the_server_is_shown_and_one_of_a_standby_is_what_it_waits_for() {
    let warned = |message: &str| {
        let mut snapshot = empty_snapshot(State::Streaming);
        let (code, message) = ("55000".to_owned(), message.to_owned());
        snapshot.warning = Some(relay::ServerNotice { code, message, routine: None });
        snapshot
    };
    let standby =
        "slot \"replica_1\" specified in parameter \"synchronized_standby_slots\" is away";
    let initial = MonitorReport::initial(Instant::now());
    let waits = judged(warned(standby), &initial);
    assert_eq!((waits.word, waits.code), (Word::Blocked, Some("D015")));
    assert_eq!((waits.blame, waits.to_do.len()), (Blame::Postgres, 1));
    assert!(waits.sentence.contains("replica_1"), "{waits:?}");
    // The walsender has sent everything since.
    assert_eq!(judged(warned(standby), &seen(near())).word, Word::Ok);
    let other = judged(warned("x"), &seen(near()));
    assert_eq!(
        (other.word, other.sentence.as_str()),
        (Word::Ok, "rows flow; PostgreSQL warns: x [SQLSTATE 55000]")
    );
}

/// The page shows the same list.
#[test]
fn a_slot_that_the_next_checkpoint_takes_is_to_do_while_rows_flow() {
    let slot = SlotHealth {
        wal_status: relay::source::WalStatus::Unreserved,
        safe_wal_bytes: Some(0),
        ..near()
    };
    let verdict =
        judged(empty_snapshot(State::Streaming), &with_figures(slot, None, Some(8 << 20)));
    assert_eq!((verdict.word, verdict.to_do[0].code), (Word::Ok, Some("D013")));
    let hint = verdict.to_do[0].hint.as_deref().unwrap();
    assert!(hint.contains("max_slot_wal_keep_size = '20MB'"), "{hint}");
}

#[test]
fn a_stall_is_named_only_where_nothing_else_explains_it() {
    let stands = STALLED_AFTER;
    let stalled = judged_after(snapshot(State::Streaming), &seen(slot()), stands);
    assert_eq!(stalled.word, Word::Stalled);
    assert_eq!(stalled.to_do[0].hint.as_deref(), Some("outbox-router doctor"));
    assert!(
        stalled.sentence.starts_with("no position has moved for 60 s, 60.0 MiB behind"),
        "{stalled:?}"
    );
    let before =
        judged_after(snapshot(State::Streaming), &seen(slot()), stands - Duration::from_secs(1));
    assert_eq!(before.word, Word::CatchingUp);
    let silent = Failure::of(Case::ReplicasSilent, "no answer");
    let blocked = judged_after(because(State::Blocked, silent), &seen(slot()), stands);
    assert_eq!(blocked.word, Word::Blocked);
}

#[test]
fn a_standby_says_what_would_keep_it_from_taking_over() {
    let mut snapshot = empty_snapshot(State::Standby);
    snapshot.slot_holder = Some(4711);
    let well = judged(snapshot.clone(), &seen(near()));
    assert_eq!((well.word, well.blame), (Word::Standby, Blame::Holder));
    assert_eq!(well.sentence, "another router holds the slot (pid 4711)");
    let mut monitor = seen(near());
    monitor.findings = vec![Failure::new(Code::PublicationMissing, "gone")];
    let hindered = judged(snapshot, &monitor);
    assert_eq!((hindered.word, hindered.code), (Word::Standby, Some("P020")));
    assert!(hindered.sentence.ends_with("could not take over: gone (P020)"), "{hindered:?}");
}

/// What it confirms is in no topic of this pipeline.
#[test]
fn a_program_that_is_no_router_of_the_pipeline_and_reads_the_slot_fails_a_standby() {
    let mut snapshot = empty_snapshot(State::Standby);
    snapshot.slot_holder = Some(4711);
    let reader = relay::source::SlotReader {
        pid: 4711,
        application: Some("pg_recvlogical".to_owned()),
        wait_event: None,
    };
    let mut monitor = seen(near());
    monitor.foreign_reader = reader.foreign("shop", ("s", None), None);
    let failed = judged(snapshot, &monitor);
    assert_eq!((failed.word, failed.code, failed.acts()), (Word::Failed, Some("P070"), "person"));
    assert!(failed.sentence.starts_with("pid 4711, pg_recvlogical, which is no"), "{failed:?}");
    let hint = failed.to_do[0].hint.as_deref().unwrap();
    assert!(hint.contains("select pg_terminate_backend(4711)"), "{hint}");
    // The program has let go of the slot.
    assert_eq!(judged(empty_snapshot(State::Streaming), &monitor).word, Word::Ok);
}

#[test]
fn a_session_that_was_sent_nothing_waits_for_postgresql() {
    let mut snapshot = empty_snapshot(State::Streaming);
    let (from, to) = (Some(Lsn::from_u64(1 << 20)), Lsn::from_u64(40 << 20));
    (snapshot.received, snapshot.settled, snapshot.confirmed) = (to, to, to);
    snapshot.rereads = Some(Rereads { from, to, lasts: Duration::from_secs(20) });
    let behind = SlotHealth { current_wal_lsn: Lsn::from_u64((40 << 20) + 368), ..slot() };
    let mut monitor = with_figures(behind, None, None);
    let wait_event = Some("IO:ReorderBufferWrite".to_owned());
    let figures = monitor.watch.figures.as_mut().unwrap();
    figures.holder =
        Some(crate::monitor::watch::figures::Holder { pid: 7, application: None, wait_event });
    let waits = judged(snapshot.clone(), &monitor);
    assert_eq!((waits.word, waits.blame), (Word::CatchingUp, Blame::Postgres));
    let where_it_is = "walsender (pid 7, IO:ReorderBufferWrite) reads WAL again from 0/100000 \
                       (restart_lsn), 39.0 MiB before 0/2800000, where the slot stands";
    assert!(waits.sentence.ends_with(where_it_is), "{waits:?}");
    snapshot.rereads = Some(Rereads { from, to, lasts: Duration::from_secs(90) });
    let blocked = judged_after(snapshot.clone(), &monitor, Duration::from_secs(90));
    assert_eq!((blocked.word, blocked.acts()), (Word::Blocked, "postgresql"));
    // Later in a session, with little behind.
    snapshot.rereads = None;
    let stalled = judged_after(snapshot, &monitor, Duration::from_secs(90));
    assert_eq!((stalled.word, stalled.blame), (Word::Stalled, Blame::Postgres));
    assert!(stalled.sentence.ends_with("the router waits for PostgreSQL"), "{stalled:?}");
}

/// `recover` and `setup` would mend what `switch` has to do.
#[test]
fn a_slot_that_is_missing_on_purpose_is_not_to_be_made_by_hand() {
    let polled = || Failure::of(Case::StillPolled, "table public.outbox was polled last");
    let findings = [Code::SlotMissing, Code::PublicationMissing, Code::TableMissing]
        .map(|code| Failure::new(code, "gone"));
    let codes = |slot| {
        let initial = MonitorReport::initial(Instant::now());
        let monitor = MonitorReport { slot, findings: findings.to_vec(), ..initial };
        let to_do = judged(because(State::Starting, polled()), &monitor).to_do;
        to_do.into_iter().filter_map(|to_do| to_do.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(ObservedSlot::Missing), ["P043", "P028"]);
    let all = ["P043", "P010", "P020", "P028"];
    assert_eq!(codes(ObservedSlot::Seen(near())), all, "what is missing beside a slot is a fault");
}

#[test]
fn held_events_are_to_do_while_rows_flow() {
    let mut snapshot = empty_snapshot(State::Streaming);
    snapshot.held.held = HeldLimits { keys: 1, events: 3, bytes: 9 };
    let verdict = judged(snapshot, &seen(near()));
    assert_eq!(verdict.word, Word::Ok);
    assert!(verdict.sentence.ends_with("; 3 events of 1 key are held"), "{verdict:?}");
    assert_eq!(verdict.to_do[0].hint.as_deref(), Some("outbox-router dead-letters list"));
}

#[test]
fn a_task_that_hangs_fails() {
    let long_ago = Instant::now().checked_sub(Duration::from_secs(31)).unwrap();
    let relay = RelayReport::initial(empty_snapshot(State::Streaming), long_ago);
    let monitor = seen(near());
    let verdict = Verdict::of(&Facts::of(&relay, &monitor, LIMITS, Instant::now()), Duration::ZERO);
    assert_eq!((verdict.word, verdict.code), (Word::Failed, None));
    assert!(verdict.sentence.contains("streaming task"), "{verdict:?}");
    let hint = verdict.to_do[0].hint.as_deref();
    assert_eq!((hint, verdict.acts()), (Some("keep the log, and restart the router"), "person"));
}
