//! Answers that come out of order. The shell gives none, but the core does not depend on that.

use super::*;
use crate::{
    StateTopicRead, WitnessSettings,
    held::{HeldAnswer, HeldRequest},
    source::TimelineHistory,
    testing::Source,
    witness::WitnessKey,
};

fn witnessed() -> RelaySettings {
    let key = WitnessKey { name: "n".into(), database: "d".into(), slot: "s".into() };
    let topic = TopicName::new("t").unwrap();
    let witness = WitnessSettings { key, process: "this".into(), topic };
    RelaySettings { witness: Some(witness), ..settings() }
}

fn state(number: u64, cluster: &str) -> Input<'static> {
    Input::StateTopic(
        number,
        Ok(StateTopicRead { cluster: cluster.to_owned(), records: Vec::new() }),
    )
}

/// The answers of every step but `asked`, from another slot and another cluster. `read` is the
/// number of the last read of the state topic.
fn unrequested_answers(asked: Option<&Action>, read: u64) -> Vec<Input<'static>> {
    let mut other = Source { slot_at: 500, ..Source::of("outbox", OUTBOX, &COLUMNS) };
    let steps = [
        Action::Connect,
        Action::ReadSlot,
        Action::ReadCatalog(None),
        Action::StartReplication(BacklogFrom::Stream),
    ];
    let mut answers = vec![
        (Action::ReadStateTopic(read), state(read, "another")),
        (Action::Held(0, HeldRequest::ReadDecided), Input::Held(0, Ok(HeldAnswer::Absent))),
        (Action::ReadTimelines(1), Input::Timelines(TimelineHistory::default())),
    ];
    answers.extend(steps.into_iter().map(|step| {
        let answer = other.answer(&step).unwrap();
        (step, answer)
    }));
    let is_asked = |step: &Action| {
        asked.is_some_and(|asked| std::mem::discriminant(asked) == std::mem::discriminant(step))
    };
    answers.into_iter().filter(|(step, _)| !is_asked(step)).map(|(_, answer)| answer).collect()
}

#[test]
fn a_session_begins_only_with_answers_that_were_requested_and_in_their_order() {
    let mut script = Script::new(witnessed());
    script.handle(Input::SinkReady);
    let mut source = script.source.clone();
    let (mut steps, mut read) = (0, 0);
    while script.state().0 != State::Streaming {
        let asked = script.actions();
        let [step] = &asked[..] else { panic!("{asked:?}") };
        for input in unrequested_answers(Some(step), read) {
            script.handle(input);
            assert_eq!(script.actions(), [], "instead of {step:?}");
        }
        let answer = if let Action::ReadStateTopic(number) = step {
            read = *number;
            Some(state(read, "c"))
        } else {
            source.answer(step)
        };
        script.handle(answer.unwrap());
        steps += 1;
    }
    assert_eq!(steps, 8);
    let written = script.actions();
    for input in unrequested_answers(None, read - 1) {
        script.handle(input);
        assert_eq!(script.actions(), [], "after {written:?}");
    }
    let baseline = script.relay.snapshot(script.at).baseline.unwrap();
    assert_eq!(baseline.confirmed().as_u64(), source.slot_at);
}
