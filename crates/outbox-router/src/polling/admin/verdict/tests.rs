use std::time::Duration;

use relay::{
    Case, Code, Name,
    polling::{PollState, PolledTableReport, ShardSet},
};
use tokio::time::Instant;

use super::*;
use crate::{
    monitor::{Blame, Polled},
    polling::{
        admin::memory::Memory,
        report::WorkerReport,
        survey::{RowCount, SurveyReport, SurveyedTable, TableSurvey, stranded},
    },
    status::Word,
};

/// A worker that holds every shard of one table, in which nothing is pending.
struct World {
    worker: WorkerReport,
    survey: SurveyReport,
    memory: Memory,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            worker: WorkerReport::first(crate::polling::samples::report()),
            survey: crate::polling::samples::survey(now),
            memory: Memory::begin(now),
            now,
        }
    }

    fn state(&mut self, state: PollState, reason: Option<Failure>) {
        self.worker.poller.state = state;
        self.worker.poller.reason = reason;
    }

    fn figures(&mut self) -> &mut TableSurvey {
        self.survey.tables[0].figures.as_mut().unwrap()
    }

    fn table(&mut self) -> &mut PolledTableReport {
        &mut self.worker.poller.tables[0]
    }

    /// So many seconds pass, in which worker and survey report the same.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let facts = Facts::of(&self.worker, &self.survey, &self.memory, self.now);
            let mut memory = self.memory.clone();
            memory.observe(&facts, self.now);
            self.memory = memory;
            self.now += Duration::from_secs(1);
            self.worker.at = self.now;
            let read = Polled { at: self.now, wall: std::time::SystemTime::now() };
            self.survey.read = Some(read);
            self.survey.ticked_at = Some(self.now);
            if let Ok(figures) = &mut self.survey.tables[0].figures {
                figures.oldest_seconds = figures.oldest_seconds.map(|oldest| oldest + 1.0);
                figures.due_in_seconds = figures.due_in_seconds.map(|due| due - 1.0);
            }
        }
    }

    fn verdict(&self) -> Verdict {
        judge(&Facts::of(&self.worker, &self.survey, &self.memory, self.now))
    }

    #[track_caller]
    fn assert(&self, word: Word, sentence: &str) -> Verdict {
        let verdict = self.verdict();
        assert_eq!((verdict.word, verdict.sentence.as_str()), (word, sentence));
        verdict
    }
}

#[test]
fn rows_flow_while_nothing_is_pending_for_long() {
    let mut world = World::new();
    let verdict = world.assert(Word::Ok, "rows flow");
    assert_eq!((verdict.blame, verdict.to_do.len()), (Blame::Nobody, 0));
    world.figures().pending = RowCount::Exactly(50);
    world.figures().oldest_seconds = Some(1.0);
    world.assert(Word::Ok, "rows flow");
}

#[test]
fn a_backlog_that_becomes_smaller_says_in_what_time_it_is_delivered() {
    let mut world = World::new();
    world.figures().oldest_seconds = Some(300.0);
    for left in 0..20 {
        world.figures().pending = RowCount::Exactly(10_000 - left * 100);
        world.table().published += 100;
        world.pass(1);
    }
    world.figures().pending = RowCount::Exactly(8_000);
    let verdict = world.verdict();
    assert_eq!(verdict.word, Word::CatchingUp);
    let sentence = "8000 rows pending, the oldest for 5 min; nothing is pending in about 81 s at \
                    this pace";
    assert_eq!(verdict.sentence, sentence);
    // Nothing goes on at the pace of what has been while the worker is blocked.
    world.state(PollState::Blocked, Some(Failure::new(Code::KafkaUnreachable, "no answer")));
    assert_eq!(Facts::of(&world.worker, &world.survey, &world.memory, world.now).empty_in, None);
}

