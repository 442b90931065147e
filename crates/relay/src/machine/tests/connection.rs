//! Connecting, standby, releasing the server, halting.

use super::*;

#[test]
fn nothing_is_connected_before_the_sink_is_ready() {
    let mut script = Script::new(settings());
    script.handle(Input::Tick);
    assert_eq!(script.actions(), []);
    assert_eq!(script.relay.deadline(), None, "the sink's arrival is an input of its own");
    script.handle(Input::SinkReady);
    assert_eq!(script.actions(), [Action::Connect]);
    assert_eq!(script.state(), (State::Starting, None));
}

#[test]
fn a_passing_fault_is_retried_with_growing_waits() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    let mut waits = Vec::new();
    for _ in 0..8 {
        assert_eq!(script.actions(), [Action::Connect]);
        script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
        assert_eq!(script.state(), (State::Starting, Some(Code::ServerUnreachable)));
        let until = script.relay.deadline().unwrap();
        waits.push(until.since(script.at));
        script.at = until;
        script.handle(Input::Tick);
    }
    assert!(waits[0] <= Duration::from_millis(100), "{waits:?}");
    assert!(waits[7] >= Duration::from_millis(2_500), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(5)), "{waits:?}");
    script.answer();
    script.run_for(Duration::from_secs(4));
    script.take(&wire::keepalive(8));
    script.run_for(Duration::from_secs(4));
    script.take(&wire::keepalive(16));
    script.run_for(Duration::from_secs(4));
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    let wait = script.relay.deadline().unwrap().since(script.at);
    assert!(wait <= Duration::from_millis(100), "a session that lasted starts over: {wait:?}");
}

#[test]
fn a_refused_password_needs_a_person_and_is_tried_again() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::Disconnected(failure(Code::AuthenticationFailed)));
    let failed = (State::Failed, Some(Code::AuthenticationFailed));
    assert_eq!(script.state(), failed);
    script.actions();
    script.run_for(Duration::from_secs(29));
    assert_eq!(script.actions(), []);
    script.run_for(Duration::from_secs(2));
    assert_eq!(script.actions(), [Action::Connect]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.state(), failed, "a transport failure does not hide it");
    script.run_for(Duration::from_secs(5));
    script.answer();
    assert_eq!(script.state(), (State::Streaming, None));
}

#[test]
fn a_failure_of_a_connection_that_is_already_closed_changes_nothing() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.fail_next(Code::RecordRefused);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.state(), (State::Starting, Some(Code::RecordRefused)));
}

#[test]
fn a_standby_watches_the_slot_and_takes_over_at_once() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::SlotHeld(Some(4711)));
    assert_eq!(script.state(), (State::Standby, None));
    assert_eq!(script.relay.snapshot(script.at).slot_holder, Some(4711));
    script.actions();
    for _ in 0..5 {
        script.run_for(Duration::from_millis(300));
        assert_eq!(script.actions(), [Action::WatchSlot]);
        script.run_for(Duration::from_secs(1));
        assert_eq!(script.actions(), [], "one look at a time");
        script.handle(Input::SlotHeld(Some(4711)));
    }
    script.run_for(Duration::from_millis(300));
    script.handle(Input::SlotFree);
    assert_eq!(script.actions(), [Action::WatchSlot, Action::Connect]);
    script.answer();
    assert_eq!(script.relay.snapshot(script.at).slot_holder, None);
}

#[test]
fn a_gap_halts_for_ever_and_nothing_is_confirmed_after_it() {
    // I8
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::GapSuspected(gap(Code::PublicationReplaced)));
    assert_eq!(script.actions(), [Action::Disconnect]);
    script.settle();
    script.answer();
    script.handle(Input::SlotFree);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.run_for(Duration::from_secs(3_600));
    assert_eq!(script.actions(), []);
    assert_eq!(script.confirmed(), 16);
    assert_eq!(script.state(), (State::Failed, Some(Code::PublicationReplaced)));
}

