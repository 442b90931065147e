//! Records that a broker refuses.

use super::*;
use crate::failure::{Case, Name};

/// With compression, only the broker knows that a record is too large.
#[test]
fn a_record_that_the_broker_refuses_is_found_and_its_neighbours_go_out_in_order() {
    for code in [Code::RecordRefused, Code::RecordTooLarge] {
        the_culprit_is_found(code);
    }
}

fn the_culprit_is_found(code: Code) {
    let mut script = streaming(dead_letters());
    let names: Vec<String> = (0..600).map(|n| format!("k{n}")).collect();
    let rows: Vec<_> = names.iter().map(|name| good(name)).collect();
    let culprit = 321;
    script.rows_until_delivered(&rows, &names[culprit], code);
    script.commit(24);
    script.catch_up();
    let mut expected = names.clone();
    expected.remove(culprit);
    assert_eq!(script.keys(), expected);
    assert_eq!(script.states(), [HeldState::Held]);
    let index = u32::try_from(culprit).unwrap();
    let undecided: Vec<_> = script.table().undecided().collect();
    assert_eq!(undecided, [id(24, index)]);
    assert_eq!(script.confirmed(), 32);
}

/// A person raises the limit of the topic and requeues the event. What comes again before its
/// position is confirmed must not stand behind it.
#[test]
fn a_refused_event_that_was_delivered_after_all_follows_again_what_comes_again() {
    let mut script = streaming(dead_letters());
    let rows = [good("a"), good("b"), good("c")];
    script.rows_until_delivered(&rows, "b", Code::RecordTooLarge);
    script.hold_and_settle();
    script.table().decide(id(24, 1), Decision::Deliver);
    script.catch_up();
    assert_eq!(script.keys(), ["a", "c", "b"]);
    assert_eq!(script.states(), [HeldState::Delivered]);
    assert!(script.confirmed() < 24, "the transaction is not over");
    script.reconnect();
    script.sink.forget();
    script.rows_until_delivered(&rows, "nobody", Code::RecordTooLarge);
    assert_eq!(script.keys(), ["a", "b", "c"]);
}

impl Script {
    /// Offers the rows of the transaction that commits at 24, in as many sessions as it takes until
    /// the record that the broker refuses is found.
    fn rows_until_delivered(&mut self, rows: &[Vec<u8>], refused: &str, code: Code) {
        for _ in 0..4 {
            self.sink.forget();
            let mut failed = false;
            self.begin(24);
            for row in rows {
                while !(failed || self.relay.wants_wal() && self.offer(row)) {
                    failed = self.deliver(refused, code);
                }
            }
            while !failed && self.sink.in_flight() > 0 {
                failed = self.deliver(refused, code);
            }
            if !failed {
                return;
            }
            self.new_sink();
            self.run_for(Duration::from_secs(2));
            self.answer();
            self.describe_with_headers();
        }
        panic!("{refused} is not found");
    }

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
    fn deliver(&mut self, refused: &str, code: Code) -> bool {
        let mut acks = Acks::default();
        for lane in self.sink.waiting() {
            while let Some(next) = self.sink.next(lane) {
                if next.key == refused.as_bytes() {
                    let transaction = self.sink.fail(lane);
                    let failure = failure(code);
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

/// The record that shows a dead letter goes with the others of its transaction.
#[test]
fn a_topic_of_dead_letters_that_refuses_them_blames_no_event() {
    let topic = Some(TopicName::new("letters").unwrap());
    let mut script = streaming(HeldSettings { topic, ..dead_letters() });
    let rows = [good("a"), poison("b"), good("c")];
    script.rows(24, &rows);
    let letter = script
        .sink
        .waiting()
        .into_iter()
        .find(|lane| script.sink.next(*lane).is_some_and(|record| record.key == b"b"));
    let transaction = script.sink.fail(letter.unwrap());
    let failure = failure(Code::RecordRefused).naming(Name::Topic, "letters");
    script.handle(Input::DeliveryFailed { transaction, failure });
    let reason = script.relay.condition(script.at).reason.unwrap();
    assert_eq!(reason.case, Some(Case::LetterRefused));
    script.new_sink();
    script.run_for(Duration::from_secs(2));
    script.answer();
    script.describe_with_headers();
    script.rows(24, &rows);
    script.catch_up();
    assert_eq!(script.states(), [HeldState::Held]);
    assert_eq!(script.confirmed(), 32);
    assert_eq!(script.relay.take_letters().len(), 2, "the same one, in both sessions");
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
