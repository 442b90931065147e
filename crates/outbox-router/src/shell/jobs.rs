//! Starts the jobs that run beside the streaming task, because they block or take long, and handles
//! their results.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{
    Shell,
    coalesce::Coalesce,
    job::{ConnectStep, Done, Job, TopicsRead},
    ports::{Kafka, Postgres, Sink, Started, TopicClient},
    state_topic,
};
use crate::{
    blocking::blocking,
    codes::hint,
    kafka::{Identity, TopicDescription, TopicLookup, TopicReading},
    postgres::{Incoming, ReplicationStream},
    warning::warn,
};
use relay::{
    BacklogFrom, Case, Code, Failure, Input, TopicFacts, TopicId, TopicName, witness::TopicSight,
};

impl<P: Postgres, K: Kafka> Shell<P, K> {
    pub(super) fn start(&mut self, job: Job<K>) {
        match job {
            Job::Connect(step) => self.connect(step),
            Job::WatchSlot => {
                let postgres = Arc::clone(&self.postgres);
                let handle =
                    self.jobs.spawn(async move { Done::SlotWatched(postgres.watch_slot().await) });
                self.connecting = Some(handle);
            }
            Job::ReplaceSink(wait) => self.replace_sink(wait),
            Job::ReadStateTopic(number) => self.read_state_topic(number),
            Job::CheckStateTopic(number) => self.check_state_topic(number),
            Job::Held(number, request) => self.ask_held(number, request),
            Job::LookUpTopic(id, name) => self.look_up(id, name),
            Job::RefreshTopics(topic_client) => self.refresh_topics(topic_client),
        }
    }

    /// Starts a step towards a stream. The job owns the connection, so aborting the job closes the
    /// connection.
    fn connect(&mut self, step: ConnectStep) {
        let postgres = Arc::clone(&self.postgres);
        let open = self.open.take().map(|open| *open);
        let handle = match (step, open) {
            (ConnectStep::Connect, _) => self.jobs.spawn(async move {
                let opened = postgres.open().await;
                Done::Connected(opened.map(|(open, server)| (Box::new(open), server)))
            }),
            (ConnectStep::Timelines(timeline), Some(open)) => self.jobs.spawn(async move {
                let read = postgres.timelines(open, timeline).await;
                Done::Timelines(read.map(|(open, timelines)| (Box::new(open), timelines)))
            }),
            (ConnectStep::Slot, Some(open)) => self.jobs.spawn(async move {
                let read = postgres.read_slot(open).await;
                Done::Slot(read.map(|(open, reading)| (Box::new(open), reading)))
            }),
            (ConnectStep::Catalog(remembered), Some(open)) => self.jobs.spawn(async move {
                let read = postgres.catalog(open, remembered.as_deref()).await;
                Done::Catalog(read.map(|(open, catalog)| (Box::new(open), catalog)))
            }),
            (ConnectStep::Start(backlog), Some(open)) => {
                self.jobs.spawn(async move { Done::Started(postgres.start(open, backlog).await) })
            }
            // The core asks for the remaining steps only while there is a connection.
            (ConnectStep::Slot, None) if self.stream.is_some() => {
                let Some(history) = self.history.clone() else { return };
                self.jobs.spawn(async move {
                    Done::SlotBeside(postgres.read_slot_beside(&history).await)
                })
            }
            (
                ConnectStep::Timelines(_)
                | ConnectStep::Slot
                | ConnectStep::Catalog(_)
                | ConnectStep::Start(_),
                None,
            ) => return,
        };
        self.connecting = Some(handle);
    }

    /// Reads the state topic. The second read of an attempt to connect, when it has its stream, may
    /// use what its first read found, unless another process has written since. What an earlier
    /// attempt read may come from another cluster, so it is discarded.
    fn read_state_topic(&mut self, number: u64) {
        let Some(state) = self.refresher.state().cloned() else {
            // Without a producer there is no client to ask through. The core asks again when there
            // is one.
            let failure = Failure::of(Case::ProducerReplaced, "the producer is being replaced");
            self.input(Input::StateTopic(number, Err(failure)));
            return;
        };
        let producer_number = self.refresher.producer_number();
        let cache = self.state_topic_cache.take().filter(|_| self.stream.is_some());
        let prefix = self.witness_key.prefix();
        self.jobs.spawn_blocking(move || {
            Done::StateTopicRead(producer_number, number, state_topic::read(&state, &prefix, cache))
        });
    }

