//! Dead letters and the events that are held behind them (`crate::held`).

use super::*;
use crate::{
    ErrorPolicy, HeldLimits, HeldSettings, HoldKeys, OnError,
    held::{Decision, EventId, HeldAnswer},
    testing::{HeldState, HeldTable},
};

const DEAD_LETTERS: ErrorPolicy = ErrorPolicy {
    bad_row: OnError::DeadLetter,
    unroutable: OnError::DeadLetter,
    too_large: OnError::DeadLetter,
    rejected: OnError::DeadLetter,
};

fn with_table(held: HeldSettings) -> RelaySettings {
    let window = Window { events: 100, bytes: 1 << 20 };
    RelaySettings { held, window, ..settings() }
}

fn dead_letters() -> HeldSettings {
    HeldSettings { policy: DEAD_LETTERS, ..HeldSettings::default() }
}

/// A streaming core whose server has the table.
fn streaming(held: HeldSettings) -> Script {
    let mut script = Script::new(with_table(held));
    script.source.held = Some(HeldTable::default());
    script.begin_streaming();
    script
}

fn poison(key: &str) -> Vec<u8> {
    row_with_headers(key, "no object")
}

fn row_with_headers(key: &str, headers: &str) -> Vec<u8> {
    let values = [key, "order", key, "Happened", "{}", headers].map(Value::Text);
    wire::insert(1, OUTBOX, &values)
}

fn good(key: &str) -> Vec<u8> {
    row_with_headers(key, "{}")
}

fn id(commit_lsn: u64, index: u32) -> EventId {
    EventId { commit_lsn: Lsn::from_u64(commit_lsn), index }
}

fn number_of(action: &Action) -> Option<u64> {
    if let Action::Held(number, _) = action { Some(*number) } else { None }
}

impl Script {
    fn begin_streaming(&mut self) {
        self.handle(Input::SinkReady);
        self.connect();
        self.describe_with_headers();
        self.begin(8);
        self.take(&good("warm-up"));
        self.commit(8);
        self.settle();
        self.tick_after(100);
        self.actions.clear();
        self.sink.forget();
    }

    fn describe_with_headers(&mut self) {
        let columns: Vec<_> = COLUMNS.into_iter().chain([("headers", TEXT)]).collect();
        self.frame(&wire::relation(OUTBOX, "outbox", &columns));
    }

    /// The table answers what it was asked, until it is asked nothing more.
    fn answer_table(&mut self) {
        loop {
            self.collect();
            let asked = |action: &Action| matches!(action, Action::Held(..));
            let Some(at) = self.actions.iter().position(asked) else { return };
            let Some(action) = self.actions.remove(at) else { return };
            if let Some(answer) = self.source.answer(&action) {
                self.handle(answer);
            }
            self.release();
            self.handle(Input::Tick);
        }
    }

    /// What the shell does after each event: it lets the core produce what is released.
    fn release(&mut self) {
        self.relay.release(self.now(), &mut self.sink);
        self.collect();
        if let Some(Action::LookUpTopic(id, _)) = self.actions.back() {
            let id = *id;
            self.actions.pop_back();
            self.handle(Input::Topic(id, Ok(facts(3))));
            self.relay.release(self.now(), &mut self.sink);
        }
    }

    /// Table, Kafka and status updates catch up.
    fn catch_up(&mut self) {
        for _ in 0..10 {
            self.handle(Input::BytesArrived);
            self.answer_table();
            self.settle();
            self.answer_table();
            self.tick_after(1_100);
        }
    }

    /// Table and Kafka catch up; nothing is confirmed yet.
    fn hold_and_settle(&mut self) {
        for _ in 0..3 {
            self.answer_table();
            self.settle();
        }
    }

    /// One transaction of these rows, which commits at `at`.
    fn rows(&mut self, at: u64, rows: &[Vec<u8>]) {
        self.begin(at);
        for row in rows {
            self.take(row);
        }
        self.commit(at);
        self.handle(Input::Tick);
    }

