//! A backlog that is read by SQL, beside the walsender that holds the slot.

use pgoutput::ReplyRequest;

use super::*;
use crate::StateTopicRead;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_walsender_that_is_not_heard_is_given_up_although_the_backlog_comes() {
    let mut script = Script::streaming();
    script.handle(Input::FramesFrom(BacklogFrom::Sql));
    for at in 0..8 {
        script.transaction(100 + 100 * at, &["a"]);
        script.settle();
        script.run_for(SECOND);
    }
    let asks = |action: &Action| matches!(action, Action::Status(update) if update.reply == ReplyRequest::Requested);
    assert!(script.actions().iter().any(asks), "it is asked for a sign of life");
    script.handle(Input::BytesArrived);
    script.run_for(4 * SECOND);
    script.transaction(1_000, &["a"]);
    assert_eq!(script.state().0, State::Streaming);
    script.run_for(7 * SECOND);
    assert_eq!(script.state(), (State::Starting, Some(Code::ServerSilent)));
}

#[test]
fn the_frames_of_a_stream_are_the_sign_of_life() {
    let mut script = Script::streaming();
    script.handle(Input::FramesFrom(BacklogFrom::Sql));
    script.handle(Input::FramesFrom(BacklogFrom::Stream));
    for at in 0..30 {
        script.transaction(100 + 100 * at, &["a"]);
        script.settle();
        script.run_for(SECOND);
    }
    assert_eq!(script.state().0, State::Streaming);
}

#[test]
fn a_backlog_that_cannot_be_read_by_sql_is_read_as_a_stream() {
    let mut script = Script::new(RelaySettings {
        backlog: BacklogSettings::of(BacklogFrom::Sql),
        witness: Some(samples::witness_settings()),
        ..settings()
    });
    let asked = |script: &mut Script| {
        script.run_for(Duration::from_secs(40));
        let Some(Action::ReadStateTopic(number)) = script.actions().pop() else { panic!() };
        let nothing = StateTopicRead { cluster: "c".into(), records: Vec::new() };
        script.handle(Input::StateTopic(number, Ok(nothing)));
        assert_eq!(script.actions(), [Action::Connect]);
        for action in [Action::Connect, Action::ReadSlot, Action::ReadCatalog(None)] {
            let answer = script.source.answer(&action).unwrap();
            script.handle(answer);
        }
        script.actions().pop().unwrap()
    };
    script.handle(Input::SinkReady);
    assert_eq!(asked(&mut script), Action::StartReplication(BacklogFrom::Sql));
    script.handle(Input::Disconnected(failure(Code::Backlog)));
    assert_eq!(asked(&mut script), Action::StartReplication(BacklogFrom::Stream));
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.at = script.at + Duration::from_secs(600);
    assert_eq!(asked(&mut script), Action::StartReplication(BacklogFrom::Sql));
}
