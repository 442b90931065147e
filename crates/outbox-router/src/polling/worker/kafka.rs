//! The producer, and what is asked of Kafka beside it. Making and destroying a producer and asking
//! for topics block, so they are done on blocking threads.

use std::{sync::Arc, time::Duration};

use relay::{
    Acks, Failure, TopicId, TopicName,
    polling::{PollInput, Poller, Produced},
    witness::ProducedTo,
};
use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, sleep},
};

use crate::{
    blocking::blocking,
    codes::hint,
    kafka::{self, Health, KafkaSettings, KafkaSink, TopicClient, TopicDescription},
    polling::clock::LeaseClock,
    tap::Tap,
    warning::warn,
};

/// The longest that acknowledgements wait while rows are produced.
const PASS_LIMIT: Duration = Duration::from_millis(5);
/// How many acknowledgements are taken before rows have their turn.
const REPORTS_MAX: usize = 4_096;
/// How often Kafka is asked whether it answers, while it does not.
const PING_EVERY: Duration = Duration::from_secs(1);
/// The wait before the next attempt to make a producer, after one could not be made.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// The result of work on a blocking thread.
pub(super) enum Done {
    Opened(Box<Result<KafkaSink, Failure>>),
    /// With the number of the producer through whose client it was asked.
    Topic(u64, TopicId, TopicName, Result<TopicDescription, Failure>),
    Pinged(u64, Result<(), Failure>),
    Aborted,
}

/// See the module's header.
pub(super) struct Producer {
    settings: KafkaSettings,
    sink: Option<KafkaSink>,
    // Dropped before the sink is closed, whose producer it keeps alive.
    client: Option<TopicClient>,
    /// Numbers producers: what a former one's client has answered does not count.
    number: u64,
    jobs: JoinSet<Done>,
    ping: Ping,
    acks: Acks,
    /// Topics that were looked up for their first record.
    topics: Arc<ProducedTo>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ping {
    /// At this time, if Kafka does not answer then.
    At(Instant),
    UnderWay,
}

impl Producer {
    pub(super) fn new(settings: KafkaSettings) -> Self {
        Self {
            settings,
            sink: None,
            client: None,
            number: 0,
            jobs: JoinSet::new(),
            ping: Ping::At(Instant::now()),
            acks: Acks::default(),
            topics: Arc::default(),
        }
    }

    /// The topics that were produced to, as far as brokers say their ids.
    pub(super) fn topics(&self) -> Arc<ProducedTo> {
        Arc::clone(&self.topics)
    }

    /// Destroys the producer with what is in flight, and makes another after `wait`.
    pub(super) fn replace(&mut self, wait: Duration) {
        self.number += 1;
        self.client = None;
        let closing = self.sink.take().map(|old| blocking(move || old.close()));
        let settings = self.settings.clone();
        self.jobs.spawn(async move {
            if let Some(closing) = closing {
                closing.await;
            }
            sleep(wait).await;
            Done::Opened(Box::new(blocking(move || kafka::open(&settings)).await))
        });
    }

    /// Asks for a topic.
    pub(super) fn look_up(&mut self, id: TopicId, name: TopicName) {
        let Some(client) = self.client.clone() else { return };
        let number = self.number;
        self.jobs.spawn_blocking(move || {
            let answer = client.look_up(&name);
            Done::Topic(number, id, name, answer)
        });
    }

    /// Waits until there are acknowledgements. Cancel-safe.
    pub(super) async fn acks_or_job(&mut self) -> Option<Done> {
        let Self { sink, jobs, .. } = self;
        tokio::select! {
            biased;
            () = acks_arrived(sink.as_ref()) => None,
            Some(done) = jobs.join_next(), if !jobs.is_empty() => Some(from_join(done)),
        }
    }

    /// Gives the result of a job to the core.
    pub(super) fn finished(&mut self, done: Done, poller: &mut Poller, clock: &LeaseClock) {
        match done {
            Done::Opened(opened) => match *opened {
                Ok(sink) => {
                    self.client = Some(sink.topic_client(&self.settings));
                    self.sink = Some(sink);
                    self.ping = Ping::At(Instant::now() + PING_EVERY);
                    poller.handle(PollInput::SinkReady, clock.now());
                }
                Err(failure) => {
                    tracing::error!(code = %failure.code, hint = hint(&failure), "{failure:#}");
                    let unreachable = PollInput::BrokersUnreachable(Some(failure));
                    poller.handle(unreachable, clock.now());
                    self.replace(TRY_AGAIN);
                }
            },
            Done::Topic(number, id, name, answer) if number == self.number => {
                self.bind(id, &name, &answer);
                let facts = answer.map(|found| found.facts);
                poller.handle(PollInput::Topic(id, facts), clock.now());
            }
            Done::Pinged(number, answer) if number == self.number => {
                self.ping = Ping::At(Instant::now() + PING_EVERY);
                if let Some(sink) = &mut self.sink {
                    match answer {
                        Ok(()) => sink.clear_health(),
                        Err(failure) => sink.note_down(failure),
                    }
                }
            }
            Done::Topic(..) | Done::Pinged(..) | Done::Aborted => {}
        }
    }