    fn table(&mut self) -> &mut HeldTable {
        self.source.held.as_mut().unwrap()
    }

    fn states(&mut self) -> Vec<HeldState> {
        self.table().rows().map(|row| row.state).collect()
    }

    fn held(&self) -> HeldLimits {
        self.relay.snapshot(self.at).held.held
    }

    /// The connection breaks, and the next session begins.
    fn reconnect(&mut self) {
        self.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
        self.actions.clear();
        self.connect();
        self.describe_with_headers();
    }
}

#[test]
fn later_events_of_a_dead_letters_key_are_held_and_other_keys_go_on() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[good("a"), poison("b"), good("b"), good("c")]);
    script.rows(40, &[good("b"), good("a")]);
    script.catch_up();
    assert_eq!(script.keys(), ["a", "c", "a"]);
    assert_eq!(script.states(), [HeldState::Held; 3]);
    let ids: Vec<_> = script.table().rows().map(|row| row.event.id).collect();
    assert_eq!(ids, [id(24, 1), id(24, 2), id(40, 0)]);
    assert_eq!(script.confirmed(), 48, "what is held is settled");
    assert_eq!(script.state(), (State::Streaming, None));
    let held = script.held();
    assert_eq!((held.keys, held.events), (1, 3));
    let letters = script.relay.take_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].id, letters[0].code), (id(24, 1), Code::HeadersMalformed));
    assert_eq!(letters[0].event_id.as_deref(), Some("b"));
}

#[test]
fn nothing_is_confirmed_before_the_table_has_it() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("c")]);
    script.settle();
    script.tick_after(4_000);
    assert_eq!(script.confirmed(), 16);
    let asked: Vec<_> = script.actions();
    let number = asked.iter().find_map(number_of);
    script.handle(Input::Held(number.unwrap(), Ok(HeldAnswer::Done)));
    script.tick_after(4_000);
    assert_eq!(script.confirmed(), 32);
}

#[test]
fn a_write_that_fails_is_repeated_and_the_state_names_the_reason() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    let actions = script.actions();
    let Some(Action::Held(number, first)) =
        actions.into_iter().find(|action| matches!(action, Action::Held(..)))
    else {
        panic!("the table is asked")
    };
    script.handle(Input::Held(number, Err(failure(Code::HeldTable))));
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTable)));
    script.take_time(Duration::from_secs(31));
    let again = script.actions();
    assert!(
        again.iter().any(|action| matches!(action, Action::Held(_, request) if *request == first)),
        "{again:?}"
    );
    assert_eq!(script.confirmed(), 16);
}

#[test]
fn a_requeued_key_leaves_in_order_and_is_free_when_the_table_says_so() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b"), good("b")]);
    script.catch_up();
    assert!(script.keys().is_empty());
    // The row could not become a record because of the configuration; now it can.
    script.table().decide(id(24, 0), Decision::Drop);
    script.tick_after(1_100);
    script.answer_table();
    assert_eq!(script.keys(), ["b", "b"], "what was held behind it leaves by itself");
    script.rows(40, &[good("b")]);
    assert_eq!(script.keys().len(), 2, "the key is not free before Kafka has acknowledged");
    script.settle();
    script.rows(56, &[good("b")]);
    assert_eq!(script.keys().len(), 2, "nor before the table says so");
    script.catch_up();
    assert_eq!(script.keys().len(), 4);
    assert_eq!(script.held(), HeldLimits::NONE);
    script.rows(72, &[good("b")]);
    assert_eq!(script.keys().len(), 5, "free");
    let mut states = vec![HeldState::Dropped];
    states.extend([HeldState::Delivered; 4]);
    assert_eq!(script.states(), states);
    let totals = script.relay.snapshot(script.at).held.totals;
    assert_eq!((totals.delivered, totals.dropped), (4, 1));
}