    /// Asks where the state topic ends, and reads on only if it does not end at this process's own
    /// writes.
    fn check_state_topic(&mut self, number: u64) {
        let (Some(state), Some(cache)) =
            (self.refresher.state().cloned(), &mut self.state_topic_cache)
        else {
            self.read_state_topic(number);
            return;
        };
        let producer_number = self.refresher.producer_number();
        let (prefix, last_read) = (self.witness_key.prefix(), cache.next_check());
        self.jobs.spawn_blocking(move || {
            match state_topic::read_changed(&state, &prefix, &last_read) {
                Ok(None) => Done::StateTopicUnchanged(number),
                Ok(Some(read)) => Done::StateTopicRead(producer_number, number, Ok(read)),
                Err(failure) => Done::StateTopicRead(producer_number, number, Err(failure)),
            }
        });
    }

    /// Destroys the old producer, with its threads and memory, before the new one is made, and
    /// before the wait: otherwise its queue would still be sent during the wait.
    fn replace_sink(&mut self, wait: Duration) {
        let kafka = self.kafka.clone();
        // Started here and not in the job, so that it is done even if the job is aborted.
        let closing = self.sink.take().map(|old| blocking(move || old.close()));
        self.waiting_write = None;
        self.refresher.opening();
        self.jobs.spawn(async move {
            if let Some(closing) = closing {
                closing.await;
            }
            tokio::time::sleep(wait).await;
            Done::SinkOpened(Box::new(blocking(move || kafka.open()).await))
        });
    }

    fn look_up(&mut self, id: TopicId, name: TopicName) {
        let Some(topic_client) = self.refresher.topic_client().cloned() else { return };
        let producer_number = self.refresher.producer_number();
        self.jobs.spawn_blocking(move || {
            let facts = topic_client.look_up(&name);
            Done::Topic(producer_number, id, name, facts)
        });
    }

    fn refresh_topics(&mut self, topic_client: K::TopicClient) {
        let producer_number = self.refresher.producer_number();
        let (ids, names): (Vec<TopicId>, Vec<TopicName>) =
            self.relay.topics_in_use().map(|(id, name)| (id, name.clone())).unzip();
        // A topic that was deleted while no router ran is missed before its next record.
        let used: HashSet<&str> = names.iter().map(TopicName::as_str).collect();
        let others: Vec<TopicName> = self
            .relay
            .topics_produced_to()
            .filter(|name| !used.contains(name))
            .filter_map(|name| TopicName::new(name).ok())
            .collect();
        self.jobs.spawn_blocking(move || {
            let readings = if names.is_empty() {
                topic_client.ping().map(|()| Vec::new())
            } else {
                topic_client.read_topics(&names)
            };
            let topics = ids.into_iter().zip(names);
            let named = |readings: Vec<TopicReading>| TopicsRead {
                in_use: topics
                    .zip(readings)
                    .map(|((id, name), reading)| (id, name, reading))
                    .collect(),
                others: seen(&topic_client, others),
            };
            Done::TopicsRead(producer_number, readings.map(named))
        });
    }

