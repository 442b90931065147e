//! A row that a person skips.

use super::*;
use crate::witness::Notes;

#[test]
fn a_person_skips_the_row_at_which_the_router_stands_and_no_other() {
    let mut script = streaming(HeldSettings::default());
    script.begin(24);
    script.take(&good("a"));
    script.settle();
    assert_eq!(script.frame(&poison("b")), FrameOutcome::NotTaken);
    script.handle(Input::Tick);
    script.answer_table();
    assert!(!script.relay.wants_wal(), "nobody has decided");
    script.table().skip(Lsn::from_u64(24), Some("another"));
    script.take_time(Duration::from_secs(6));
    script.answer_table();
    assert!(!script.relay.wants_wal(), "somebody has decided about another row");
    let notes = Notes { by: Lsn::from_u64(90), writes: 2, ..Notes::default() };
    script.table().notes = notes;
    script.table().skip(Lsn::from_u64(24), Some("b"));
    script.take_time(Duration::from_secs(6));
    script.answer_table();
    assert!(script.relay.wants_wal());
    let relied_on = script.relay.keeper.witness().map(|known| known.notes);
    assert_eq!(relied_on, Some(notes), "what is confirmed relies on the decision");
    script.take(&poison("b"));
    assert_eq!(script.state(), (State::Streaming, None));
    assert_eq!(script.frame(&poison("c")), FrameOutcome::NotTaken, "the next one is not skipped");
    let skipped = script.relay.take_skipped();
    let named: Vec<_> = skipped.iter().map(|row| (row.id, row.event_id.as_deref())).collect();
    assert_eq!(named, [(id(24, 1), Some("b"))]);
    script.table().skip(Lsn::from_u64(24), Some("c"));
    script.handle(Input::Tick);
    script.answer_table();
    script.take(&poison("c"));
    script.take(&good("d"));
    script.commit(24);
    script.catch_up();
    assert_eq!(script.keys(), ["a", "d"]);
    assert_eq!(script.confirmed(), 32);
    assert!(script.states().is_empty(), "a skipped row is in no table");
}
