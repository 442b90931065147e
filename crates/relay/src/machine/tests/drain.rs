//! Draining.

use super::*;

fn drained(script: &mut Script) -> Vec<Action> {
    script.run_for(Duration::from_millis(200));
    script.actions()
}

#[test]
fn an_idle_core_drains_at_once() {
    let mut script = Script::streaming();
    script.handle(Input::Shutdown);
    let actions = script.actions();
    assert_eq!(statuses(&actions)[0].flush.lsn().as_u64(), 16);
    assert_eq!(actions.last(), Some(&Action::CopyDone));
    assert_eq!(script.state(), (State::Draining, None));
    assert!(script.relay.wants_wal(), "the server's goodbye is read");
    assert_eq!(
        script.frame(&wire::begin(100, 0)),
        FrameOutcome::Taken,
        "and what precedes it dropped"
    );
    script.handle(Input::StreamEnded);
    assert_eq!(script.actions(), [Action::Disconnect, Action::Exit(ExitReason::Drained)]);
}

#[test]
fn the_open_transaction_is_completed_and_no_other_begun() {
    let mut script = Script::streaming();
    script.begin(100);
    script.take(&row("a"));
    script.handle(Input::Shutdown);
    assert!(script.relay.wants_wal());
    script.take(&row("b"));
    script.commit(100);
    assert!(!script.relay.wants_wal());
    assert_eq!(script.frame(&wire::begin(200, 0)), FrameOutcome::NotTaken);
    assert!(!drained(&mut script).contains(&Action::CopyDone), "not before the acks");
    script.settle();
    let actions = script.actions();
    assert_eq!(statuses(&actions).last().unwrap().flush.lsn().as_u64(), 108);
    assert_eq!(actions.last(), Some(&Action::CopyDone));
    assert_eq!(script.keys()[1..], ["a", "b"]);
}

#[test]
fn a_passed_drain_deadline_is_reported_and_what_is_settled_is_confirmed() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Shutdown);
    script.run_for(Duration::from_secs(26));
    let actions = script.actions();
    assert_eq!(
        actions[actions.len() - 2..],
        [Action::Disconnect, Action::Exit(ExitReason::EventsUnconfirmed)]
    );
    assert_eq!(script.relay.deadline(), None);
}

#[test]
fn what_is_settled_at_the_deadline_is_confirmed_without_waiting_for_the_end_of_the_stream() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Shutdown);
    let by = script.relay.drain_by.unwrap();
    script.at = by;
    script.actions();
    script.settle();
    let actions = script.actions();
    assert_eq!(statuses(&actions).last().unwrap().flush.lsn().as_u64(), 108);
    assert_eq!(actions.last(), Some(&Action::Exit(ExitReason::Drained)));
    assert_eq!(script.relay.deadline(), None, "a deadline that has passed makes the shell spin");
}

#[test]
fn a_row_that_cannot_become_a_record_does_not_keep_the_process_from_stopping() {
    let mut script = Script::streaming();
    script.begin(100);
    script.take(&row("a"));
    assert_eq!(script.frame(&null_key()), FrameOutcome::NotTaken);
    script.handle(Input::Shutdown);
    assert_eq!(script.state(), (State::Failed, Some(Code::KeyIsNull)));
    assert!(!drained(&mut script).contains(&Action::CopyDone));
    script.settle();
    let actions = script.actions();
    assert_eq!(statuses(&actions).last().unwrap().flush.lsn().as_u64(), 16);
    assert_eq!(actions.last(), Some(&Action::CopyDone));
    script.handle(Input::StreamEnded);
    let left_behind = Action::Exit(ExitReason::EventsUnconfirmed);
    assert_eq!(script.actions().last(), Some(&left_behind), "row a will come again");
}

#[test]
fn a_topic_that_is_being_looked_up_is_waited_for_and_one_that_was_refused_is_not() {
    let mut script = Script::streaming();
    script.begin(100);
    script.frame(&row_of("invoice", "a", "{}"));
    let topic = looked_up(&script.actions())[0];
    script.handle(Input::Shutdown);
    assert!(!drained(&mut script).contains(&Action::CopyDone));
    script.handle(Input::Topic(topic, Err(failure(Code::TopicMissing))));
    assert_eq!(drained(&mut script).last(), Some(&Action::CopyDone));
}