#[test]
fn a_gap_while_connecting_gives_up_the_attempt() {
    // I8
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::GapSuspected(gap(Code::SlotMoved)));
    script.answer();
    assert_eq!(script.actions(), [Action::Connect, Action::Disconnect]);
    assert_eq!(script.state().0, State::Failed);
}

#[test]
fn a_slot_that_is_missing_on_reconnection_is_a_gap() {
    // I8
    let mut script = Script::streaming();
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.run_for(Duration::from_secs(5));
    script.actions();
    script.handle(Input::Disconnected(failure(Code::SlotMissing)));
    script.run_for(Duration::from_secs(3_600));
    assert_eq!(script.state(), (State::Failed, Some(Code::SlotMissing)));
    assert_eq!(script.actions(), [Action::Disconnect]);
}

#[test]
fn a_publication_without_inserts_is_a_gap_before_the_first_session() {
    // I8: the slot is there, so rows were left out, and mending the publication brings none of them
    // back.
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::Disconnected(failure(Code::PublicationLacksInsert)));
    script.run_for(Duration::from_secs(3_600));
    assert_eq!(script.state(), (State::Failed, Some(Code::PublicationLacksInsert)));
    assert_eq!(script.actions(), [Action::Connect, Action::Disconnect]);
}

#[test]
fn a_slot_that_never_existed_is_checked_for_again() {
    // A router that was started before `setup` need not be restarted.
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::Disconnected(failure(Code::SlotMissing)));
    assert_eq!(script.state(), (State::Failed, Some(Code::SlotMissing)));
    script.run_for(Duration::from_secs(31));
    assert_eq!(script.actions(), [Action::Connect, Action::Connect]);
    script.answer();
    assert_eq!(script.state(), (State::Streaming, None));
}

#[test]
fn an_inheriting_table_is_checked_again_unless_the_outbox_was_known_without_it() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::Disconnected(failure(Code::TableInherited)));
    assert_eq!(script.state(), (State::Failed, Some(Code::TableInherited)));
    script.run_for(Duration::from_secs(31));
    assert_eq!(script.actions(), [Action::Connect, Action::Connect]);
    script.answer();
    assert_eq!(script.state(), (State::Streaming, None));
    // After a session it is a gap (I8).
    script.handle(Input::Disconnected(failure(Code::TableInherited)));
    assert_eq!(script.state(), (State::Failed, Some(Code::TableInherited)));
    script.run_for(Duration::from_secs(3_600));
    assert_eq!(script.actions(), [Action::Disconnect]);
}

#[test]
fn the_warning_of_a_skipped_publication_halts() {
    // I8: PostgreSQL 18 goes on, and reports it once.
    let mut script = Script::streaming();
    let notice = |code: &str, message: &str, routine: &str| ServerNotice {
        code: code.into(),
        message: message.into(),
        routine: Some(routine.into()),
    };
    script.handle(Input::Notice(&notice("01000", "anything", "anybody")));
    assert_eq!(script.state().0, State::Streaming);
    script.handle(Input::Notice(&notice("55000", "skipped", "LoadPublications")));
    assert_eq!(script.state(), (State::Failed, Some(Code::PublicationMissing)));
    assert_eq!(script.actions(), [Action::Disconnect]);
}

#[test]
fn a_warning_of_a_standby_is_shown_while_it_is_repeated_and_stops_nothing() {
    // PostgreSQL 17 and 18 warn with the SQLSTATE that 18 has for rows which it skips.
    let mut script = Script::streaming();
    let notice = ServerNotice {
        code: "55000".into(),
        message: "replication slot \"standby\" specified in parameter \
                  \"synchronized_standby_slots\" does not have active_pid"
            .into(),
        routine: Some("StandbySlotsHaveCaughtup".into()),
    };
    script.handle(Input::Notice(&notice));
    assert_eq!((script.state(), script.actions().as_slice()), ((State::Streaming, None), &[][..]));
    let warning = |script: &Script| script.relay.snapshot(script.at).warning;
    assert_eq!(warning(&script), Some(notice));
    script.run_for(Duration::from_secs(61));
    assert_eq!(warning(&script), None, "the server repeats what lasts");
}