#[test]
fn a_dead_letter_that_fails_again_holds_again() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Deliver);
    script.catch_up();
    assert!(script.keys().is_empty());
    assert_eq!(script.states(), [HeldState::Held; 2]);
    assert_eq!(script.held().events, 2);
    let letters = script.relay.take_letters();
    assert_eq!(letters.len(), 1, "it is no new dead letter");
}

#[test]
fn an_event_that_cannot_be_delivered_when_its_turn_comes_is_a_dead_letter_then() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b"), poison("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    assert_eq!(script.keys(), ["b"], "up to the next dead letter");
    let undecided: Vec<_> = script.table().undecided().collect();
    assert_eq!(undecided, [id(24, 2)]);
    script.table().decide(id(24, 2), Decision::Drop);
    script.catch_up();
    assert_eq!(script.keys(), ["b", "b"]);
    assert_eq!(script.relay.take_letters().len(), 2);
}

#[test]
fn what_comes_again_is_found_in_the_table() {
    let mut script = streaming(dead_letters());
    let rows = [good("a"), poison("b"), good("b"), good("c")];
    script.rows(24, &rows);
    script.answer_table();
    let before: Vec<_> = script.table().rows().cloned().collect();
    script.reconnect();
    script.sink.forget();
    script.rows(24, &rows);
    script.rows(40, &[good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["a", "c"]);
    let after: Vec<_> = script.table().rows().cloned().collect();
    assert_eq!(after[..2], before);
    assert_eq!(after.len(), 3);
    assert_eq!(script.confirmed(), 48);
    assert_eq!(script.held().events, 3);
}

#[test]
fn a_release_that_a_crash_interrupts_goes_on_in_the_next_session() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Drop);
    script.tick_after(1_100);
    script.answer_table();
    assert_eq!(script.keys(), ["b", "b"]);
    script.handle(Input::DeliveryFailed {
        transaction: None,
        failure: failure(Code::KafkaUnreachable),
    });
    script.new_sink();
    script.actions.clear();
    script.connect();
    script.describe_with_headers();
    script.rows(40, &[good("b")]);
    assert!(script.keys().is_empty(), "nothing passes what is held");
    script.catch_up();
    assert_eq!(script.keys(), ["b"; 3], "again, in order, and then the new one");
    assert_eq!(script.held(), HeldLimits::NONE);
}

#[test]
fn a_row_without_a_key_holds_nobody() {
    let mut script = streaming(dead_letters());
    let mut values = ["bad", "order", "", "Happened", "{}", "{}"].map(Value::Text);
    values[2] = Value::Null;
    let without_key = wire::insert(1, OUTBOX, &values);
    script.rows(24, &[without_key.clone(), good("a"), without_key]);
    script.catch_up();
    assert_eq!(script.keys(), ["a"]);
    assert_eq!(script.held().keys, 2, "each of them is held by itself");
}

#[test]
fn where_keys_are_not_held_the_next_event_of_the_key_passes() {
    let held = HeldSettings { hold_keys: HoldKeys::No, ..dead_letters() };
    let mut script = streaming(held);
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["b"]);
    assert_eq!(script.states(), [HeldState::Held]);
}

#[test]
fn at_a_limit_the_session_waits_at_the_row() {
    let limits = HeldLimits { keys: 2, ..HeldLimits::default() };
    let mut script = streaming(HeldSettings { limits, ..dead_letters() });
    script.rows(24, &[poison("a"), poison("b"), good("a")]);
    script.begin(40);
    assert_eq!(script.frame(&poison("c")), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldFull)));
    script.answer_table();
    script.table().decide(id(24, 1), Decision::Drop);
    for _ in 0..40 {
        script.handle(Input::BytesArrived);
        script.tick_after(1_000);
        script.answer_table();
    }
    assert!(script.relay.wants_wal(), "there is room for another key");
    script.take(&poison("c"));
    script.commit(40);
}