#[test]
fn a_server_that_never_ends_the_stream_does_not_keep_the_process_from_stopping() {
    let mut script = Script::streaming();
    script.handle(Input::Shutdown);
    script.run_for(Duration::from_secs(26));
    assert_eq!(script.actions().last(), Some(&Action::Exit(ExitReason::Drained)));
}

#[test]
fn a_session_lost_while_stopping_leaves_events_behind() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Shutdown);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.actions().last(), Some(&Action::Exit(ExitReason::EventsUnconfirmed)));
}

#[test]
fn without_a_session_there_is_nothing_to_drain() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::Shutdown);
    assert_eq!(
        script.actions(),
        [Action::Connect, Action::Disconnect, Action::Exit(ExitReason::Drained)]
    );
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::SlotHeld(None));
    script.handle(Input::Shutdown);
    assert_eq!(
        script.actions(),
        [Action::Connect, Action::Disconnect, Action::Exit(ExitReason::Drained)]
    );
}

#[test]
fn a_standby_leaves_nothing_behind() {
    // The holder of the slot is sent again what the last session had read.
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.run_for(Duration::from_secs(1));
    assert!(script.actions().contains(&Action::Connect));
    script.handle(Input::SlotHeld(Some(4711)));
    script.handle(Input::Shutdown);
    assert_eq!(script.actions().last(), Some(&Action::Exit(ExitReason::Drained)));
}

#[test]
fn a_second_signal_does_not_move_the_deadline() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Shutdown);
    script.run_for(Duration::from_secs(20));
    script.handle(Input::Shutdown);
    script.run_for(Duration::from_secs(6));
    assert_eq!(script.actions().last(), Some(&Action::Exit(ExitReason::EventsUnconfirmed)));
}

#[test]
fn what_the_server_sends_before_it_ends_the_stream_is_read_and_dropped() {
    let mut script = Script::streaming();
    script.handle(Input::Shutdown);
    assert_eq!(script.actions().last(), Some(&Action::CopyDone));
    assert!(script.relay.wants_wal(), "or draining waits for the whole deadline");
    assert_eq!(script.frame(&wire::begin(100, 0)), FrameOutcome::Taken);
}

/// Closing a socket with unread bytes can lose the last update.
#[test]
fn a_sink_that_fails_after_the_last_status_update_does_not_close_the_connection() {
    let mut script = Script::streaming();
    script.handle(Input::Shutdown);
    assert_eq!(script.actions().last(), Some(&Action::CopyDone));
    let failed =
        || Input::DeliveryFailed { transaction: None, failure: failure(Code::ProducerFatal) };
    script.handle(failed());
    assert_eq!(script.actions(), [], "nothing is to be produced any more");
    assert_eq!(script.state(), (State::Draining, None));
    let errors = script.relay.snapshot(script.at).errors;
    assert_eq!(errors.get(&Code::ProducerFatal), Some(&1));
    assert!(script.relay.wants_wal());
    assert_eq!(script.frame(&wire::begin(100, 0)), FrameOutcome::Taken);
    script.handle(Input::StreamEnded);
    assert_eq!(script.actions(), [Action::Disconnect, Action::Exit(ExitReason::Drained)]);

    let mut script = Script::streaming();
    script.handle(Input::Shutdown);
    script.handle(failed());
    script.run_for(Duration::from_secs(26));
    assert_eq!(script.actions().last(), Some(&Action::Exit(ExitReason::Drained)), "nor for ever");
}

/// The process does not wait for records that an earlier session left in flight.
#[test]
fn a_sink_that_fails_with_records_of_an_earlier_session_is_not_waited_for() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.source.slot_at = 108;
    script.connect();
    script.handle(Input::Shutdown);
    assert_eq!(script.actions().last(), Some(&Action::CopyDone));
    script.fail_next(Code::ProducerFatal);
    assert_eq!(script.actions().last(), Some(&Action::Exit(ExitReason::Drained)));
}

#[test]
fn a_process_that_has_exited_requests_nothing_more() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.handle(Input::Shutdown);
    script.actions();
    script
        .handle(Input::DeliveryFailed { transaction: None, failure: failure(Code::ProducerFatal) });
    assert_eq!(script.actions(), []);
}