#[test]
fn a_stopping_server_is_not_disconnected_while_everything_is_confirmed() {
    let mut script = Script::streaming();
    script.handle(Input::ServerStopping);
    for at in 1..20_u64 {
        script.take(&wire::keepalive(1_000 + at));
        script.tick_after(500);
    }
    assert!(!script.actions().contains(&Action::Disconnect));
    script.handle(Input::StreamEnded);
    assert_eq!(script.state(), (State::Starting, Some(Code::ServerNotReady)));
}

#[test]
fn a_stopping_server_is_disconnected_two_seconds_later_if_records_are_still_in_flight() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::ServerStopping);
    script.run_for(Duration::from_millis(1_900));
    assert!(!script.actions().contains(&Action::Disconnect));
    script.run_for(Duration::from_millis(200));
    assert_eq!(script.actions().last(), Some(&Action::Disconnect));
    script.run_for(Duration::from_millis(9_800));
    assert_eq!(script.actions(), [], "it stays away");
    script.run_for(Duration::from_secs(6));
    assert_eq!(script.actions(), [Action::Connect]);
}

#[test]
fn a_stopping_process_exits_when_it_disconnects_a_stopping_server() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::ServerStopping);
    script.handle(Input::Shutdown);
    script.actions();
    script.at = script.at + Duration::from_secs(3);
    script.handle(Input::Tick);
    let left_behind = Action::Exit(ExitReason::EventsUnconfirmed);
    assert_eq!(script.actions().last(), Some(&left_behind), "not one wake-up later");
    assert_eq!(script.relay.deadline(), None);
}

#[test]
fn a_row_that_needs_a_person_does_not_keep_a_server_from_stopping() {
    let mut script = Script::streaming();
    script.begin(100);
    assert_eq!(script.frame(&null_key()), FrameOutcome::NotTaken);
    script.handle(Input::ServerStopping);
    script.run_for(Duration::from_secs(3));
    assert!(script.actions().contains(&Action::Disconnect));
    assert_eq!(script.state(), (State::Failed, Some(Code::KeyIsNull)), "still for a person");
}

#[test]
fn a_row_that_waits_for_an_earlier_sessions_records_does_not_keep_a_server_from_stopping() {
    let mut script = Script::streaming();
    let topic = script.relay.topics_in_use().next().unwrap().0;
    script.transaction(100, &["a"]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.connect();
    script.handle(Input::Partitions(topic, NonZeroI32::new(64).unwrap()));
    assert!(!script.relay.wants_wal(), "not before the producer has nothing of the old count");
    script.actions();
    script.handle(Input::ServerStopping);
    script.run_for(Duration::from_secs(3));
    assert!(script.actions().contains(&Action::Disconnect));
}

#[test]
fn a_stalled_process_discards_what_is_in_flight_and_starts_over() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.run_for(Duration::from_millis(200));
    script.actions();
    script.handle(Input::ProcessStalled(Duration::from_secs(5)));
    assert_eq!(script.actions(), [REPLACED_AT_ONCE, Action::Disconnect]);
    assert_eq!(script.state(), (State::Starting, Some(Code::ServerSilent)));
    assert_eq!(script.frame(&row("b")), FrameOutcome::Taken, "and is not produced");
    assert_eq!(script.keys()[1..], ["a"]);
}

#[test]
fn a_stall_with_nothing_in_flight_is_no_failure() {
    let mut script = Script::streaming();
    script.handle(Input::Disconnected(Failure::new(Code::ServerUnreachable, "cut")));
    script.actions();
    script.handle(Input::ProcessStalled(Duration::from_secs(60)));
    assert!(!script.actions().contains(&REPLACED_AT_ONCE));
}

