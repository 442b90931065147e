//! S9: memory does not grow with the number of events. This does not depend on faults and their
//! order, so it is checked in one probe: many events of one session, and the resident memory of the
//! process.

use std::{num::NonZeroI32, time::Duration};

use relay::{
    Action, FrameOutcome, Input, Moment, Now, PgTimestamp, Relay, StateTopicRead, TopicFacts,
    WriteAck,
    testing::{
        MemorySink, Source,
        wire::{self, TEXT, Value},
    },
};

use crate::{
    invariant::{Invariant, Violation},
    plan::{Plan, StateTopicSetting, VersionGroup},
    router,
};

const WARM: u64 = 4_000;
const EVENTS: u64 = 20_000;
const ONE_PARTITION: NonZeroI32 = NonZeroI32::new(1).unwrap();
/// Above the noise of the allocator, far below a hundred bytes an event.
const GROWTH_MAX: u64 = 1 << 20;

/// Takes many events through one session, and compares resident memory before and after.
///
/// # Errors
/// The process has grown.
pub fn probe() -> Result<(), Violation> {
    let mut stream = Stream::begin();
    stream.events(WARM);
    let before = resident();
    stream.events(EVENTS);
    let growth = resident().saturating_sub(before);
    if growth > GROWTH_MAX {
        let what = format!("resident memory grew by {growth} bytes over {EVENTS} events");
        return Err(Violation { invariant: Invariant::S9Resources, what });
    }
    Ok(())
}

/// Resident memory of this process in bytes; 0 where `/proc` cannot be read.
fn resident() -> u64 {
    const PAGE: u64 = 4_096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE
}

struct Stream {
    relay: Relay,
    source: Source,
    sink: MemorySink,
    at: Moment,
    lsn: u64,
}

impl Stream {
    fn begin() -> Self {
        let at = Moment::default();
        let plan = Plan {
            window: 1_000,
            version: VersionGroup::V18,
            state_topic: StateTopicSetting::Used,
            dead_letters: None,
            ..Plan::of_seed(1)
        };
        let settings = router::settings(0, &plan, 1);
        let columns = ["id", "aggregate_type", "aggregate_id", "event_type", "payload"];
        let columns = columns.map(|name| (name, TEXT));
        let mut stream = Self {
            relay: Relay::new(settings, at),
            source: Source::of("outbox", 16_400, &columns),
            sink: MemorySink::new(2_000),
            at,
            lsn: 1 << 20,
        };
        stream.handle(Input::SinkReady);
        stream.offer(&wire::relation(16_400, "outbox", &columns));
        stream
    }

    fn now(&self) -> Now {
        Now { at: self.at, wall: PgTimestamp::from_micros(0) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.now());
        while let Some(action) = self.relay.next_action() {
            let answer = match &action {
                Action::ReadStateTopic(number) | Action::CheckStateTopic(number) => {
                    let (cluster, records) = (String::new(), Vec::new());
                    Some(Input::StateTopic(*number, Ok(StateTopicRead { cluster, records })))
                }
                Action::WriteStateTopic(write) => {
                    let (number, offset) =
                        (write.number, i64::try_from(write.number).expect("small"));
                    Some(Input::StateTopicWritten(WriteAck { number, offset }))
                }
                Action::LookUpTopic(id, _) => {
                    let partitions = ONE_PARTITION;
                    let facts = TopicFacts { partitions, max_message_bytes: None };
                    Some(Input::Topic(*id, Ok(facts)))
                }
                Action::Connect
                | Action::Held(..)
                | Action::ReadTimelines(_)
                | Action::ReadSlot
                | Action::ReadCatalog(_)
                | Action::StartReplication(_)
                | Action::WatchSlot
                | Action::Disconnect
                | Action::Status(_)
                | Action::CopyDone
                | Action::ReplaceSink { .. }
                | Action::Exit(_) => self.source.answer(&action),
            };
            if let Some(answer) = answer {
                self.relay.handle(answer, self.now());
            }
        }
    }

    fn offer(&mut self, frame: &[u8]) {
        while self.relay.frame(frame, self.now(), &mut self.sink) == FrameOutcome::NotTaken {
            self.handle(Input::Tick);
        }
    }

    fn events(&mut self, events: u64) {
        for _ in 0..events {
            let (commit, end) = (self.lsn, self.lsn + 8);
            self.lsn = end;
            self.offer(&wire::begin(commit, 0));
            let values = ["7", "order", "a", "happened", "7"].map(Value::Text);
            self.offer(&wire::insert(commit, 16_400, &values));
            self.offer(&wire::commit(commit, end));
            let acks = self.sink.ack_all();
            self.sink.forget();
            self.handle(Input::Acks(&acks));
            self.at = self.at + Duration::from_millis(200);
            self.handle(Input::Tick);
        }
    }
}