    /// Gives acknowledgements, and the first failure, to the core.
    pub(super) fn collect(&mut self, poller: &mut Poller, clock: &LeaseClock) {
        let Some(sink) = &mut self.sink else { return };
        self.acks.clear();
        let failed = sink.poll_acks(&mut self.acks, REPORTS_MAX);
        if !self.acks.is_empty() {
            poller.handle(PollInput::Acks(&self.acks), clock.now());
        }
        if let Some(failed) = failed {
            let (transaction, failure) = (failed.transaction, failed.failure);
            poller.handle(PollInput::DeliveryFailed { transaction, failure }, clock.now());
        }
    }

    /// Offers rows. Returns whether there are more, which the producer may take at once.
    pub(super) fn produce(
        &mut self,
        poller: &mut Poller,
        clock: &LeaseClock,
        tap: &mut Tap,
    ) -> Produced {
        let Some(sink) = &mut self.sink else { return Produced::AllForNow };
        let started = Instant::now();
        loop {
            tap.refresh();
            let produced = if tap.is_idle() {
                poller.produce(sink, || clock.now())
            } else {
                tap.produce(poller, sink, || clock.now())
            };
            if produced == Produced::AllForNow || started.elapsed() >= PASS_LIMIT {
                return produced;
            }
        }
    }

    /// Tells the core whether Kafka answers, and asks Kafka where that is not known.
    pub(super) fn check(&mut self, poller: &mut Poller, clock: &LeaseClock) {
        let Some(sink) = &self.sink else { return };
        let (failure, is_well) = match sink.health() {
            Health::Well => (None, true),
            // One broker of several may fail while the others work: a request shows whether Kafka
            // answers.
            Health::Suspect => (None, false),
            Health::Down(failure) => (Some(failure.clone()), false),
        };
        poller.handle(PollInput::BrokersUnreachable(failure), clock.now());
        if let (false, Ping::At(due), Some(client)) = (is_well, self.ping, &self.client)
            && due <= Instant::now()
        {
            self.ping = Ping::UnderWay;
            let (client, number) = (client.clone(), self.number);
            self.jobs.spawn_blocking(move || Done::Pinged(number, client.ping()));
        }
    }

    /// When to call [`Producer::check`] again.
    pub(super) fn check_at(&self) -> Option<Instant> {
        let is_well = self.sink.as_ref().is_none_or(|sink| sink.health() == Health::Well);
        match self.ping {
            Ping::At(due) if !is_well => Some(due),
            Ping::At(_) | Ping::UnderWay => None,
        }
    }

    /// Destroys the producer, within `limit`.
    pub(super) async fn close(mut self, limit: Duration) {
        self.client = None;
        self.jobs.abort_all();
        if let Some(sink) = self.sink.take() {
            let _late = tokio::time::timeout(limit, blocking(move || sink.close())).await;
        }
    }

    fn bind(&mut self, id: TopicId, name: &TopicName, answer: &Result<TopicDescription, Failure>) {
        let Some(sink) = &mut self.sink else { return };
        match answer {
            Ok(found) => {
                sink.bind_topic(id, name, found.limits());
                sink.clear_health();
                found.caution.iter().for_each(warn);
                if let Some(uuid) = &found.uuid {
                    let topics = Arc::make_mut(&mut self.topics);
                    topics.entry(name.to_string()).or_insert_with(|| uuid.clone());
                }
            }
            // The core asks again every second, and the state says that the topic blocks.
            Err(failure) => tracing::debug!(code = %failure.code, "{failure}"),
        }
    }
}

async fn acks_arrived(sink: Option<&KafkaSink>) {
    match sink {
        Some(sink) => sink.wait_acks().await,
        None => std::future::pending().await,
    }
}

/// # Panics
/// When the work panicked: that is a bug, and must end the process.
fn from_join(joined: Result<Done, JoinError>) -> Done {
    match joined {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_cancelled) => Done::Aborted,
        },
    }
}