#[test]
fn a_session_that_ends_before_its_first_status_update_takes_back_no_confirmation() {
    let mut script = Script::streaming();
    assert_eq!(script.confirmed(), 16);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    // Older servers send again what was confirmed since they last saved the slot.
    script.source.slot_at = 0;
    script.connect();
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(statuses(&script.actions()), []);
    assert_eq!(script.confirmed(), 16);
}

#[test]
fn a_reply_request_is_answered_soon_without_a_new_position() {
    let mut script = Script::streaming();
    script.take(&wire::keepalive(1_000));
    script.run_for(Duration::from_millis(500));
    script.actions();
    script.run_for(Duration::from_millis(50));
    assert_eq!(statuses(&script.actions()), [], "nothing is left to be told");
    script.take(&wire::reply_request(1_000));
    script.run_for(Duration::from_millis(100));
    assert_eq!(statuses(&script.actions()).len(), 1);
    script.run_for(Duration::from_millis(500));
    assert_eq!(statuses(&script.actions()), [], "once");
}

#[test]
fn a_silent_server_is_asked_for_a_reply_and_then_disconnected() {
    let mut script = Script::streaming();
    script.run_for(Duration::from_secs(11));
    let actions = script.actions();
    let asked =
        statuses(&actions).iter().filter(|s| s.reply == crate::ReplyRequest::Requested).count();
    assert_eq!(asked, 1);
    assert!(actions.contains(&Action::Disconnect));
    assert_eq!(script.state(), (State::Starting, Some(Code::ServerSilent)));
}

#[test]
fn a_walsender_that_is_silent_at_one_position_again_gets_twice_the_time() {
    let mut script = Script::streaming();
    let silent = |script: &mut Script, limit: u64| {
        script.run_for(Duration::from_secs(limit - 1));
        assert_eq!(script.state().0, State::Streaming, "{limit}");
        script.run_for(Duration::from_secs(2));
        let (state, reason) = script.state();
        assert_eq!(state, State::Starting, "{limit}");
        script.connect();
        reason
    };
    for limit in [10, 20] {
        assert_eq!(silent(&mut script, limit), Some(Code::ServerSilent));
    }
    // The same again would say nothing of what the walsender does.
    for limit in [40, 80] {
        assert_eq!(silent(&mut script, limit), Some(Code::WalsenderBusy));
    }
    script.transaction(100, &["a"]);
    script.settle();
    script.take(&wire::keepalive(200));
    script.tick_after(1_000);
    script.handle(Input::BytesArrived);
    assert_eq!(silent(&mut script, 160), Some(Code::ServerSilent), "it has gone on meanwhile");
}

#[test]
fn a_row_that_the_server_cannot_send_is_named_with_the_way_past_its_transaction() {
    let mut script = Script::streaming();
    for times in 1..=3 {
        script.begin(100);
        script.handle(Input::Disconnected(failure(Code::ServerError)));
        let reason = script.relay.condition(script.at).reason.unwrap();
        assert_eq!((reason.code, reason.lsn), (Code::ServerError, Some(Lsn::from_u64(100))));
        // What precedes it may not be confirmed yet.
        let is_passable = times > 1;
        assert_eq!(reason.case, is_passable.then_some(Case::RowUnsendable), "{times}");
        let statement = "outbox-router skip --lsn 0/64 --transaction";
        assert_eq!(reason.names.get(Name::Statements), is_passable.then_some(statement));
        let state = if times == 3 { State::Failed } else { State::Starting };
        assert_eq!(script.state().0, state, "{times}");
        script.connect();
        script.take(&wire::keepalive(16));
        script.tick_after(1_000);
    }
}

#[test]
fn the_walsender_of_the_last_session_is_no_other_router() {
    let mut script = Script::streaming();
    script.handle(Input::Disconnected(failure(Code::ServerSilent)));
    script.run_for(Duration::from_secs(2));
    script.handle(Input::SlotHeld(Some(4711)));
    assert_eq!(script.state(), (State::Starting, Some(Code::ServerSilent)));
    script.handle(Input::SlotHeld(Some(4712)));
    assert_eq!(script.state(), (State::Standby, None));
}

