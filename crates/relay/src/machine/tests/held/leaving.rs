//! A router that is told that it does not hold the slot reads the stream to its end.

use super::*;

/// Streaming; a row became a dead letter, and the table said that this router lost the slot.
fn told() -> Script {
    let mut script = streaming(dead_letters());
    tell(&mut script);
    script
}

fn tell(script: &mut Script) {
    script.rows(24, &[poison("b")]);
    let number = script.actions().iter().find_map(number_of).expect("a request");
    script.handle(Input::Held(number, Err(failure(Code::SlotInUse))));
}

fn reconnect(script: &mut Script) {
    script.actions.clear();
    script.connect();
    script.describe_with_headers();
}

#[test]
fn what_follows_a_dead_letter_is_read_and_not_produced_once_the_slot_is_lost() {
    let mut script = told();
    let before = script.sink.produced().len();
    script.rows(40, &[good("c"), poison("d")]);
    script.handle(Input::BytesArrived);
    script.run_for(Duration::from_secs(1));
    assert_eq!(script.actions(), [], "no status update, no request to the table");
    assert_eq!(script.sink.produced().len(), before);
    assert_eq!(script.state(), (State::Starting, Some(Code::SlotInUse)));
}

/// PostgreSQL releases the slot at such an error, so each session meets both.
#[test]
fn the_error_that_ended_the_stream_is_reported_although_a_dead_letter_precedes_it() {
    let mut script = told();
    for _ in 0..2 {
        script.rows(40, &[good("c")]);
        script.handle(Input::Disconnected(failure(Code::ServerError)));
        assert!(script.actions().contains(&Action::Disconnect));
        reconnect(&mut script);
        tell(&mut script);
    }
    script.handle(Input::Disconnected(failure(Code::ServerError)));
    assert_eq!(script.state(), (State::Failed, Some(Code::ServerError)));
}

#[test]
fn a_gap_that_the_server_reports_behind_a_dead_letter_halts_the_router() {
    let mut script = told();
    script.handle(Input::Disconnected(failure(Code::PublicationMissing)));
    assert_eq!(script.state(), (State::Failed, Some(Code::PublicationMissing)));
    assert_eq!(script.actions(), [Action::Disconnect]);
    let gaps = script.relay.snapshot(script.at).witness.gaps;
    let interval = &gaps.first().expect("a gap").interval;
    assert_eq!((interval.begins_at().as_u64(), interval.to.lsn.as_u64()), (16, 32));
}

#[test]
fn a_connection_that_fails_or_ends_in_silence_says_less_than_that_the_slot_is_lost() {
    let mut script = told();
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.state(), (State::Starting, Some(Code::SlotInUse)));

    let mut script = told();
    script.handle(Input::StreamEnded);
    assert_eq!(script.state(), (State::Starting, Some(Code::SlotInUse)));

    let mut script = told();
    script.tick_after(1_999);
    assert_eq!(script.actions(), []);
    script.tick_after(1);
    assert_eq!(script.actions(), [Action::Disconnect]);
    assert_eq!(script.state(), (State::Starting, Some(Code::SlotInUse)));
    reconnect(&mut script);
    assert_eq!(script.state().0, State::Streaming);
}

#[test]
fn a_process_that_stops_does_not_read_to_the_end() {
    let mut script = told();
    script.handle(Input::Shutdown);
    let last = [Action::Disconnect, Action::Exit(ExitReason::EventsUnconfirmed)];
    assert_eq!(script.actions(), last);
}

/// The shell offers no frames then, and would look for them without a pause.
#[test]
fn without_a_producer_the_stream_is_not_read() {
    let mut script = told();
    assert!(script.relay.wants_wal());
    script.handle(Input::ProcessStalled(Duration::from_secs(8)));
    script.fail_without_session();
    assert!(!script.relay.wants_wal());
    script.new_sink();
    assert!(script.relay.wants_wal());
}

#[test]
fn an_error_that_ends_the_stream_before_the_session_begins_is_reported() {
    for by in [ToldBy::Slot, ToldBy::Table] {
        let mut script = Script::streaming();
        for _ in 0..3 {
            script.handle(Input::Disconnected(failure(Code::ServerError)));
            script.actions.clear();
            script.run_for(Duration::from_secs(40));
            assert!(script.actions().contains(&Action::Connect));
            script.begin_to_connect(by);
            assert!(script.relay.wants_wal(), "it reads the error");
        }
        script.handle(Input::Disconnected(failure(Code::ServerError)));
        assert_eq!(script.state(), (State::Failed, Some(Code::ServerError)));
    }
}

#[test]
fn the_transaction_of_such_an_error_is_named_with_the_way_past_it() {
    let mut script = Script::streaming();
    script.begin(100);
    for times in 0..3 {
        script.handle(Input::Disconnected(failure(Code::ServerError)));
        let reason = script.relay.condition(script.at).reason.expect("a reason");
        assert_eq!(reason.lsn, Some(Lsn::from_u64(100)), "{times}");
        assert_eq!(reason.case, (times > 0).then_some(Case::RowUnsendable), "{times}");
        script.actions.clear();
        script.run_for(Duration::from_secs(40));
        script.begin_to_connect(ToldBy::Slot);
        script.transaction(50, &["a"]);
        script.begin(100);
    }
    assert_eq!(script.state(), (State::Failed, Some(Code::ServerError)));
}

impl Script {
    /// The producer fails while there is no session.
    fn fail_without_session(&mut self) {
        let failure = failure(Code::ProducerFatal);
        self.handle(Input::DeliveryFailed { transaction: None, failure });
    }

    /// An attempt to connect, until slot or table say that the slot is not this router's.
    fn begin_to_connect(&mut self, by: ToldBy) {
        let mut next = self.source.answer(&Action::Connect);
        while let Some(input) = next.take() {
            let streams = self.source.is_streaming;
            self.handle(input);
            let Some(action) = self.actions.pop_back() else { return };
            if by == ToldBy::Slot && streams && action == Action::ReadSlot {
                self.source.is_streaming = false;
            }
            next = match number_of(&action) {
                Some(number) if by == ToldBy::Table => {
                    Some(Input::Held(number, Err(failure(Code::SlotInUse))))
                }
                Some(_) | None => self.source.answer(&action),
            };
        }
    }
}

/// What says that this router does not hold the slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToldBy {
    Slot,
    Table,
}
