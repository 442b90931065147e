//! The last status update of a session that the router ends.

use super::*;

/// With a window so large that it never needs an update by itself.
fn wide() -> RelaySettings {
    RelaySettings { window: Window { events: 1_000, bytes: 1 << 20 }, ..settings() }
}

/// The transaction at 200 is acknowledged but not confirmed; the one at 300 is in flight.
fn settled_but_unconfirmed(settings: RelaySettings) -> Script {
    let mut script = Script::streaming_with(settings);
    script.transaction(100, &["a"]);
    script.settle();
    script.tick_after(200);
    script.actions();
    script.transaction(200, &["b"]);
    script.settle();
    script.transaction(300, &["c"]);
    assert_eq!(script.confirmed(), 108, "the next update is not due yet");
    script.actions();
    script
}

/// The position in the last status update, which must come right before the connection is closed.
fn update_before_disconnect(script: &mut Script) -> Option<u64> {
    let actions = script.actions();
    let end = actions.iter().position(|action| *action == Action::Disconnect).unwrap();
    statuses(&actions[..end]).last().map(|update| update.flush.lsn().as_u64())
}

#[test]
fn a_failed_delivery_does_not_take_back_what_was_acknowledged() {
    let mut script = settled_but_unconfirmed(wide());
    script.fail_next(Code::DeliveryFailed);
    assert_eq!(update_before_disconnect(&mut script), Some(208));
    assert_eq!(script.confirmed(), 208);
}

#[test]
fn a_stopping_server_gets_a_status_update_before_it_is_disconnected() {
    let mut script = settled_but_unconfirmed(wide());
    script.handle(Input::ServerStopping);
    script.at = script.at + Duration::from_secs(3);
    script.handle(Input::Tick);
    assert_eq!(update_before_disconnect(&mut script), Some(208));
}

#[test]
fn a_process_that_exits_for_a_person_sends_a_status_update_first() {
    let mut script = settled_but_unconfirmed(RelaySettings { on_failed: OnFailed::Exit, ..wide() });
    script.handle(Input::BrokersUnreachable(Some(failure(Code::KafkaAuthentication))));
    assert_eq!(update_before_disconnect(&mut script), Some(208));
    assert_eq!(script.confirmed(), 208);
}

#[test]
fn no_final_status_update_is_sent_on_a_failed_connection_or_after_a_gap() {
    // I8
    let mut script = settled_but_unconfirmed(wide());
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(update_before_disconnect(&mut script), None);
    let mut script = settled_but_unconfirmed(wide());
    script.handle(Input::GapSuspected(gap(Code::SlotMoved)));
    assert_eq!(update_before_disconnect(&mut script), None);
    let mut script = settled_but_unconfirmed(wide());
    script.frame(b"nonsense");
    assert_eq!(update_before_disconnect(&mut script), None, "what was received may be wrong");
}

#[test]
fn a_surplus_acknowledgement_lets_nothing_more_be_confirmed() {
    // I1
    let mut script = Script::streaming_with(wide());
    script.transaction(100, &["a"]);
    script.transaction(200, &["b"]);
    let acks = script.sink.ack_all();
    script.handle(Input::Acks(&acks));
    script.actions();
    script.handle(Input::Acks(&acks));
    assert_eq!(update_before_disconnect(&mut script), None);
}