#[test]
fn a_count_that_ended_at_its_bound_says_so() {
    let mut world = World::new();
    world.figures().pending = RowCount::AtLeast(100_000);
    world.figures().oldest_seconds = Some(7_300.0);
    world.assert(Word::CatchingUp, "at least 100000 rows pending, the oldest for 2 h");
}

#[test]
fn whoever_has_the_rows_is_to_blame_when_none_is_published() {
    let mut world = World::new();
    world.figures().pending = RowCount::Exactly(7);
    world.figures().oldest_seconds = Some(20.0);
    world.worker.poller.unacked = 7;
    world.pass(30);
    let verdict = world.verdict();
    assert_eq!((verdict.word, verdict.blame), (Word::CatchingUp, Blame::Kafka));
    assert!(verdict.sentence.ends_with("; the worker waits for Kafka"), "{}", verdict.sentence);
    // Nothing is in flight, and another worker has half of the shards.
    world.worker.poller.unacked = 0;
    world.worker.poller.workers = 2;
    world.table().shards = (0..32).collect();
    let verdict = world.verdict();
    assert_eq!(verdict.blame, Blame::Holder);
    assert!(verdict.sentence.ends_with("; other workers have these rows"), "{}", verdict.sentence);
    world.table().shards = ShardSet::ALL;
    world.worker.poller.workers = 1;
    assert_eq!(world.verdict().blame, Blame::Router);
    // A lock of somebody else's, as rows that are claimed show.
    world.figures().processing = RowCount::Exactly(7);
    assert_eq!(world.verdict().blame, Blame::Holder);
}

#[test]
fn what_nothing_explains_is_a_stall_after_a_minute() {
    let mut world = World::new();
    world.figures().pending = RowCount::Exactly(7);
    world.figures().oldest_seconds = Some(2.0);
    world.pass(75);
    let verdict = world.verdict();
    assert_eq!(verdict.word, Word::Stalled);
    assert!(verdict.sentence.contains(", 7 rows pending"), "{}", verdict.sentence);
    assert_eq!(verdict.to_do[0].hint.as_deref(), Some("outbox-router doctor"));
    // Another worker publishes: the oldest row is a later one.
    world.figures().oldest_seconds = Some(1.0);
    world.pass(1);
    assert_eq!(world.verdict().word, Word::Ok);
}

#[test]
fn rows_behind_one_that_was_abandoned_are_no_stall_and_are_told() {
    let mut world = World::new();
    world.figures().pending = RowCount::Exactly(3);
    world.figures().abandoned = RowCount::Exactly(1);
    world.figures().oldest_seconds = Some(4_000.0);
    world.pass(200);
    let sentence = "rows flow; 1 row is abandoned; 3 rows are pending, the oldest row for 70 min: \
                    what is of its key waits behind it";
    let verdict = world.assert(Word::Ok, sentence);
    let to_do = &verdict.to_do[0];
    assert_eq!(to_do.hint.as_deref(), Some("outbox-router dead-letters list"));
}

#[test]
fn the_state_s_reason_is_the_sentence_and_says_what_to_type() {
    let mut world = World::new();
    let missing =
        Failure::new(Code::TopicMissing, "topic x does not exist").naming(Name::Topic, "x");
    world.state(PollState::Blocked, Some(missing));
    let verdict = world.assert(Word::Blocked, "topic x does not exist (K010)");
    assert_eq!(
        (verdict.blame, verdict.code, verdict.acts()),
        (Blame::Kafka, Some("K010"), "kafka")
    );
    assert!(verdict.to_do[0].hint.as_deref().unwrap().contains("--create --topic x"));

    let unread = Failure::new(Code::ServerUnreachable, "no answer");
    world.state(PollState::Starting, Some(unread));
    assert_eq!(world.assert(Word::Blocked, "no answer (P001)").blame, Blame::Postgres);

    let lease = Failure::new(Code::LeaseTable, "outbox_router.lease is missing");
    world.state(PollState::Failed, Some(lease));
    let verdict = world.assert(Word::Failed, "outbox_router.lease is missing (P042)");
    assert_eq!(verdict.acts(), "person");
    assert!(verdict.to_do[0].hint.as_deref().unwrap().contains("setup"), "{verdict:?}");
}

