//! Dead letters and the events that are held behind them (`crate::held`).

use super::*;
use crate::{
    ErrorPolicy, HeldLimits, HeldSettings, HoldKeys, OnError,
    held::{Decision, EventId, HeldAnswer, HeldRequest, TableMark, TableVersion},
    testing::{HeldState, HeldTable, ProducedRecord},
};

mod holding;
mod leaving;
mod original;
mod refused;
mod releasing;
mod skipping;
mod versions;

/// The headers of a record that shows a dead letter; the outer `None` for one that is not there.
fn header(record: &ProducedRecord, name: &str) -> Option<Option<String>> {
    let (_, value) = record.headers.iter().find(|(known, _)| known == name)?;
    Some(value.as_ref().map(|value| String::from_utf8(value.clone()).unwrap()))
}

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
    streaming_with(with_table(held))
}

fn streaming_with(settings: RelaySettings) -> Script {
    let mut script = Script::new(settings);
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
        self.answer_table_up_to(|_| false);
    }

    /// The same, until it is asked what `stops` says; that is the first action then. Returns
    /// whether it was asked that.
    fn answer_table_up_to(&mut self, stops: impl Fn(&Action) -> bool) -> bool {
        loop {
            self.collect();
            let asked = |action: &Action| matches!(action, Action::Held(..));
            let Some(at) = self.actions.iter().position(asked) else { return false };
            let Some(action) = self.actions.remove(at) else { return false };
            if stops(&action) {
                self.actions.push_front(action);
                return true;
            }
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