#[test]
fn without_its_table_a_router_that_needs_it_does_not_stream() {
    let mut script = Script::new(with_table(dead_letters()));
    script.handle(Input::SinkReady);
    script.run_for(Duration::from_secs(1));
    script.answer();
    assert_eq!(script.state(), (State::Failed, Some(Code::HeldTable)));
}

#[test]
fn what_is_held_stays_held_when_no_error_makes_dead_letters_any_more() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    script.catch_up();
    let source = script.source.clone();
    let mut script = Script::new(with_table(HeldSettings::default()));
    script.source = source;
    script.begin_streaming();
    script.rows(40, &[good("b"), good("c")]);
    script.catch_up();
    assert_eq!(script.keys(), ["c"]);
    assert_eq!(script.held().events, 2);
    script.begin(56);
    assert_eq!(script.frame(&poison("d")), FrameOutcome::NotTaken, "it halts");
}

#[test]
fn a_record_that_the_broker_refuses_is_found_and_its_neighbours_go_out_in_order() {
    let mut script = streaming(dead_letters());
    let names: Vec<String> = (0..600).map(|n| format!("k{n}")).collect();
    let rows: Vec<_> = names.iter().map(|name| good(name)).collect();
    let culprit = 321;
    for _ in 0..4 {
        script.sink.forget();
        let mut failed = false;
        script.begin(24);
        for row in &rows {
            while !(failed || script.relay.wants_wal() && script.offer(row)) {
                failed = script.deliver(&names[culprit]);
            }
        }
        while !failed && script.sink.in_flight() > 0 {
            failed = script.deliver(&names[culprit]);
        }
        if !failed {
            script.commit(24);
            script.catch_up();
            break;
        }
        script.new_sink();
        script.run_for(Duration::from_secs(2));
        script.answer();
        script.describe_with_headers();
    }
    let mut expected = names.clone();
    expected.remove(culprit);
    assert_eq!(script.keys(), expected);
    assert_eq!(script.states(), [HeldState::Held]);
    let index = u32::try_from(culprit).unwrap();
    let undecided: Vec<_> = script.table().undecided().collect();
    assert_eq!(undecided, [id(24, index)]);
    assert_eq!(script.confirmed(), 32);
}

impl Script {
    /// Offers a row. Returns whether it was taken.
    fn offer(&mut self, row: &[u8]) -> bool {
        if self.frame(row) == FrameOutcome::Taken {
            return true;
        }
        if let Some(Action::LookUpTopic(id, _)) = self.actions.back() {
            let id = *id;
            self.actions.pop_back();
            self.handle(Input::Topic(id, Ok(facts(1))));
        }
        false
    }

    /// Kafka answers for everything in flight. It refuses the record of one key, and the batch with
    /// it. Returns whether it did.
    fn deliver(&mut self, refused: &str) -> bool {
        let mut acks = Acks::default();
        for lane in self.sink.waiting() {
            while let Some(next) = self.sink.next(lane) {
                if next.key == refused.as_bytes() {
                    let transaction = self.sink.fail(lane);
                    let failure = failure(Code::RecordRefused);
                    self.handle(Input::DeliveryFailed { transaction, failure });
                    return true;
                }
                self.sink.store(lane);
                self.sink.ack(lane, &mut acks);
            }
        }
        self.handle(Input::Acks(&acks));
        false
    }
}

#[test]
fn a_row_that_did_not_arrive_whole_is_held_by_its_key() {
    let mut script = streaming(dead_letters());
    script.begin(24);
    let row = good("b");
    assert_eq!(script.oversized(5_000_000, &row[..row.len() - 3]), FrameOutcome::Taken);
    script.take(&good("b"));
    script.take(&good("c"));
    script.commit(24);
    script.catch_up();
    assert_eq!(script.keys(), ["c"]);
    assert_eq!(script.states(), [HeldState::Held; 2]);
    script.table().decide(id(24, 0), Decision::Deliver);
    script.catch_up();
    assert_eq!(script.keys(), ["c"], "the rest of the row is not there");
    script.table().decide(id(24, 0), Decision::Drop);
    script.catch_up();
    assert_eq!(script.keys(), ["c", "b"]);
}