    pub(super) fn finished(&mut self, done: Done<P, K>) {
        match done {
            // A step that ended before its abort took effect. Its connection is dropped here.
            Done::Connected(_)
            | Done::Timelines(_)
            | Done::Slot(_)
            | Done::SlotBeside(_)
            | Done::Catalog(_)
            | Done::Started(_)
            | Done::SlotWatched(_)
                if self.connecting.take().is_none() => {}
            Done::Connected(Ok((open, server))) => {
                self.history = Some(server.history.clone());
                self.stepped(open, Input::Connected(server));
            }
            Done::Timelines(Ok((open, timelines))) => {
                self.stepped(open, Input::Timelines(timelines));
            }
            Done::Slot(Ok((open, reading))) => self.stepped(open, Input::Slot(reading)),
            Done::SlotBeside(Ok(reading)) => self.input(Input::Slot(reading)),
            Done::Catalog(Ok((open, catalog))) => self.stepped(open, Input::Catalog(catalog)),
            Done::Started(Ok(Started::Streaming(stream, walsender))) => {
                self.replication_started(*stream, walsender);
            }
            Done::Started(Ok(Started::Held(pid))) => self.input(Input::SlotHeld(pid)),
            Done::Connected(Err(failure))
            | Done::Timelines(Err(failure))
            | Done::SlotBeside(Err(failure))
            | Done::Slot(Err(failure))
            | Done::Catalog(Err(failure))
            | Done::Started(Err(failure))
            | Done::SlotWatched(Err(failure)) => self.input(Input::Disconnected(failure)),
            Done::SlotWatched(Ok(())) => self.input(Input::SlotFree),
            Done::StateTopicUnchanged(number) => {
                let condition = self.relay.condition(self.clock.now().at);
                self.announcer.state_topic_read(Ok(()), &condition);
                self.input(Input::StateTopicUnchanged(number));
            }
            Done::StateTopicRead(producer_number, number, read) => {
                // The client of a former producer has read the same topic, but the answer may be
                // out of date.
                let read = match read {
                    Ok((cache, read)) if producer_number == self.refresher.producer_number() => {
                        self.announcer.cautions(cache.cautions());
                        self.state_topic_cache = Some(cache.taken_after(self.last_write));
                        Ok(read)
                    }
                    Ok(_) => Err(Failure::of(
                        Case::ProducerReplaced,
                        "the producer was replaced while the state topic was read",
                    )),
                    Err(failure) => Err(failure),
                };
                let condition = self.relay.condition(self.clock.now().at);
                self.announcer.state_topic_read(read.as_ref().map(drop), &condition);
                self.input(Input::StateTopic(number, read));
            }
            Done::Held(table, number, answer) => self.held_answered(table, number, answer),
            Done::SinkOpened(opened) => self.sink_opened(*opened),
            Done::Topic(producer_number, id, name, answer)
                if producer_number == self.refresher.producer_number() =>
            {
                self.topic(id, &name, answer);
            }
            Done::TopicsRead(producer_number, readings)
                if producer_number == self.refresher.producer_number() =>
            {
                self.topics_read(readings);
            }
            // What a former producer's client answered does not count for the present producer.
            Done::Topic(..) | Done::TopicsRead(..) | Done::Aborted => {}
        }
    }

    /// Keeps the connection for the next step, and gives the answer to the core.
    fn stepped(&mut self, open: Box<P::Connection>, input: Input<'_>) {
        self.open = Some(open);
        self.input(input);
    }

    fn replication_started(&mut self, mut stream: ReplicationStream, walsender: Option<i32>) {
        if let Ok(Some(Incoming::Closed)) = stream.peek() {
            self.input(Input::Disconnected(super::translate::closed()));
            return;
        }
        tracing::info!(slot = self.witness_key.slot, walsender = stream.backend_pid(), "connected");
        self.stream = Some(stream);
        self.walsender = walsender;
        self.coalesce = Coalesce::default();
        self.pacing.connected();
        self.input(Input::ReplicationStarted(walsender));
        self.refresher.hasten();
        if self.stream.as_ref().is_some_and(|stream| stream.backlog_until().is_some()) {
            self.input(Input::FramesFrom(BacklogFrom::Sql));
        }
    }

    fn sink_opened(&mut self, opened: Result<K::Sink, Failure>) {
        match opened {
            Ok(mut sink) => {
                let name = self.state_topic.as_ref();
                let state = name.map(|name| self.kafka.state_topic(&mut sink, name));
                self.refresher.opened(self.kafka.topic_client(&sink), state);
                self.sink = Some(sink);
                self.input(Input::SinkReady);
            }
            Err(failure) => {
                // The settings were checked at the start, so a file or a limit of the machine is
                // the cause, and a later attempt may succeed.
                tracing::error!(code = %failure.code, hint = hint(&failure), "{failure:#}");
                self.input(Input::BrokersUnreachable(Some(failure)));
                self.refresher.failed_to_open();
            }
        }
    }

