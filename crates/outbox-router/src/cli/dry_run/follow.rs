//! Reads a copy of the slot, and prints what each row becomes.

use std::{collections::HashSet, time::Duration};

use relay::{DryFrame, DryRun, Lsn, TopicId, TopicName};
use tokio::time::Instant;

use super::entry::{Place, Produced, write_refused};
use crate::{
    cli::{
        TaskError, Terminal,
        form::Form,
        print_failure::print_failure,
        topic_directory::{Topic, Topics},
    },
    shell::{CopyFrame, SlotCopy},
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
    There,
    /// The server says again and again that it has decoded everything, up to a position before
    /// that.
    Silent,
    /// By Ctrl-C.
    Interrupted,
}

/// What a dry run has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) left_out: u64,
    pub(super) refused: u64,
}

/// Frames that are taken before Ctrl-C has its turn.
const TURN: usize = 1_000;
/// How long the server is waited for before Ctrl-C has its turn.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the server is asked how far it is.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// WAL may end in the middle of a record, whose end no position of a frame names. The server has
/// sent everything if it answers for so long that it is no further.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// A copy of the slot, and what reads it.
pub(super) struct Reading {
    pub(super) copy: SlotCopy,
    pub(super) run: DryRun,
    pub(super) topics: Topics,
    pub(super) form: Form,
    pub(super) counts: Counts,
    /// Everything before it was read.
    pub(super) passed: Lsn,
    /// Topics without partitions that could be asked for.
    unknown: HashSet<TopicId>,
    silence: Silence,
}

/// For how long the server says that it is no further.
struct Silence {
    since: Instant,
    asked: Instant,
    answers: u32,
}

impl Silence {
    fn new() -> Self {
        Self { since: Instant::now(), asked: Instant::now(), answers: 0 }
    }

    fn is_long(&self) -> bool {
        self.since.elapsed() > SILENT_FOR && self.answers > 1
    }
}

impl Reading {
    pub(super) fn new(copy: SlotCopy, run: DryRun, topics: Topics, form: Form) -> Self {
        Self {
            copy,
            run,
            topics,
            form,
            counts: Counts::default(),
            passed: Lsn::ZERO,
            unknown: HashSet::new(),
            silence: Silence::new(),
        }
    }

    /// Reads until the end, and prints every row.
    pub(super) async fn follow(
        &mut self,
        until: Until,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let taken = self.frames(until, terminal)?;
            if self.is_there(until) {
                return Ok(Ended::There);
            }
            if matches!(until, Until::Position(_)) {
                if self.silence.is_long() {
                    return Ok(Ended::Silent);
                }
                if self.silence.asked.elapsed() > ASK_EVERY {
                    self.silence.asked = Instant::now();
                    self.copy.ask_position();
                }
            }
            let wait = if taken == 0 { PAUSE } else { Duration::ZERO };
            tokio::select! {
                biased;
                _ = &mut interrupt => return Ok(Ended::Interrupted),
                filled = self.copy.fill(wait) => filled?,
            }
        }
    }

    /// Whether nothing more is to be printed. A transaction whose commit record is past the end has
    /// begun after everything that is to be printed.
    fn is_there(&self, until: Until) -> bool {
        match until {
            Until::Records(count) => self.counts.records >= count,
            Until::Position(end) => {
                let open = self.run.transaction();
                self.passed >= end || open.is_some_and(|open| open.commit_lsn >= end)
            }
        }
    }

    /// Takes the frames that have arrived, for one turn. Returns how many.
    fn frames(&mut self, until: Until, terminal: &mut Terminal<'_>) -> Result<usize, TaskError> {
        let mut taken = 0;
        while taken < TURN && !self.is_there(until) {
            let Some(frame) = self.copy.peek()? else { break };
            let mut produced = None;
            let seen = match frame {
                CopyFrame::Whole(payload) => {
                    self.run.frame(payload, |record| produced = Some(Produced::of(record)))?
                }
                CopyFrame::Oversized { announced, prefix } => {
                    self.run.oversized(announced, prefix)?
                }
            };
            if let DryFrame::LookUpTopic(id, name) = &seen {
                // The frame comes again: it was not consumed.
                self.look_up(*id, name, terminal)?;
                continue;
            }
            self.seen(seen, produced, terminal)?;
            self.copy.consume();
            taken += 1;
        }
        Ok(taken)
    }

    fn seen(
        &mut self,
        seen: DryFrame,
        produced: Option<Produced>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        if let DryFrame::Passed(position) = seen
            && position <= self.passed
        {
            self.silence.answers += 1;
            return Ok(());
        }
        (self.silence.since, self.silence.answers) = (Instant::now(), 0);
        match seen {
            DryFrame::Event => {
                self.counts.records += 1;
                if let Some(produced) = produced {
                    self.print(&produced, terminal)?;
                }
            }
            DryFrame::FilteredOut => self.counts.left_out += 1,
            DryFrame::Refused(failure, id) => {
                self.counts.refused += 1;
                let commit_lsn = self.run.transaction().map(|open| open.commit_lsn);
                write_refused(&failure, id.as_deref(), commit_lsn, self.form, terminal.out)?;
            }
            DryFrame::Passed(position) => {
                self.passed = position;
                self.copy.pass(position);
            }
            DryFrame::LookUpTopic(..) | DryFrame::Other => {}
        }
        Ok(())
    }

    fn print(&self, produced: &Produced, terminal: &mut Terminal<'_>) -> Result<(), TaskError> {
        let Some(transaction) = self.run.transaction() else { return Ok(()) };
        let name = self.run.topic_name(produced.topic).map_or("?", TopicName::as_str);
        let place = match self.unknown.contains(&produced.topic) {
            true => Place::Unknown(name),
            false => Place::Known(name),
        };
        Ok(produced.write(place, transaction, self.form, terminal.out)?)
    }

    fn look_up(
        &mut self,
        id: TopicId,
        name: &TopicName,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        let topic = self.topics.look_up(name)?;
        match &topic {
            Topic::There(_) => {}
            Topic::ToBeCreated(facts) => writeln!(
                terminal.err,
                "note: topic {name} does not exist; run would create it with {} partitions",
                facts.partitions
            )?,
            Topic::Unusable(failure) => {
                self.unknown.insert(id);
                print_failure(terminal.err, failure)?;
            }
        }
        self.run.topic(id, topic.facts());
        Ok(())
    }
}