#[test]
fn a_dead_letter_is_shown_in_its_topic_before_the_position_moves() {
    let topic = Some(TopicName::new("letters").unwrap());
    let mut script = streaming(HeldSettings { topic, ..dead_letters() });
    script.rows(24, &[poison("b"), good("b")]);
    script.answer_table();
    script.tick_after(4_000);
    assert_eq!(script.confirmed(), 16, "Kafka has not acknowledged the letter");
    let [letter] = script.sink.produced() else { panic!("one letter") };
    assert_eq!(letter.key, b"b");
    let header = |name: &str| {
        let (_, value) = letter.headers.iter().find(|(known, _)| known == name)?;
        Some(String::from_utf8(value.clone()?).unwrap())
    };
    assert_eq!(header("__outbox_router.errors.code").as_deref(), Some("R009"));
    assert_eq!(header("__outbox_router.errors.event_id").as_deref(), Some("b"));
    assert_eq!(header("__outbox_router.errors.commit_lsn").as_deref(), Some("0/18"));
    script.catch_up();
    assert_eq!(script.confirmed(), 32);
}

#[test]
fn a_router_that_stops_waits_for_the_table() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    script.handle(Input::Shutdown);
    script.tick_after(100);
    assert!(!script.actions.contains(&Action::CopyDone));
    script.answer_table();
    assert!(script.actions.contains(&Action::CopyDone));
    script.handle(Input::StreamEnded);
    assert!(script.actions().contains(&Action::Exit(ExitReason::Drained)));
}

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
    script.table().skip(Lsn::from_u64(24), Some("b"));
    script.take_time(Duration::from_secs(6));
    script.answer_table();
    assert!(script.relay.wants_wal());
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

#[test]
fn what_left_the_table_follows_again_when_events_of_its_key_come_again() {
    let mut script = streaming(dead_letters());
    let (first, later) = (good("b"), [poison("b"), good("b")]);
    script.rows(24, std::slice::from_ref(&first));
    script.rows(40, &later);
    script.hold_and_settle();
    script.table().decide(id(40, 0), Decision::Drop);
    script.tick_after(1_100);
    script.hold_and_settle();
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Delivered]);
    // What was confirmed since is lost in a crash of the server.
    script.source.slot_at = 16;
    script.reconnect();
    script.sink.forget();
    script.rows(24, &[first]);
    script.rows(40, &later);
    script.catch_up();
    assert_eq!(script.keys(), ["b", "b"], "the last record of the key is its last event");
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Delivered]);
}

#[test]
fn an_event_that_precedes_what_is_held_goes_the_usual_way_when_it_comes_again() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[good("b")]);
    script.rows(40, &[poison("b")]);
    script.hold_and_settle();
    script.reconnect();
    script.sink.forget();
    script.rows(24, &[good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["b"]);
    assert_eq!(script.states(), [HeldState::Held]);
}

#[test]
fn nothing_is_released_before_what_comes_again_has_come() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[good("b")]);
    script.rows(40, &[poison("b"), good("b")]);
    script.hold_and_settle();
    script.table().decide(id(40, 0), Decision::Drop);
    script.reconnect();
    script.sink.forget();
    script.tick_after(1_100);
    script.hold_and_settle();
    assert!(script.keys().is_empty(), "event 24:0 precedes what is released");
    script.rows(24, &[good("b")]);
    script.hold_and_settle();
    assert_eq!(script.keys(), ["b"]);
    script.rows(40, &[poison("b"), good("b")]);
    script.catch_up();
    assert_eq!(script.keys(), ["b", "b"]);
    assert_eq!(script.states(), [HeldState::Dropped, HeldState::Delivered]);
}

