//! Reads rows and sends their records, until the last one is acknowledged.

use std::{
    collections::HashMap,
    future,
    num::{NonZeroI32, NonZeroU32},
    pin::Pin,
    time::{Duration, SystemTime},
};

use pgoutput::PgTimestamp;
use relay::{
    Acks, Case, Class, Code, Failure, Name, Offered, OnError, Record, RecordSink, Refusal,
    Republish, Ticket, TopicFacts, TopicId, TopicName, handover::Position, witness::ProducedTo,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::{
    checkpoints::Checkpoints,
    destination::Destination,
    journal::Run,
    left_out::LeftOut,
    pace::Pace,
    rows::{Next, Rows},
};
use crate::{
    kafka::StoredOffsets,
    postgres::frames::{PREFIX_BYTES, frame_limit},
    wording::count,
};

/// How many rows may be past the last place that the journal has: at most so many are repeated
/// after a kill. The journal is written several times a second at full speed.
const PAST_JOURNAL: u64 = 20_000;
/// How many more rows are settled before the journal is written again.
const JOURNAL_EVERY: u64 = 5_000;
/// How often a person is told.
const TICK: Duration = Duration::from_millis(500);
/// How many rows are taken before acknowledgements and Ctrl-C have their turn.
const TURN: usize = 500;
/// How long a run that ends early waits for what is in flight.
const DRAIN: Duration = Duration::from_secs(30);
/// Between two attempts to look a topic up.
const RETRY: Duration = Duration::from_secs(1);

/// What is told of a topic of which nothing is known, or whose records go to another: no row is
/// refused for its partition.
pub(crate) const UNKNOWN: TopicFacts =
    TopicFacts { partitions: NonZeroI32::MAX, max_message_bytes: None };

/// What is done at a row at which `run` would stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadRows {
    Stop,
    LeaveOut,
    /// Leaves them out, and says which: each has to have an id, in the column with this place.
    Keep(usize),
    /// The same, and of rows that `where` leaves out, too: a person wants each of them sent.
    KeepFiltered(usize),
}

/// How many rows are left out at most where each of them is named.
const KEPT_MAX: usize = 100_000;

/// How rows are sent.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The column that has the id of each row.
    pub(crate) id_column: Option<String>,
    pub(crate) bad_rows: BadRows,
    /// Records a second.
    pub(crate) rate: Option<NonZeroU32>,
    /// `limits.row_bytes`.
    pub(crate) row_bytes: usize,
    /// The topic that all records go to.
    pub(crate) to_topic: Option<TopicName>,
    /// The places of the columns by which rows are in order.
    pub(crate) order: Vec<usize>,
}

/// What became of the rows so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Rows that were read.
    pub(crate) rows: u64,
    /// Records that were sent, acknowledged or not.
    pub(crate) sent: u64,
    pub(crate) filtered: u64,
    /// Rows at which `run` would stop.
    pub(crate) left_out: u64,
    /// Records that are not acknowledged.
    pub(crate) in_flight: u64,
}

/// Who is told how far it is.
pub(crate) trait Watch {
    /// Called twice a second; `waits_for` says why nothing goes on.
    fn progress(&mut self, counts: &Counts, waits_for: Option<&Failure>);
    /// A row is left out.
    fn left_out(&mut self, id: Option<&[u8]>, failure: &Failure);
    /// Something about a topic that a person should know.
    fn caution(&mut self, failure: &Failure);
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Every row is settled.
    Complete,
    /// By Ctrl-C.
    Interrupted,
    /// At a row at which `run` would stop.
    AtRow(Box<Failure>),
    /// By a failure of PostgreSQL or Kafka.
    Failed(Box<Failure>),
}

/// What comes next.
enum Step {
    Read,
    /// The row that was read has no place yet.
    Wait,
    /// After so long.
    Pause(Instant),
    LookUp(TopicId, TopicName),
    End(Ended),
}

/// What is known of the present row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Present {
    None,
    Waits,
    /// There are no more rows.
    End,
}

