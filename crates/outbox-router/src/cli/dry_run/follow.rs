//! Reads a copy of the slot, and prints what each row becomes.

use std::{collections::HashSet, time::Duration};

use relay::{DryFrame, ErrorPolicy, Lsn, Name, Record, TopicId, TopicName};

use super::entry::{Entry, write_refused};
use crate::{
    cli::{
        TaskError, Terminal,
        form::Form,
        print_failure::print_failure,
        topic_lookups::{Topic, TopicLookups},
    },
    config::Config,
    owned_record::OwnedRecord,
    shell::DryStream,
};

/// Where a dry run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Where WAL ended when it began.
    Position(Lsn),
    /// After so many records.
    Records(u64),
}

/// How a dry run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Where it was to end.
    Complete,
    /// At a position before that: the server has answered several times that it has decoded no
    /// further.
    Silent,
    /// By Ctrl-C.
    Interrupted,
}

/// What a dry run has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) filtered: u64,
    pub(super) refused: u64,
}

/// Frames that are taken before Ctrl-C has its turn.
const TURN: usize = 1_000;
/// How long the server is waited for before Ctrl-C has its turn.
const PAUSE: Duration = Duration::from_millis(200);

/// The stream that is printed, and what is known of it.
pub(super) struct Reading {
    pub(super) stream: DryStream,
    pub(super) topics: TopicLookups,
    pub(super) form: Form,
    /// `kafka.bootstrap_servers`, for the remedies of rows that `run` could not deliver: the core
    /// does not know how the cluster is reached.
    pub(super) brokers: String,
    /// `[on_error]`.
    pub(super) policy: ErrorPolicy,
    pub(super) counts: Counts,
    /// How many topics there are at which `run` would wait for a person.
    pub(super) unusable: usize,
    /// Topics of which the count of partitions is not known.
    uncounted: HashSet<TopicId>,
}

impl Reading {
    pub(super) fn new(
        stream: DryStream,
        topics: TopicLookups,
        form: Form,
        config: &Config,
    ) -> Self {
        let (brokers, policy) = (config.kafka.bootstrap_servers.clone(), config.on_error);
        let (counts, uncounted) = (Counts::default(), HashSet::new());
        Self { stream, topics, form, brokers, policy, counts, unusable: 0, uncounted }
    }

    /// Reads until the end, and prints every row.
    ///
    /// # Errors
    /// The connection broke, no broker answers, or the output cannot be written.
    pub(super) async fn follow(
        &mut self,
        until: Until,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let taken = self.frames(until, terminal)?;
            if self.is_complete(until) {
                return Ok(Ended::Complete);
            }
            if matches!(until, Until::Position(_)) && self.stream.is_at_end() {
                return Ok(Ended::Silent);
            }
            let wait = if taken == 0 { PAUSE } else { Duration::ZERO };
            tokio::select! {
                biased;
                _ = &mut interrupt => return Ok(Ended::Interrupted),
                filled = self.stream.fill(wait) => filled?,
            }
        }
    }

    /// Whether nothing more is to be printed. A transaction whose commit record is past the end has
    /// begun after everything that is to be printed.
    fn is_complete(&self, until: Until) -> bool {
        match until {
            Until::Records(count) => self.counts.records >= count,
            Until::Position(end) => {
                let open = self.stream.transaction();
                self.stream.passed() >= end || open.is_some_and(|open| open.commit_lsn >= end)
            }
        }
    }

    /// Takes the frames that have arrived, for one turn. Returns how many.
    fn frames(&mut self, until: Until, terminal: &mut Terminal<'_>) -> Result<usize, TaskError> {
        let mut taken = 0;
        while taken < TURN && !self.is_complete(until) {
            let mut produced = None;
            let take = |record: &Record<'_>| produced = Some(OwnedRecord::of(record));
            let Some(seen) = self.stream.next(take)? else { break };
            taken += 1;
            match seen {
                DryFrame::LookUpTopic(id, name) => self.look_up(id, &name, terminal)?,
                DryFrame::Event => {
                    self.counts.records += 1;
                    if let Some(produced) = produced {
                        self.print(&produced, terminal)?;
                    }
                }
                DryFrame::FilteredOut => self.counts.filtered += 1,
                DryFrame::Refused(mut failure, id) => {
                    self.counts.refused += 1;
                    failure.names.set(Name::Brokers, self.brokers.clone());
                    let commit_lsn = self.stream.transaction().map(|open| open.commit_lsn);
                    let policy = self.policy.of(failure.code);
                    let id = id.as_deref();
                    write_refused(&failure, id, commit_lsn, policy, self.form, terminal.out)?;
                }
                DryFrame::Passed(_) | DryFrame::Other => {}
            }
        }
        Ok(taken)
    }

    fn print(&self, record: &OwnedRecord, terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        let Some(transaction) = self.stream.transaction() else { return Ok(()) };
        let topic = self.stream.topic_name(record.topic).map_or("?", TopicName::as_str);
        let partition = (!self.uncounted.contains(&record.topic)).then_some(record.partition);
        let entry = Entry { record, topic, partition, transaction };
        Ok(entry.write(self.form, terminal.out)?)
    }

    fn look_up(
        &mut self,
        id: TopicId,
        name: &TopicName,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let topic = self.topics.look_up(name)?;
        match &topic {
            Topic::Exists(_) => {}
            Topic::ToBeCreated(new) => writeln!(
                terminal.err,
                "note: topic {name} does not exist; run would create it, {new}"
            )?,
            Topic::Unusable(failure) => {
                self.unusable += 1;
                print_failure(terminal.err, failure)?;
            }
        }
        if topic.partitions().is_none() {
            self.uncounted.insert(id);
        }
        self.stream.topic(id, topic.facts());
        Ok(())
    }
}