/// One code, and a cause for each: who mends the first learns of the second at once.
#[test]
fn each_table_that_cannot_be_polled_is_to_do() {
    let mut world = World::new();
    let of = |what: &str| Failure::new(Code::Polling, what);
    let second = world.worker.poller.tables[0].clone();
    world.worker.poller.tables.push(second);
    for (place, what) in ["a has no mark", "b has no mark"].into_iter().enumerate() {
        world.worker.poller.tables[place].failure = Some(of(what));
    }
    world.state(PollState::Failed, Some(of("a has no mark")));
    let verdict = world.assert(Word::Failed, "a has no mark (P041)");
    let messages: Vec<_> = verdict.to_do.iter().map(|to_do| to_do.message.as_str()).collect();
    assert_eq!(messages, ["a has no mark", "b has no mark"]);
}

#[test]
fn a_standby_could_take_over_unless_the_tables_cannot_be_read() {
    let mut world = World::new();
    world.state(PollState::Standby, None);
    world.assert(Word::Standby, "other workers have every shard");
    world.survey.failure = Some(Failure::new(Code::ServerUnreachable, "no answer"));
    let verdict = world.verdict();
    assert!(verdict.sentence.contains("could not take over: no answer (P001)"));
    assert_eq!(verdict.acts(), "holder");
}

#[test]
fn a_task_that_is_mute_is_a_failure_whatever_it_said_last() {
    let mut world = World::new();
    world.now += Duration::from_secs(31);
    let verdict = world.assert(Word::Failed, "the worker task has reported nothing for too long");
    assert_eq!(verdict.acts(), "person");
    let mut world = World::new();
    world.now += Duration::from_secs(121);
    world.worker.at = world.now;
    world.assert(Word::Failed, "the survey task has reported nothing for too long");
}

#[test]
fn a_table_that_cannot_be_counted_is_told_while_rows_flow() {
    let mut world = World::new();
    let denied = Failure::of(Case::PermissionDenied, "role r may not read public.outbox");
    let name = world.survey.tables[0].name.clone();
    let uncounted = SurveyedTable {
        name,
        figures: Err(denied),
        size: None,
        holders: Ok(Vec::new()),
        handed: None,
        stranded: None,
    };
    world.survey.tables = vec![uncounted];
    let verdict = world.verdict();
    assert_eq!(verdict.word, Word::Ok);
    assert!(verdict.sentence.starts_with("rows flow; pending rows cannot be counted: role r"));
    assert_eq!(verdict.to_do.len(), 1);
}

/// Nothing of their keys is sent, and no attempt is made by itself.
#[test]
fn rows_of_an_unknown_status_need_a_person_while_others_flow() {
    let mut world = World::new();
    world.figures().stranded = RowCount::Exactly(2);
    let table = &mut world.survey.tables[0];
    table.stranded = stranded(&table.name, table.figures.as_ref().unwrap());
    let verdict = world.verdict();
    assert_eq!(
        (verdict.word, verdict.code, verdict.needs_person),
        (Word::Failed, Some("P060"), true)
    );
    let expected = "2 rows of public.outbox with a status of which outbox.mark knows nothing: not \
                    sent, and neither are the later rows of their keys (P060); other keys go on";
    assert_eq!(verdict.sentence, expected);
    assert_eq!(verdict.to_do.len(), 1);
}

