//! What one round plays, drawn from its seed before anything starts.

use std::fmt;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::faults::Fault;

/// What a round is about: a source, and what removes or marks its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Play {
    /// The stream, and retention that deletes.
    Delete,
    /// The stream, and retention that moves rows into an archive.
    Archive,
    /// The stream, and retention that drops partitions.
    DropPartitions,
    /// The stream, and nothing but `cleanup`, typed at random.
    Cleanup,
    /// The stream with rows that become dead letters, and retention that deletes.
    DeadLetters,
    /// The stream with a table that joins later and has rows, and retention that deletes.
    Joined,
    /// The stream, a slot that is dropped, advanced or made again, and `recover`.
    Recover,
    /// Polling, marked by a time.
    PollTime,
    /// Polling, marked by the words of a status, with claims.
    PollStatus,
    /// Polling that deletes what is delivered.
    PollDelete,
    /// From polling to the stream and back.
    Switch,
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().ok_or(fmt::Error)?;
        f.write_str(value.get_name())
    }
}

/// The type of the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdType {
    Uuid,
    Bigint,
    Text,
    Char20,
}

/// The type of the time column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeType {
    Timestamptz,
    Timestamp,
    Date,
}

/// `TimeZone` of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    Utc,
    NewYork,
    Kolkata,
}

impl Zone {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Utc => "UTC",
            Self::NewYork => "America/New_York",
            Self::Kolkata => "Asia/Kolkata",
        }
    }
}

/// How the table is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Plain,
    /// Three partitions by hash of the id.
    ByHash,
    /// Partitions by the time, made and dropped by the router.
    ByTime(DefaultPartition),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultPartition {
    Present,
    Absent,
}

/// What rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Each is an event.
    Events,
    /// One for each key, written again by `on conflict do update`.
    Versions,
}

/// By what a polled row shows that it is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Time,
    Status,
    Delete,
}

/// Where abandoned rows have the time of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abandoned {
    Column,
    WordAlone,
}

/// What `[retention]` or `cleanup` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Off,
    Delete,
    Archive,
    DropPartitions,
}

/// Which times writers give to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// The column's default.
    Present,
    /// The past of the partitions that are there, too.
    Recent,
    /// The past, the future and NULL, too.
    Any,
}

/// What happens to the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    Dropped,
    MadeAgain,
    Advanced,
}

/// Whether a consumer gets the events of a gap in a topic of its own, before they are recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    Never,
    BeforeRecovery,
}

/// What a person does with partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Person {
    LeavesThem,
    /// Detaches one, to keep it.
    KeepsOne,
    /// Attaches a table that has rows.
    AttachesOne,
}

/// Which words a former poller has left in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    Known,
    /// [`UNKNOWN_WORD`](crate::table::UNKNOWN_WORD), too.
    Unknown,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) number: u32,
    pub(crate) seed: u64,
    pub(crate) play: Play,
    pub(crate) id: IdType,
    pub(crate) time: TimeType,
    pub(crate) zone: Zone,
    pub(crate) layout: Layout,
    pub(crate) rows: Rows,
    pub(crate) mark: Option<Mark>,
    pub(crate) abandoned: Abandoned,
    pub(crate) removal: Removal,
    pub(crate) keep_seconds: u32,
    pub(crate) times: Times,
    pub(crate) gap: Gap,
    pub(crate) copied: Copied,
    pub(crate) words: Words,
    pub(crate) person: Person,
    /// Whether rows that cannot be delivered are written, which are kept for a person then.
    pub(crate) has_poison: bool,
    pub(crate) faults: Vec<Fault>,
    pub(crate) work_seconds: u32,
}

