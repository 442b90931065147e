//! Random requests and decisions, carried out by PostgreSQL and by the table in memory: every
//! answer is the same.

use std::sync::Arc;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use relay::{
    Code, Lsn,
    held::{
        Decision, EventId, HeldAnswer, HeldEvent, HeldRequest, KeyHash, Leaving, Letter, OpenCount,
        Outcome, TableMark, TableVersion,
    },
    testing::HeldTable,
};

use super::fixture::{Fixture, Store, event, id, letter};

/// What happens to the table.
#[derive(Debug, Clone)]
enum Step {
    Ask(HeldRequest),
    /// A person decides about the dead letter with this number among those that are undecided.
    Decide(usize, Decision),
    /// Somebody removes an event, past all that is recorded.
    Remove(EventId),
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn ids() -> impl Strategy<Value = EventId> {
    (0_u64..6, 0_u32..6).prop_map(|(lsn, index)| id(100 + lsn * 10, index))
}

/// The same event always has the same content, as it has when the server sends it again.
fn events() -> impl Strategy<Value = HeldEvent> {
    ids().prop_map(|id| {
        let number = id.commit_lsn.as_u64() + u64::from(id.index) * 7;
        let key = KEYS.get(usize::try_from(number % 4).unwrap()).unwrap();
        let event = if number % 3 == 0 { letter(id, key) } else { event(id, key) };
        let messages = vec![1; usize::try_from(number % 50).unwrap() + 1];
        match number % 11 {
            0 => HeldEvent { key: None, hash: KeyHash::of_event(id), messages, ..event },
            _ => HeldEvent { messages, ..event },
        }
    })
}

fn leaving() -> impl Strategy<Value = Leaving> {
    let refused = Letter { code: Code::RecordRefused, message: "again".to_owned() };
    let outcomes = prop_oneof![
        3 => Just(Outcome::Delivered),
        2 => Just(Outcome::Dropped),
        2 => Just(Outcome::Refused(refused)),
    ];
    (ids(), outcomes).prop_map(|(id, outcome)| Leaving { id, outcome })
}

fn hashes() -> impl Strategy<Value = Vec<KeyHash>> {
    let of_key = |key: &str| KeyHash::of_key(key.as_bytes());
    let keys: Vec<KeyHash> = KEYS.into_iter().map(of_key).collect();
    proptest::sample::subsequence(keys, 0..=KEYS.len())
}

fn steps() -> impl Strategy<Value = Step> {
    let counts = prop_oneof![Just(OpenCount::Recorded), Just(OpenCount::Counted)];
    let requests = prop_oneof![
        2 => (90_u64..170, counts)
            .prop_map(|(since, open)| HeldRequest::Load { since: Lsn::from_u64(since), open }),
        4 => prop::collection::vec(events(), 1..8).prop_map(|e| HeldRequest::Insert(Arc::from(e))),
        1 => Just(HeldRequest::ReadDecided),
        4 => (hashes(), 1_usize..9, 1_usize..2_000)
            .prop_map(|(keys, events, bytes)| HeldRequest::ReadNext { keys, events, bytes }),
        2 => prop::collection::btree_map(ids(), leaving(), 1..5).prop_map(|leaving| {
            let one = |(id, leaving): (EventId, Leaving)| Leaving { id, ..leaving };
            HeldRequest::Close { leaving: leaving.into_iter().map(one).collect(), after: None }
        }),
    ];
    let decisions = prop_oneof![Just(Decision::Deliver), Just(Decision::Drop)];
    prop_oneof![
        4 => requests.prop_map(Step::Ask),
        1 => (0_usize..5, decisions).prop_map(|(number, decision)| Step::Decide(number, decision)),
        1 => ids().prop_map(Step::Remove),
    ]
}

#[tokio::test]
async fn every_answer_is_that_of_the_table_in_memory() {
    const SEQUENCES: usize = 40;
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let sequences = prop::collection::vec(steps(), 30..60);
    let mut seen = [0_usize; 3];
    for _ in 0..SEQUENCES {
        let steps = sequences.new_tree(&mut runner).unwrap().current();
        fixture.run("truncate outbox_router.held, outbox_router.held_version").await;
        follow(&fixture, &mut store, &steps, &mut seen).await;
    }
    // The sequences reach what they are about.
    let [released, leaving, closed] = seen;
    assert!(released > 100 && leaving > 10 && closed > 100, "{seen:?}");
}

/// A close that follows the last write. Every third one looks to the table as if its answer was
/// lost and it came again.
fn after_last_write(request: &HeldRequest, mark: TableMark, step: usize) -> HeldRequest {
    let HeldRequest::Close { leaving, .. } = request else { return request.clone() };
    let last = mark.version;
    let before = last.map(|last| TableVersion { writes: last.writes - 1, ..last });
    let after = if step.is_multiple_of(3) { before } else { last };
    HeldRequest::Close { leaving: leaving.clone(), after }
}

/// The same answer from a table of another origin, and the table's own.
fn with_origin(mut answer: HeldAnswer, origin: u128) -> (HeldAnswer, Option<u128>) {
    let mark = match &mut answer {
        HeldAnswer::Inserted(mark) => Some(mark),
        HeldAnswer::Loaded(loaded) => Some(&mut loaded.mark),
        HeldAnswer::Closed(closed) => Some(&mut closed.mark),
        HeldAnswer::Absent
        | HeldAnswer::Decided(_)
        | HeldAnswer::Next(_)
        | HeldAnswer::Skipped(_) => None,
    };
    let version = mark.and_then(|mark| mark.version.as_mut());
    let its_own = version.map(|version| std::mem::replace(&mut version.origin, origin));
    (answer, its_own)
}

/// Counts events that may leave, keys that leave at the start of a session, and keys that closing
/// has changed.
async fn follow(fixture: &Fixture, store: &mut Store, steps: &[Step], seen: &mut [usize; 3]) {
    let mut memory = HeldTable::default();
    let session = fixture.session().await;
    let mut origin = 0;
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Ask(request) => {
                let memory_before = memory.mark();
                let expected = memory.answer(after_last_write(request, memory.mark(), number));
                let mut mark = memory_before;
                if let Some(version) = &mut mark.version {
                    version.origin = origin;
                }
                let answer = store.ask(after_last_write(request, mark, number)).await.unwrap();
                let (answer, its_origin) = with_origin(answer, 0);
                origin = its_origin.unwrap_or(origin);
                assert_eq!(answer, expected, "step {number} of {steps:?}");
                match answer {
                    HeldAnswer::Next(next) => seen[0] += next.len(),
                    HeldAnswer::Loaded(loaded) => seen[1] += loaded.leaving.len(),
                    HeldAnswer::Closed(closed) => seen[2] += closed.first.len(),
                    HeldAnswer::Absent
                    | HeldAnswer::Inserted(_)
                    | HeldAnswer::Decided(_)
                    | HeldAnswer::Skipped(_) => {}
                }
            }
            Step::Remove(EventId { commit_lsn, index }) => {
                memory.remove(EventId { commit_lsn: *commit_lsn, index: *index });
                let at = format!("commit_lsn = '{commit_lsn}' and event_index = {index}");
                fixture.run(&format!("delete from outbox_router.held where {at}")).await;
            }
            Step::Decide(number, decision) => {
                let Some(id) = memory.undecided().nth(*number) else { continue };
                memory.decide(id, *decision);
                let state = match decision {
                    Decision::Deliver => "requeued",
                    Decision::Drop => "dropping",
                };
                let decide = "update outbox_router.held set state = $3, decided_at = now() \
                              where commit_lsn = $1::text::pg_lsn and event_index = $2";
                let (lsn, index) = (id.commit_lsn.to_string(), i64::from(id.index));
                let changed = session.execute(decide, &[&lsn, &index, &state]).await.unwrap();
                assert_eq!(changed, 1);
            }
        }
    }
}