#[test]
fn a_row_that_is_not_due_is_no_stall_and_is_told() {
    let mut world = World::new();
    world.figures().pending = RowCount::Exactly(1);
    (world.figures().not_due, world.figures().due_in_seconds) = (1, Some(3_600.0));
    world.pass(720);
    let verdict = world.assert(Word::Ok, "rows flow; 1 row is not due yet, but in 48 min");
    assert_eq!((verdict.blame, verdict.to_do.len()), (Blame::Nobody, 0));
    let facts = Facts::of(&world.worker, &world.survey, &world.memory, world.now);
    assert!(facts.still < Duration::from_secs(2), "{:?}", facts.still);
    (world.figures().pending, world.figures().not_due) = (RowCount::Exactly(3), 3);
    let sentence = "rows flow; 3 rows are not due yet, the first is in 48 min";
    world.assert(Word::Ok, sentence);
    // Beside them one is due, and nobody delivers it.
    world.figures().pending = RowCount::Exactly(4);
    world.figures().oldest_seconds = Some(0.0);
    world.pass(75);
    let stalled = world.verdict();
    assert_eq!(stalled.word, Word::Stalled);
    let pending = ", 4 rows pending, of which 3 are not due before 46 min from now";
    assert!(stalled.sentence.contains(pending), "{}", stalled.sentence);
}

/// Counting ends at a bound, and rows that are not due may stand first.
#[test]
fn rows_that_are_due_behind_as_many_as_are_counted_are_a_backlog_and_a_stall() {
    let mut world = World::new();
    world.figures().pending = RowCount::AtLeast(100_000);
    (world.figures().not_due, world.figures().due_in_seconds) = (100_000, Some(36_200.0));
    world.pass(75);
    let sentence = "rows flow; 100000 rows are not due yet, the first is in 10 h";
    world.assert(Word::Ok, sentence);
    world.figures().oldest_seconds = Some(7_300.0);
    let sentence = "at least 100000 rows pending, of which 100000 are not due before 10 h from \
                    now, the oldest for 2 h";
    world.assert(Word::CatchingUp, sentence);
    world.pass(75);
    assert_eq!(world.verdict().word, Word::Stalled);
}

#[test]
fn of_a_backlog_those_rows_are_told_apart_that_are_not_due() {
    let mut world = World::new();
    world.figures().oldest_seconds = Some(300.0);
    (world.figures().not_due, world.figures().due_in_seconds) = (9_000, Some(7_000.0));
    for left in 0..20 {
        world.figures().pending = RowCount::Exactly(10_000 - left * 10);
        world.table().published += 10;
        world.pass(1);
    }
    let sentence = "9810 rows pending, of which 9000 are not due before 116 min from now, the \
                    oldest for 5 min; nothing is pending in about 81 s at this pace";
    assert_eq!(world.verdict().sentence, sentence);
    // Of a time that never comes nothing is said.
    world.figures().due_in_seconds = Some(f64::INFINITY);
    let verdict = world.verdict();
    assert!(
        verdict.sentence.contains(", of which 9000 are not due yet, the oldest"),
        "{verdict:?}"
    );
}

fn headers(id: &str) -> Failure {
    Failure::new(Code::HeadersMalformed, format!("headers of row {id} are no object"))
}

#[test]
fn a_row_that_is_tried_again_is_named_and_no_pace_is_promised() {
    let mut world = World::new();
    // The table has no columns for attempts, so the survey knows of none.
    (world.table().waiting, world.table().failure) = (1, Some(headers("7")));
    world.figures().oldest_seconds = Some(9.0);
    for second in 0..20 {
        world.figures().pending = RowCount::Exactly(30 - second);
        world.pass(1);
    }
    world.figures().pending = RowCount::Exactly(3);
    let waits = "rows flow; 1 row waits for another attempt: headers of row 7 are no object (R009)";
    let behind =
        "; 2 rows are pending, the oldest row for 29 s: what is of its key waits behind it";
    let verdict = world.assert(Word::Ok, &format!("{waits}{behind}"));
    assert_eq!((verdict.blame, verdict.to_do[0].code), (Blame::Nobody, Some("R009")));
    // A backlog of other keys beside it is delivered, and says no time either.
    world.worker.poller.unacked = 5;
    let verdict = world.verdict();
    assert_eq!(verdict.word, Word::CatchingUp);
    assert!(!verdict.sentence.contains("at this pace"), "{}", verdict.sentence);
    let facts = Facts::of(&world.worker, &world.survey, &world.memory, world.now);
    assert_eq!(facts.empty_in, None);
    world.worker.poller.unacked = 0;
    world.figures().pending = RowCount::Exactly(1);
    world.assert(Word::Ok, waits);
}

