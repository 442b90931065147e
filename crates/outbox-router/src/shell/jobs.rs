//! What runs beside the streaming task, because it blocks or takes long.

use std::{num::NonZeroI32, sync::Arc};

use relay::{Code, Failure, Input, Lsn, TopicFacts, TopicId, TopicName};
use tokio::task::JoinError;

use super::{Shell, connect::Connected};
use crate::{
    kafka::{self, KafkaSink, TopicDirectory},
    postgres::{Incoming, ReplicationStream},
};

/// What to start.
pub(super) enum Job {
    /// Preflight, connection, `START_REPLICATION`.
    Connect,
    /// Wait until the slot is free.
    WatchSlot,
    /// Destroy the present producer, if there is one, and make a new one.
    OpenSink,
    /// Partitions of one topic.
    LookUpTopic(TopicId, TopicName),
    /// Partitions of all topics in use.
    RefreshTopics,
}

/// What came of it.
pub(super) enum Done {
    Connected(Connected),
    SlotWatched(Result<(), Failure>),
    SinkOpened(Box<Result<KafkaSink, Failure>>),
    Topic(TopicId, TopicName, Result<TopicFacts, Failure>),
    Refreshed(Result<Vec<(TopicId, NonZeroI32)>, Failure>),
    /// Aborted: nobody waits for it any more.
    Nothing,
}

impl Done {
    /// # Panics
    /// When the job did: our bug, which must end the process instead of leaving it waiting for ever.
    pub(super) fn from_join(joined: Result<Self, JoinError>) -> Self {
        match joined {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => Self::Nothing,
            },
        }
    }
}

impl Shell {
    pub(super) fn start(&mut self, job: Job) {
        match job {
            Job::Connect => {
                let source = Arc::clone(&self.source);
                let handle =
                    self.jobs.spawn(async move { Done::Connected(source.connect().await) });
                self.connecting = Some(handle);
            }
            Job::WatchSlot => {
                let source = Arc::clone(&self.source);
                let handle =
                    self.jobs.spawn(async move { Done::SlotWatched(source.watch_slot().await) });
                self.connecting = Some(handle);
            }
            Job::OpenSink => self.open_sink(),
            Job::LookUpTopic(id, name) => self.look_up(id, name),
            Job::RefreshTopics => self.refresh_topics(),
        }
    }

    /// The old producer is gone before the new one is made: its threads and its memory with it.
    fn open_sink(&mut self) {
        let settings = self.kafka.clone();
        let batch_bytes = self.batch_bytes;
        let old = self.sink.take();
        self.directory = None;
        self.jobs.spawn_blocking(move || {
            if let Some(old) = old {
                old.close();
            }
            Done::SinkOpened(Box::new(kafka::open(&settings, batch_bytes)))
        });
    }

    fn look_up(&mut self, id: TopicId, name: TopicName) {
        let Some(directory) = self.directory.clone() else { return };
        self.jobs.spawn_blocking(move || {
            let facts = directory.look_up(&name);
            Done::Topic(id, name, facts)
        });
    }

    fn refresh_topics(&mut self) {
        let Some(directory) = self.directory.clone() else { return };
        let (ids, names): (Vec<TopicId>, Vec<TopicName>) =
            self.relay.topics_in_use().map(|(id, name)| (id, name.clone())).unzip();
        let handle = self.jobs.spawn_blocking(move || {
            let counts = if names.is_empty() {
                directory.ping().map(|()| Vec::new())
            } else {
                directory.refresh(&names)
            };
            Done::Refreshed(counts.map(|counts| ids.into_iter().zip(counts).collect()))
        });
        self.refreshing = Some(handle);
    }

    pub(super) fn finished(&mut self, done: Done) {
        match done {
            // One that was called off, but was done before it heard so: its connection is dropped here.
            Done::Connected(_) | Done::SlotWatched(_) if self.connecting.take().is_none() => {}
            Done::Connected(Connected::Streaming(stream, slot_at)) => {
                self.connected(*stream, slot_at);
            }
            Done::Connected(Connected::Held(pid)) => self.input(Input::SlotHeld(pid)),
            Done::Connected(Connected::Failed(failure)) | Done::SlotWatched(Err(failure)) => {
                self.input(Input::Disconnected(failure));
            }
            Done::SlotWatched(Ok(())) => self.input(Input::SlotFree),
            Done::SinkOpened(opened) => self.sink_opened(*opened),
            Done::Topic(id, name, answer) => self.topic(id, &name, answer),
            Done::Refreshed(counts) => self.refreshed(counts),
            Done::Nothing => {}
        }
    }

    fn connected(&mut self, mut stream: ReplicationStream, slot_at: Lsn) {
        if let Ok(Some(Incoming::Closed)) = stream.peek() {
            self.input(Input::Disconnected(super::failure::closed()));
            return;
        }
        tracing::info!(slot = self.source.slot, walsender = stream.backend_pid(), "connected");
        self.stream = Some(stream);
        self.input(Input::SlotAt(slot_at));
        self.input(Input::Connected);
    }

    fn sink_opened(&mut self, opened: Result<KafkaSink, Failure>) {
        match opened {
            Ok(sink) => {
                self.directory = Some(TopicDirectory::new(&sink, &self.kafka));
                self.sink = Some(sink);
                self.input(Input::SinkReady);
            }
            Err(failure) => {
                // Settings were checked at the start, so this is a file or a limit of the machine: it may pass.
                tracing::error!(code = %failure.code, hint = failure.hint, "{failure}");
                self.input(Input::SinkTrouble(Some(failure)));
                self.reopen_at = Some(tokio::time::Instant::now() + super::TOPIC_REFRESH);
            }
        }
    }

    fn topic(&mut self, id: TopicId, name: &TopicName, answer: Result<TopicFacts, Failure>) {
        let Some(sink) = &mut self.sink else { return };
        match &answer {
            Ok(facts) => {
                sink.bind_topic(id, name);
                sink.clear_health();
                let limit = facts.max_message_bytes.unwrap_or(usize::MAX);
                if limit < self.batch_bytes {
                    // A batch that is too large is refused as a whole, although each of its records would fit.
                    self.batch_bytes = limit;
                    let failure = Failure::new(
                        Code::BatchLimit,
                        format!(
                            "topic {name} takes batches of at most {limit} bytes: the producer is made anew with that limit"
                        ),
                    );
                    self.input(Input::DeliveryFailed { transaction: None, failure });
                    return;
                }
            }
            // Asked every second: that it blocks is said once, when the state changes.
            Err(failure) => tracing::debug!(code = %failure.code, "{failure}"),
        }
        // The limit holds for what goes over the wire: how small a record compresses, the broker alone will see.
        let compresses = self.kafka.compresses();
        let answer = answer.map(|facts| TopicFacts {
            max_message_bytes: facts.max_message_bytes.filter(|_| !compresses),
            ..facts
        });
        self.input(Input::Topic(id, answer));
    }

    fn refreshed(&mut self, counts: Result<Vec<(TopicId, NonZeroI32)>, Failure>) {
        let Some(sink) = &mut self.sink else { return };
        match counts {
            Ok(counts) => {
                sink.clear_health();
                for (id, partitions) in counts {
                    let facts = TopicFacts { partitions, max_message_bytes: None };
                    self.input(Input::Topic(id, Ok(facts)));
                }
            }
            Err(failure) => sink.note_trouble(failure),
        }
    }
}