/// One of some choices; each is as likely.
fn one<T: Copy, const N: usize>(random: &mut StdRng, first: T, others: [T; N]) -> T {
    let at = random.random_range(0..=N);
    others.get(at).copied().unwrap_or(first)
}

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn draw(number: u32, play: Play, seed: u64) -> Self {
        let random = &mut StdRng::seed_from_u64(seed);
        let id = one(random, IdType::Uuid, [IdType::Bigint, IdType::Text, IdType::Char20]);
        let time = one(
            random,
            TimeType::Timestamptz,
            [TimeType::Timestamp, TimeType::Timestamp, TimeType::Date],
        );
        let zone = one(random, Zone::Utc, [Zone::NewYork, Zone::NewYork, Zone::Kolkata]);
        let layout = one(random, Layout::Plain, [Layout::Plain, Layout::ByHash]);
        let mut scenario = Self {
            number,
            seed,
            play,
            id,
            time,
            zone,
            layout,
            rows: Rows::Events,
            mark: None,
            abandoned: one(random, Abandoned::Column, [Abandoned::WordAlone]),
            removal: Removal::Delete,
            keep_seconds: one(random, 0, [0, 2]),
            times: Times::Any,
            gap: one(random, Gap::Dropped, [Gap::Dropped, Gap::MadeAgain, Gap::Advanced]),
            copied: one(random, Copied::Never, [Copied::Never, Copied::BeforeRecovery]),
            words: Words::Known,
            person: Person::LeavesThem,
            has_poison: false,
            faults: faults(random),
            work_seconds: random.random_range(9..=16),
        };
        scenario.fit(random);
        scenario
    }

    /// What a play needs, and what it cannot have.
    fn fit(&mut self, random: &mut StdRng) {
        match self.play {
            Play::Delete | Play::Joined => {}
            Play::DeadLetters => self.has_poison = true,
            Play::Archive => self.removal = Removal::Archive,
            Play::DropPartitions => {
                self.drop_partitions(random);
                let acts = [Person::KeepsOne, Person::AttachesOne];
                self.person = one(random, Person::LeavesThem, acts);
            }
            Play::Cleanup => {
                self.removal = one(random, Removal::Delete, [Removal::Archive]);
                if random.random_ratio(1, 3) {
                    self.drop_partitions(random);
                }
            }
            Play::Recover => {
                self.removal = one(random, Removal::Off, [Removal::Delete]);
                if random.random_ratio(1, 4) {
                    self.drop_partitions(random);
                    self.times = Times::Present;
                    return;
                }
                // Rows whose time was set to before the gap are found by --since alone.
                self.times = one(random, Times::Any, [Times::Present, Times::Present]);
                self.has_poison = random.random_ratio(1, 3);
            }
            Play::PollTime => self.poll(Mark::Time, random),
            Play::PollStatus => {
                self.poll(Mark::Status, random);
                if self.rows == Rows::Events {
                    self.words = one(random, Words::Known, [Words::Unknown]);
                }
            }
            Play::PollDelete => self.poll(Mark::Delete, random),
            Play::Switch => {
                let mark = one(random, Mark::Time, [Mark::Status]);
                self.poll(mark, random);
                self.rows = Rows::Events;
                self.has_poison = false;
                self.times = Times::Present;
                self.removal = one(random, Removal::Off, [Removal::Delete]);
                self.work_seconds = 6;
            }
        }
    }

    fn drop_partitions(&mut self, random: &mut StdRng) {
        let default = one(
            random,
            DefaultPartition::Absent,
            [DefaultPartition::Absent, DefaultPartition::Present],
        );
        self.removal = Removal::DropPartitions;
        self.layout = Layout::ByTime(default);
        self.keep_seconds = random.random_range(2..=3);
        self.times = if default == DefaultPartition::Present { Times::Any } else { Times::Recent };
        self.work_seconds = random.random_range(14..=20);
        if self.time == TimeType::Date {
            self.time = TimeType::Timestamptz;
        }
    }

    fn poll(&mut self, mark: Mark, random: &mut StdRng) {
        self.mark = Some(mark);
        self.rows = one(random, Rows::Events, [Rows::Versions, Rows::Versions]);
        if self.rows == Rows::Versions {
            self.layout = Layout::Plain;
        }
        self.has_poison = self.rows == Rows::Events;
        // A mark that is a time has no word for abandoned.
        if mark != Mark::Status {
            self.abandoned = Abandoned::Column;
        }
    }

    /// Whether the stream delivers, in the beginning.
    pub(crate) fn begins_with_stream(&self) -> bool {
        self.mark.is_none()
    }

    /// Whether rows may be deleted in the transaction that inserts them: after a gap they are in no
    /// table, and a poller never sees them.
    pub(crate) fn has_deleted_events(&self) -> bool {
        self.begins_with_stream() && self.play != Play::Recover
    }

    /// Whether commits of a key arrive in their order: `recover` sends missing rows behind what is
    /// there.
    pub(crate) fn keeps_order(&self) -> bool {
        self.play != Play::Recover
    }

    /// Whether nothing may come twice.
    pub(crate) fn is_undisturbed(&self) -> bool {
        let interludes = matches!(self.play, Play::Recover | Play::Switch | Play::Joined);
        self.faults.is_empty() && self.begins_with_stream() && !interludes
    }
}

/// None in a fifth of the rounds, else up to three kinds.
fn faults(random: &mut StdRng) -> Vec<Fault> {
    let mut all = Fault::ALL.to_vec();
    all.shuffle(random);
    let count = one(random, 0, [1, 2, 2, 3]);
    all.truncate(count);
    all
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { play, id, time, zone, layout, rows, removal, keep_seconds, times, .. } = self;
        write!(
            f,
            "{play}: ids {id:?}, {time:?} in {}, {layout:?}, {rows:?}, times {times:?}, \
             {removal:?} after {keep_seconds} s",
            zone.name()
        )?;
        if let Some(mark) = self.mark {
            write!(
                f,
                ", mark {mark:?}, abandoned by {:?}, words {:?}",
                self.abandoned, self.words
            )?;
        }
        if self.play == Play::Recover {
            write!(f, ", slot {:?}, copied {:?}", self.gap, self.copied)?;
        }
        if self.play == Play::DropPartitions {
            write!(f, ", a person {:?}", self.person)?;
        }
        write!(f, ", faults {:?}", self.faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(play: Play) -> Vec<Scenario> {
        (0..400).map(|seed| Scenario::draw(1, play, seed)).collect()
    }

    #[test]
    fn partitions_are_dropped_from_tables_that_have_them_by_time_alone() {
        for play in Play::value_variants() {
            for scenario in drawn(*play) {
                let by_time = matches!(scenario.layout, Layout::ByTime(_));
                assert_eq!(by_time, scenario.removal == Removal::DropPartitions, "{scenario}");
                assert!(!by_time || scenario.time != TimeType::Date, "{scenario}");
            }
        }
    }

    #[test]
    fn one_row_for_each_key_is_polled_and_never_partitioned() {
        for play in Play::value_variants() {
            for scenario in drawn(*play) {
                let polled = scenario.mark.is_some() && scenario.layout == Layout::Plain;
                assert!(scenario.rows == Rows::Events || polled, "{scenario}");
            }
        }
    }

    #[test]
    fn what_a_documented_limit_would_lose_is_not_written_in_a_round_with_a_gap() {
        for scenario in drawn(Play::Recover) {
            assert!(!scenario.has_deleted_events() && !scenario.keeps_order(), "{scenario}");
        }
    }
}