#[test]
fn nobody_polls_a_table_that_is_being_handed_over() {
    let mut world = World::new();
    world.figures().pending = RowCount::Exactly(5);
    let what = "table public.outbox is being handed to the stream, and nobody polls it";
    world.survey.tables[0].handed = Some(Failure::of(Case::Switching, what));
    for state in [PollState::Polling, PollState::Standby] {
        world.state(state, None);
        let verdict = world.assert(Word::Blocked, &format!("{what} (P043)"));
        assert_eq!((verdict.code, verdict.acts()), (Some("P043"), "person"));
        assert_eq!(verdict.to_do.len(), 1, "{:?}", verdict.to_do);
    }
}

#[test]
fn no_time_is_promised_while_a_table_is_being_handed_over() {
    let mut world = World::new();
    for left in 0..20 {
        world.figures().pending = RowCount::Exactly(1_000 - left);
        world.pass(1);
    }
    let empty_in =
        |world: &World| Facts::of(&world.worker, &world.survey, &world.memory, world.now).empty_in;
    assert!(empty_in(&world).is_some());
    world.survey.tables[0].handed = Some(Failure::of(Case::Switching, "it is being handed"));
    assert_eq!(empty_in(&world), None);
}

#[test]
fn while_a_row_waits_that_halts_the_first_one_is_named_however_many_follow() {
    let mut world = World::new();
    let bad = headers("7");
    (world.table().waiting, world.table().failure) = (1, Some(bad.clone()));
    world.state(PollState::Failed, Some(bad));
    world.pass(3);
    let sentence = "1 row waits for another attempt: headers of row 7 are no object (R009); other \
                    keys go on";
    assert_eq!(world.assert(Word::Failed, sentence).acts(), "person");
    // Other keys are delivered, and another row is met, which is the one that is reported.
    let null = Failure::new(Code::KeyIsNull, "the key of row 9 is NULL");
    world.table().published += 50;
    (world.table().waiting, world.table().failure) = (2, Some(null.clone()));
    world.state(PollState::Failed, Some(null.clone()));
    world.pass(1);
    let sentence = "2 rows wait for another attempt, one of them: headers of row 7 are no object \
                    (R009); other keys go on";
    let verdict = world.assert(Word::Failed, sentence);
    assert_eq!(verdict.code, Some("R009"), "it holds for as long as before");
    let codes: Vec<_> = verdict.to_do.iter().map(|to_do| to_do.code).collect();
    assert_eq!(codes, [Some("R009"), Some(null.code.as_str())], "both are to be mended");
    // The first is delivered.
    world.table().waiting = 1;
    world.pass(1);
    assert_eq!(world.verdict().code, Some(null.code.as_str()));
    (world.table().waiting, world.table().failure) = (0, None);
    world.state(PollState::Polling, None);
    world.assert(Word::Ok, "rows flow");
}

#[test]
fn a_table_that_a_row_makes_unreadable_has_failed_until_it_was_read_for_a_while() {
    let mut world = World::new();
    let unfit = Failure::of(Case::PermissionDenied, "role r may not read public.outbox");
    world.table().failure = Some(unfit.clone());
    world.state(PollState::Failed, Some(unfit.clone()));
    world.pass(10);
    let failed = world.verdict();
    assert_eq!(failed.word, Word::Failed);
    // It is read again, and rows before the one that fails are delivered.
    world.table().failure = None;
    world.table().published += 5;
    world.state(PollState::Polling, None);
    world.pass(2);
    let still = world.verdict();
    assert_eq!((still.word, still.code), (failed.word, failed.code));
    world.pass(5);
    world.assert(Word::Ok, "rows flow");
}