#[test]
fn a_requeued_event_is_compared_with_the_limit_that_its_topic_has_then() {
    let mut script = streaming(dead_letters());
    let limited = TopicFacts { max_message_bytes: Some(100), ..facts(3) };
    script.begin(24);
    let row = row_with_type("b", "large");
    assert_eq!(script.frame(&row), FrameOutcome::NotTaken);
    let Some(Action::LookUpTopic(topic, _)) = script.actions.pop_back() else {
        panic!("the topic is looked up")
    };
    script.handle(Input::Topic(topic, Ok(limited)));
    script.take(&row);
    script.commit(24);
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Held]);
    script.table().decide(id(24, 0), Decision::Deliver);
    // The topic is looked up, and has no limit any more.
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Delivered]);
}

fn row_with_type(key: &str, aggregate_type: &str) -> Vec<u8> {
    let payload = format!("{:200}", "{}");
    let values = [key, aggregate_type, key, "Happened", &payload, "{}"].map(Value::Text);
    wire::insert(1, OUTBOX, &values)
}

#[test]
fn a_router_to_which_the_table_says_that_it_lost_the_slot_ends_its_session() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b")]);
    let number = script.actions().iter().find_map(number_of);
    script.handle(Input::Held(number.unwrap(), Err(failure(Code::SlotInUse))));
    assert!(script.actions().contains(&Action::Disconnect));
}

#[test]
fn the_row_that_was_too_many_is_offered_again_when_another_has_left() {
    let limits = HeldLimits { keys: 1, ..HeldLimits::default() };
    let mut script = streaming(HeldSettings { limits, ..dead_letters() });
    script.rows(24, &[poison("a")]);
    script.catch_up();
    script.begin(40);
    assert_eq!(script.frame(&poison("c")), FrameOutcome::NotTaken);
    script.table().decide(id(24, 0), Decision::Drop);
    for _ in 0..3 {
        script.tick_after(1_100);
        script.answer_table();
    }
    script.take(&poison("c"));
}

#[test]
fn a_record_of_an_earlier_batch_that_is_refused_blames_nobody() {
    use crate::held::release::Release;
    let letter = || crate::held::Letter { code: Code::RecordRefused, message: String::new() };
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("a"), poison("b")]);
    script.catch_up();
    let held: Vec<_> = script.table().rows().map(|row| row.event.clone()).collect();
    let mut release = Release::default();
    let produce = |release: &mut Release, event: &crate::held::HeldEvent| {
        release.begin(&[], vec![(event.clone(), Decision::Deliver)]);
        let ticket = release.issue(1);
        release.produced();
        ticket.redeem().0
    };
    let earlier = produce(&mut release, &held[0]);
    release.refused(earlier, letter());
    release.session_ended();
    let earlier = produce(&mut release, &held[0]);
    release.session_ended();
    let own = produce(&mut release, &held[1]);
    release.refused(earlier, letter());
    assert!(release.culprit(held[1].id).is_none());
    release.refused(own, letter());
    assert!(release.culprit(held[1].id).is_some());
}

#[test]
fn a_batch_ends_under_the_partition_count_under_which_it_began() {
    let mut script = streaming(dead_letters());
    script.rows(24, &[poison("b"), good("b")]);
    script.catch_up();
    script.table().decide(id(24, 0), Decision::Drop);
    script.tick_after(1_100);
    script.answer_table();
    assert_eq!(script.keys(), ["b"], "it is in flight");
    let topic = script.relay.topics_in_use().next().map(|(id, _)| id).unwrap();
    script.handle(Input::Partitions(topic, NonZeroI32::new(9).unwrap()));
    assert!(!script.relay.wants_wal(), "nothing more is produced");
    script.settle();
    assert!(!script.relay.wants_wal(), "if the batch were repeated, it would be repeated whole");
    script.catch_up();
    assert!(script.relay.wants_wal());
}
