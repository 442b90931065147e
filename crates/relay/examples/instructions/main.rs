//! The core under a steady load, for counting what an event costs: `scripts/instructions.sh` runs
//! this under callgrind.
//!
//! ```text
//! instructions                   names the shapes
//! instructions SHAPE EVENTS      the first EVENTS of SHAPE's events go through the core
//! ```
//! It does what the shell does: frames in by passes, acknowledgements back as a broker gives them
//! (by partition), a status update when one is due. Sockets, timers and the producer are left out.
//! Whatever EVENTS is, all frames are written before the first is read, so that the difference
//! between two runs is what the core did for the events between them, and nothing else.

use std::{
    env,
    error::Error,
    hint::black_box,
    io::{self, Write},
    num::NonZeroI32,
    time::Duration,
};

use relay::{
    Acks, Action, FrameOutcome, Input, Moment, Now, Outboxes, PgTimestamp, Record, RecordSink,
    Refusal, Relay, RelaySettings, Ticket, TopicFacts, TopicId,
    testing::{Source, samples},
};

mod shapes;

use shapes::{OUTBOX, SHAPES, Shape};

/// The most events that a run may ask for.
const EVENTS: usize = 8_000;
/// Events between two polls of the acknowledgements.
const EVENTS_PER_PASS: usize = 1_000;
const PARTITIONS: NonZeroI32 = NonZeroI32::new(6).unwrap();
/// 2026-01-01, in microseconds since 2000.
const COMMITTED_AT: i64 = 820_540_800_000_000;

/// Stands in for the producer: keeps tickets by partition until the poll. Its own instructions are
/// not the core's, and are told apart from them.
#[derive(Default)]
struct Broker {
    partitions: [Vec<(Ticket, TopicId)>; 6],
}

impl RecordSink for Broker {
    #[inline]
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        let record = black_box(record);
        if let Ok(index) = usize::try_from(record.partition)
            && let Some(partition) = self.partitions.get_mut(index)
        {
            partition.push((ticket, record.topic));
        }
        Ok(())
    }
}

struct Shell {
    relay: Relay,
    source: Source,
    broker: Broker,
    acks: Acks,
    at: Moment,
}

impl Shell {
    fn now(&self) -> Now {
        Now { at: self.at, wall: PgTimestamp::from_micros(COMMITTED_AT + 3_500) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.now());
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::LookUpTopic(id, _) => {
                    let facts =
                        TopicFacts { partitions: PARTITIONS, max_message_bytes: Some(1 << 20) };
                    self.relay.handle(Input::Topic(id, Ok(facts)), self.now());
                }
                Action::Status(update) => {
                    black_box(update);
                }
                Action::Connect
                | Action::Held(..)
                | Action::ReadSlot
                | Action::ReadCatalog(_)
                | Action::StartReplication(_) => {
                    let answer = self.source.answer(&action);
                    if let Some(answer) = answer {
                        self.relay.handle(answer, self.now());
                    }
                }
                Action::ReadStateTopic(_)
                | Action::CheckStateTopic(_)
                | Action::WriteStateTopic(_)
                | Action::ReadTimelines(_)
                | Action::WatchSlot
                | Action::Disconnect
                | Action::CopyDone
                | Action::ReplaceSink { .. }
                | Action::Exit(_) => {}
            }
        }
    }

    fn pass(&mut self, frames: &[Vec<u8>]) -> Result<(), String> {
        let now = self.now();
        for frame in frames {
            while !self.relay.wants_wal()
                || self.relay.frame(frame, now, &mut self.broker) == FrameOutcome::NotTaken
            {
                self.act();
                if !self.relay.wants_wal() {
                    return Err("a frame was held for good".to_owned());
                }
            }
        }
        self.acks.clear();
        for partition in &mut self.broker.partitions {
            for (ticket, topic) in partition.drain(..) {
                self.acks.push(Ticket::from_opaque(ticket.into_opaque()), topic);
            }
        }
        self.relay.handle(Input::Acks(&self.acks), now);
        self.act();
        self.at = self.at + Duration::from_millis(5);
        self.handle(Input::Tick);
        Ok(())
    }
}

fn settings(shape: Shape) -> RelaySettings {
    RelaySettings {
        outboxes: Outboxes { tables: vec![shape.table()], ..Outboxes::default() },
        ..samples::settings()
    }
}

fn run(shape: Shape, events: usize) -> Result<(), String> {
    let passes = shape.passes();
    let at = Moment::default();
    let relay = Relay::new(settings(shape), at);
    let source = Source::of("outbox", OUTBOX, &[]);
    let (broker, acks) = (Broker::default(), Acks::default());
    let mut shell = Shell { relay, source, broker, acks, at };
    shell.handle(Input::SinkReady);
    shell.pass(&[shape.relation()])?;
    for frames in passes.iter().take(events / EVENTS_PER_PASS) {
        shell.pass(frames)?;
    }
    shell.at = shell.at + Duration::from_secs(3);
    shell.handle(Input::Tick);
    let snapshot = shell.relay.snapshot(shell.at);
    let acked: u64 = snapshot.topics.iter().map(|topic| topic.acked).sum();
    if usize::try_from(acked) != Ok(events) || snapshot.confirmed != snapshot.received {
        return Err(format!("{acked} of {events} events went through, not all of it confirmed"));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.is_empty() {
        for shape in SHAPES {
            writeln!(io::stdout(), "{}", shape.name)?;
        }
        return Ok(());
    }
    let [name, events] = arguments.as_slice() else {
        return Err("usage: instructions [SHAPE EVENTS]".into());
    };
    let shape = SHAPES
        .into_iter()
        .find(|shape| shape.name == name)
        .ok_or_else(|| format!("no shape is called {name}"))?;
    let events: usize = events.parse()?;
    if events == 0 || events > EVENTS || !events.is_multiple_of(EVENTS_PER_PASS) {
        return Err(format!("EVENTS is a multiple of {EVENTS_PER_PASS}, at most {EVENTS}").into());
    }
    run(shape, events)?;
    Ok(())
}