#[test]
fn what_is_read_again_before_the_first_row_is_reported() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.connect();
    let rereads = |script: &Script| script.relay.snapshot(script.at).rereads;
    script.run_for(Duration::from_secs(3));
    let begins = rereads(&script).unwrap();
    assert_eq!(begins.lasts, Duration::from_secs(3));
    // While it reads there, a walsender names that position when it is asked.
    script.take(&wire::keepalive(begins.to.as_u64()));
    assert!(rereads(&script).is_some());
    script.take(&wire::keepalive(begins.to.as_u64() + 8));
    assert_eq!(rereads(&script), None);
}

#[test]
fn a_server_that_sends_one_very_large_row_is_not_silent() {
    let mut script = Script::streaming();
    for _ in 0..60 {
        script.handle(Input::BytesArrived);
        script.run_for(Duration::from_secs(1));
    }
    assert!(!script.actions().contains(&Action::Disconnect));
}

#[test]
fn a_server_that_is_not_read_is_not_silent() {
    let mut script = Script::streaming();
    script.begin(100);
    assert_eq!(script.frame(&row_of("invoice", "a", "{}")), FrameOutcome::NotTaken);
    let topic = looked_up(&script.actions())[0];
    script.handle(Input::Topic(topic, Err(failure(Code::TopicMissing))));
    script.run_for(Duration::from_secs(60));
    assert!(!script.actions().contains(&Action::Disconnect));
    script.handle(Input::Topic(topic, Ok(facts(3))));
    assert!(script.relay.wants_wal());
    script.run_for(Duration::from_secs(4));
    assert!(!script.actions().contains(&Action::Disconnect), "it is asked first");
}

#[test]
fn malformed_data_ends_the_session_and_the_third_time_needs_a_person() {
    let mut script = Script::streaming();
    for attempt in 1..=3 {
        script.begin(100);
        assert_eq!(script.frame(b"nonsense"), FrameOutcome::NotTaken);
        let expected = if attempt < 3 { State::Starting } else { State::Failed };
        assert_eq!(script.state(), (expected, Some(Code::Protocol)), "attempt {attempt}");
        assert_eq!(script.relay.condition(script.at).reason.unwrap().lsn, Some(Lsn::from_u64(100)));
        script.connect();
    }
}

#[test]
fn with_exit_on_fatal_a_gap_and_a_refused_password_end_the_process() {
    let strict = RelaySettings { on_failed: OnFailed::Exit, ..settings() };
    let mut script = Script::streaming_with(strict.clone());
    script.handle(Input::GapSuspected(gap(Code::SlotLost)));
    assert_eq!(script.actions(), [Action::Disconnect, Action::Exit(ExitReason::Failed)]);
    let mut script = Script::new(strict);
    script.handle(Input::SinkReady);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.actions(), [Action::Connect], "a passing fault does not");
    script.run_for(Duration::from_secs(5));
    script.handle(Input::Disconnected(failure(Code::AuthenticationFailed)));
    assert_eq!(script.actions(), [Action::Connect, Action::Exit(ExitReason::Failed)]);
}

#[test]
fn with_exit_on_fatal_what_precedes_a_bad_row_is_delivered_first() {
    let mut script =
        Script::streaming_with(RelaySettings { on_failed: OnFailed::Exit, ..settings() });
    script.transaction(100, &["a"]);
    script.begin(200);
    assert_eq!(script.frame(&null_key()), FrameOutcome::NotTaken);
    script.tick_after(50);
    assert!(!script.actions().contains(&Action::Exit(ExitReason::Failed)));
    script.settle();
    script.tick_after(200);
    let actions = script.actions();
    assert_eq!(statuses(&actions).last().unwrap().flush.lsn().as_u64(), 108);
    assert_eq!(actions.last(), Some(&Action::Exit(ExitReason::Failed)));
}