/// See the module's header.
pub(crate) struct Sender<'a, D> {
    rows: Rows,
    republish: Republish,
    destination: Counting<D>,
    settings: Settings,
    journal: Option<Run<'a>>,
    checkpoints: Checkpoints,
    /// Rows up to the last place that the journal has.
    journaled: u64,
    pace: Pace,
    acks: Acks,
    counts: Counts,
    present: Present,
    /// Rows that were left out, where they are named.
    left_out: Vec<LeftOut>,
    /// The topics that were looked up for a first record.
    produced_to: ProducedTo,
    ticks: Interval,
}

impl<'a, D: Destination> Sender<'a, D> {
    /// `republish` knows the table.
    pub(crate) fn new(
        rows: Rows,
        republish: Republish,
        destination: D,
        settings: Settings,
        journal: Option<Run<'a>>,
    ) -> Self {
        let pace = Pace::new(settings.rate, Instant::now());
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            rows,
            republish,
            destination: Counting { inner: destination, records: HashMap::new() },
            settings,
            journal,
            checkpoints: Checkpoints::default(),
            journaled: 0,
            pace,
            acks: Acks::default(),
            counts: Counts::default(),
            present: Present::None,
            left_out: Vec::new(),
            produced_to: ProducedTo::new(),
            ticks,
        }
    }

    /// Sends all rows. What is in flight when it has to end is waited for, so that the journal says
    /// how far it came.
    pub(crate) async fn send(&mut self, watch: &mut dyn Watch) -> Ended {
        let mut ended = {
            let interrupt = std::pin::pin!(tokio::signal::ctrl_c());
            self.until_end(interrupt, watch).await.unwrap_or_else(failed)
        };
        if !matches!(ended, Ended::Complete) {
            // A second Ctrl-C ends this, too.
            let settled = self.settle();
            tokio::select! {
                () = async { drop(timeout(DRAIN, settled).await) } => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        if let Err(failure) = self.write_journal().await
            && matches!(ended, Ended::Complete)
        {
            ended = failed(failure);
        }
        self.counts.in_flight = self.republish.in_flight();
        watch.progress(&self.counts, None);
        for (topic, records, keeps) in self.destination.inner.sent_as_new() {
            let records = count(i64::try_from(records).unwrap_or(i64::MAX), "record");
            let what = format!(
                "{records} of topic {topic}, which {keeps}, would have been deleted before they \
                 are read: they carry the time of sending"
            );
            let failure = Failure::new(Code::TopicTimestamps, what);
            watch.caution(&failure.naming(Name::Topic, topic.as_str()));
        }
        ended
    }

    /// What became of the rows.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// How many records were sent to each topic.
    pub(crate) fn topics(&self) -> Vec<(String, u64)> {
        let records = self.destination.records.iter();
        let mut topics: Vec<(String, u64)> = records
            .filter_map(|(id, count)| Some((self.republish.topic_name(*id)?.to_string(), *count)))
            .collect();
        topics.sort();
        topics
    }

    /// Where records were stored.
    pub(crate) fn take_stored(&mut self) -> StoredOffsets {
        self.destination.inner.take_stored()
    }

    /// The topics that records were sent to, as far as brokers say their ids.
    pub(crate) fn produced_to(&self) -> &ProducedTo {
        &self.produced_to
    }

    async fn until_end(
        &mut self,
        mut interrupt: Pin<&mut impl Future<Output = std::io::Result<()>>>,
        watch: &mut dyn Watch,
    ) -> Result<Ended, Failure> {
        loop {
            self.take_acks()?;
            if self.present == Present::End && self.republish.in_flight() == 0 {
                return Ok(Ended::Complete);
            }
            let step = self.turn(watch)?;
            let (mut may_read, mut pause) = (false, None);
            match step {
                Step::End(ended) => return Ok(ended),
                Step::LookUp(id, name) => {
                    if self.look_up(id, &name, watch)? {
                        continue;
                    }
                    pause = Some(Instant::now() + RETRY);
                }
                Step::Read => may_read = true,
                Step::Wait => {}
                Step::Pause(until) => pause = Some(until),
            }
            self.write_journal_if_due().await?;
            let pause = async {
                match pause {
                    Some(until) => sleep_until(until).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = &mut interrupt => return Ok(Ended::Interrupted),
                _ = self.ticks.tick() => {
                    self.counts.in_flight = self.republish.in_flight();
                    watch.progress(&self.counts, self.destination.inner.is_down());
                }
                () = self.destination.inner.wait_acks() => {}
                () = pause => {}
                next = self.rows.advance(), if may_read => self.arrived(next?),
            }
        }
    }

    /// Offers what was read, and what can be read without waiting.
    fn turn(&mut self, watch: &mut dyn Watch) -> Result<Step, Failure> {
        for _ in 0..TURN {
            match self.present {
                Present::End => return Ok(Step::Wait),
                Present::Waits => match self.offer(watch)? {
                    Step::Read => {}
                    step @ (Step::Wait | Step::Pause(_) | Step::LookUp(..) | Step::End(_)) => {
                        return Ok(step);
                    }
                },
                Present::None => {
                    if self.is_journal_behind() {
                        return Ok(Step::Wait);
                    }
                    match self.rows.advance_now() {
                        Some(next) => self.arrived(next?),
                        None => return Ok(Step::Read),
                    }
                }
            }
        }
        // More may be there: after a look at acknowledgements, it goes on at once.
        Ok(Step::Pause(Instant::now()))
    }

    fn arrived(&mut self, next: Next) {
        self.present = match next {
            Next::Row => Present::Waits,
            Next::End => Present::End,
        };
    }

    /// Offers the present row.
    fn offer(&mut self, watch: &mut dyn Watch) -> Result<Step, Failure> {
        if let Some(until) = self.pace.wait() {
            return Ok(Step::Pause(until));
        }
        let message = self.rows.message();
        let offered = if message.len() > frame_limit(self.settings.row_bytes) {
            let prefix = message.get(..PREFIX_BYTES).unwrap_or(message);
            self.republish.offer_oversized(message.len(), prefix, self.settings.row_bytes)?
        } else {
            let at = self.rows.at().unwrap_or_else(now);
            self.republish.offer(message, at, &mut self.destination)?
        };
        match offered {
            Offered::Produced => {
                self.counts.sent += 1;
                self.pace.sent();
            }
            Offered::FilteredOut => {
                if let Some(end) = self.filtered(watch) {
                    return Ok(end);
                }
            }
            Offered::Refused(failure, _) if self.settings.bad_rows == BadRows::Stop => {
                return Ok(Step::End(at_row(*failure)));
            }
            Offered::Refused(failure, id) => {
                if let BadRows::Keep(place) | BadRows::KeepFiltered(place) = self.settings.bad_rows
                    && !self.keep(place, &failure)
                {
                    return Ok(Step::End(at_row(*failure)));
                }
                watch.left_out(id.as_deref(), &failure);
                self.republish.leave_out();
                self.counts.left_out += 1;
            }
            Offered::LookUpTopic(id, name) => return Ok(Step::LookUp(id, name)),
            // Of a closed producer the failure comes with the next reports.
            Offered::Full | Offered::Closed => return Ok(Step::Wait),
        }
        self.counts.rows += 1;
        self.present = Present::None;
        if self.journal.is_some() && Checkpoints::is_due(self.counts.rows) {
            self.checkpoints.keep(self.counts.rows, self.position());
        }
        Ok(Step::Read)
    }

    /// Counts the present row, which `where` leaves out, or notes it as left out.
    fn filtered(&mut self, watch: &mut dyn Watch) -> Option<Step> {
        let BadRows::KeepFiltered(place) = self.settings.bad_rows else {
            self.counts.filtered += 1;
            return None;
        };
        let what = "`where` leaves the row out as it is now: an UPDATE may have made it so, or the \
                    configuration was another one";
        let failure = Failure::of(Case::FilteredSince, what);
        if !self.keep(place, &failure) {
            return Some(Step::End(at_row(failure)));
        }
        watch.left_out(self.rows.text(place).as_deref().map(str::as_bytes), &failure);
        self.counts.left_out += 1;
        None
    }

    /// Notes that the present row is left out. Returns `false` where nothing could tell it from
    /// others later on.
    fn keep(&mut self, place: usize, failure: &Failure) -> bool {
        let Some(id) = self.rows.text(place).filter(|_| self.left_out.len() < KEPT_MAX) else {
            return false;
        };
        let (code, error) = (failure.code.to_string(), failure.message_with_causes());
        let column = self.settings.id_column.clone();
        self.left_out.push(LeftOut { id, column, code, error });
        true
    }

    /// The place of the row that was read last, if one was read.
    pub(crate) fn last_read(&self) -> Option<Position> {
        (self.counts.rows > 0).then(|| self.position())
    }

    /// The rows that were left out, where they are named.
    pub(crate) fn take_left_out(&mut self) -> Vec<LeftOut> {
        std::mem::take(&mut self.left_out)
    }

    fn position(&self) -> Position {
        self.settings.order.iter().map(|column| self.rows.text(*column)).collect()
    }

    /// Returns `false` where no broker answers now. Before the first record this ends the run: the
    /// configuration may be wrong.
    fn look_up(
        &mut self,
        id: TopicId,
        name: &TopicName,
        watch: &mut dyn Watch,
    ) -> Result<bool, Failure> {
        if self.settings.to_topic.as_ref().is_some_and(|target| target != name) {
            self.republish.topic(id, UNKNOWN);
            return Ok(true);
        }
        match self.destination.inner.look_up(id, name) {
            Ok(found) => {
                found.caution.iter().for_each(|caution| watch.caution(caution));
                self.republish.topic(id, found.facts);
                if let Some(uuid) = found.uuid {
                    if let Some(journal) = &mut self.journal {
                        journal.note_topic(name, &uuid);
                    }
                    self.produced_to.insert(name.to_string(), uuid);
                }
                Ok(true)
            }
            Err(failure) if failure.class() == Class::Transport && self.counts.sent > 0 => {
                watch.progress(&self.counts, Some(&failure));
                Ok(false)
            }
            // The row is at fault, unless a person has typed the name.
            Err(failure)
                if failure.code == Code::TopicIllegal && self.settings.to_topic.is_none() =>
            {
                self.republish.no_topic(id, failure);
                Ok(true)
            }
            Err(failure) => Err(failure),
        }
    }

    fn take_acks(&mut self) -> Result<(), Failure> {
        let failure = self.destination.inner.take_acks(&mut self.acks);
        self.republish.acknowledged(&self.acks);
        self.acks.clear();
        failure.map_or(Ok(()), Err)
    }

    /// Waits until nothing is in flight, or Kafka fails.
    async fn settle(&mut self) {
        while self.take_acks().is_ok() && self.republish.in_flight() > 0 {
            tokio::select! {
                () = self.destination.inner.wait_acks() => {}
                () = sleep(TICK) => {}
            }
        }
    }

    fn is_journal_behind(&self) -> bool {
        self.journal.is_some() && self.counts.rows >= self.journaled + PAST_JOURNAL
    }

    async fn write_journal_if_due(&mut self) -> Result<(), Failure> {
        if self.journal.is_some() && self.republish.settled() >= self.journaled + JOURNAL_EVERY {
            self.write_journal().await?;
        }
        Ok(())
    }

    async fn write_journal(&mut self) -> Result<(), Failure> {
        if let Some(journal) = &self.journal {
            // Before the place moves past them.
            journal.note_left_out(self.rows.relation(), &self.left_out).await?;
            self.left_out.clear();
        }
        let settled = self.republish.settled();
        // The row that was read last is the last that is settled, or the first that is not.
        let is_all = settled == self.counts.rows && settled > 0;
        let last = is_all.then(|| (settled, self.position()));
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let kept = self.checkpoints.settled(settled);
        if let Some((rows, position)) = last.or(kept) {
            journal.reached(rows, &position).await?;
            self.journaled = rows;
        }
        Ok(())
    }
}

fn at_row(failure: Failure) -> Ended {
    Ended::AtRow(Box::new(standing(failure)))
}

fn failed(failure: Failure) -> Ended {
    Ended::Failed(Box::new(standing(failure)))
}

/// The failure at which a run stands whatever `[on_error]` says: to change that is no advice.
fn standing(failure: Failure) -> Failure {
    failure.naming(Name::OnError, OnError::DeadLetter.as_str())
}

fn now() -> PgTimestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    PgTimestamp::from_unix_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A destination, and how many records it took of each topic.
struct Counting<D> {
    inner: D,
    records: HashMap<TopicId, u64>,
}

impl<D: RecordSink> RecordSink for Counting<D> {
    #[inline]
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        self.inner.produce(record, ticket)?;
        *self.records.entry(record.topic).or_default() += 1;
        Ok(())
    }
}