    fn topic(&mut self, id: TopicId, name: &TopicName, answer: Result<TopicDescription, Failure>) {
        let Some(sink) = &mut self.sink else { return };
        match &answer {
            Ok(found) => {
                sink.bind_topic(id, name, found.limits());
                sink.clear_health();
                if let Some(caution) = self.refresher.news(id, found.caution.as_ref()) {
                    warn(caution);
                }
            }
            // The core asks again every second, and that the topic blocks is logged once, when the
            // state changes.
            Err(failure) => tracing::debug!(code = %failure.code, "{failure}"),
        }
        let sight = match &answer {
            Ok(TopicDescription { uuid, .. }) => uuid.clone().map(TopicSight::Is),
            Err(failure) => (failure.code == Code::TopicMissing).then_some(TopicSight::Missing),
        };
        // Before the answer, so that the witness which names the partitions names the id, too.
        if let Some(sight) = sight {
            self.input(Input::TopicsSeen(&[(name.clone(), sight)]));
        }
        // `max.message.bytes` limits the size on the wire. With compression that size is not known
        // before the broker gets the batch, so the core gets no limit.
        let compresses = self.kafka.compresses();
        let answer = answer.map(|TopicDescription { facts, .. }| TopicFacts {
            max_message_bytes: facts.max_message_bytes.filter(|_| !compresses),
            ..facts
        });
        self.input(Input::Topic(id, answer));
    }

    fn topics_read(&mut self, read: Result<TopicsRead, Failure>) {
        self.refresher.refreshed();
        let Some(sink) = &mut self.sink else { return };
        let TopicsRead { in_use, others } = match read {
            Ok(read) => read,
            Err(failure) => return sink.note_down(failure),
        };
        sink.clear_health();
        let mut held_back = Vec::new();
        let sights = in_use.iter().filter_map(|(_, name, reading)| {
            let sight = match (reading.lookup, &reading.uuid) {
                (TopicLookup::Gone, _) => TopicSight::Missing,
                (_, Some(uuid)) => TopicSight::Is(uuid.clone()),
                (TopicLookup::Partitions(_), None) => TopicSight::Untold,
                (TopicLookup::Unclear, None) => return None,
            };
            Some((name.clone(), sight))
        });
        let sights: Vec<(TopicName, TopicSight)> = sights.chain(others).collect();
        self.input(Input::TopicsSeen(&sights));
        for (id, name, TopicReading { lookup, uuid }) in in_use {
            match lookup {
                TopicLookup::Partitions(count) => self.input(Input::Partitions(id, count)),
                TopicLookup::Gone => self.input(Input::TopicGone(id)),
                TopicLookup::Unclear => {}
            }
            let Some(sink) = &mut self.sink else { return };
            let identity =
                uuid.as_ref().map_or(Identity::Same, |uuid| sink.identify_topic(id, uuid));
            if identity == Identity::Another {
                tracing::info!(topic = %name, "the topic was deleted and re-created");
                self.start(Job::LookUpTopic(id, name));
            } else if sink.limits_in_flight(id) {
                held_back.push((id, name));
            }
        }
        // The `max.message.bytes` that hold records back may have been raised.
        for (id, name) in self.refresher.some_of(held_back) {
            self.start(Job::LookUpTopic(id, name));
        }
    }
}

fn seen(topic_client: &impl TopicClient, names: Vec<TopicName>) -> Vec<(TopicName, TopicSight)> {
    if names.is_empty() {
        return Vec::new();
    }
    let sights = topic_client.sights(&names.iter().collect::<Vec<_>>());
    let told = |sight: Option<TopicSight>| sight.unwrap_or(TopicSight::Untold);
    names.into_iter().zip(sights).map(|(name, sight)| (name, told(sight))).collect()
}
