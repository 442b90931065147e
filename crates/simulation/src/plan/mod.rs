//! What a seed means: the configuration of the world and the faults that happen in it. Both are
//! decided before the run, so that a failing run can be reduced by leaving faults out.

mod backlog;
mod dead_letters;

use crate::{fault::Fault, random::Random};

pub use backlog::BacklogReading;
pub use dead_letters::{DeadLetters, LettersTopic};

/// Group of PostgreSQL's major versions, by what differs for a replication client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionGroup {
    /// 13 and 14: sends transactions without rows, and takes the slot back when a status update
    /// names an earlier position.
    V13To14,
    /// 15 to 17: a missing publication is an error.
    V15To17,
    /// 18: a missing publication is a warning, and rows are skipped.
    V18,
}

impl VersionGroup {
    /// Whether some rows of the outbox are left out by the routers' configuration.
    pub const fn has_skipped_rows(self) -> bool {
        matches!(self, Self::V15To17)
    }
}

/// Whether the routers keep a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateTopicSetting {
    /// In the state topic.
    Used,
    /// No witness: each router knows only what it saw since it was started.
    Unused,
}

/// Whether a person answers when a router asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    /// No person answers.
    Absent,
    /// A person comes after a while, repairs what can be repaired, and accepts the rest.
    Accepts,
}

/// Whether the server names a standby in `synchronized_standby_slots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandbySetting {
    /// It names none.
    Unnamed,
    /// It names one, and the slot has `failover`.
    Named,
}

impl StandbySetting {
    /// A quarter of the plans that can have one have it.
    fn of_seed(seed: u64, version: VersionGroup) -> Self {
        let is_possible = version != VersionGroup::V13To14;
        let is_named = Random::new(seed ^ 0x57a7_d8f0_0172).one_in(4);
        if is_possible && is_named { Self::Named } else { Self::Unnamed }
    }

    /// In half of these plans: the standby is away, the routers are down meanwhile, so that they
    /// have a backlog to read, and then the standby takes over.
    fn story(seed: u64, steps: usize) -> impl Iterator<Item = PlannedFault> {
        let is_told = Random::new(seed ^ 0x0057_0a17_0f5b).one_in(2);
        let faults = [Fault::StandbyAway, Fault::AllDown, Fault::PromoteNamed];
        let places = [4, 5, 8].map(|tenths| steps * tenths / 10);
        let story = places.into_iter().zip(faults).map(|(at, fault)| PlannedFault { at, fault });
        story.filter(move |_| is_told)
    }
}

/// A fault, and when it happens.
#[derive(Debug, Clone, Copy)]
pub struct PlannedFault {
    /// The step before which it happens.
    pub at: usize,
    /// What happens.
    pub fault: Fault,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed that it is made from.
    pub seed: u64,
    /// The steps over which the faults are spread.
    pub steps: usize,
    /// Which PostgreSQL.
    pub version: VersionGroup,
    /// How many routers compete for the slot.
    pub routers: usize,
    /// Whether they keep a witness.
    pub state_topic: StateTopicSetting,
    /// Whether a person comes.
    pub person: Person,
    /// `limits.window_events`.
    pub window: u64,
    /// Records that the producer's queue holds.
    pub queue: usize,
    /// Partitions of each topic at the start.
    pub partitions: i32,
    /// Whether the server names a standby, for which its walsender waits.
    pub standby: StandbySetting,
    /// What becomes of events that cannot be delivered; `None` if they stop the routers.
    pub dead_letters: Option<DeadLetters>,
    /// How a router reads what the slot has when a session begins.
    pub backlog: BacklogReading,
    /// In the order of their steps.
    pub faults: Vec<PlannedFault>,
    /// Whether every event of the run is printed.
    pub trace: Trace,
}

/// Whether a run prints what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Nothing.
    Off,
    /// On stderr, one line per event.
    On,
}

const STEPS: u64 = 220;
/// Each run has few kinds of faults, so that some runs have cut connections only.
const KINDS_MAX: usize = 5;
const FAULTS_MAX: u64 = 9;

impl Plan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x5eed_0f00_7b07);
        let steps = usize::try_from(STEPS / 2 + random.below(STEPS)).expect("small");
        let state_topic =
            if random.one_in(8) { StateTopicSetting::Unused } else { StateTopicSetting::Used };
        let passing: Vec<Fault> =
            Fault::ALL.iter().copied().filter(|fault| !fault.is_for_a_person()).collect();
        let for_a_person = Fault::ALL.iter().copied().filter(|fault| fault.is_for_a_person());
        // A router that has no witness cannot notice that the slot was moved.
        let is_noticed =
            |fault: &Fault| state_topic == StateTopicSetting::Used || !fault.needs_a_witness();
        let dead_letters = DeadLetters::of_seed(seed);
        let is_possible = |fault: &Fault| dead_letters.is_some() || !fault.needs_a_held_table();
        let for_a_person: Vec<Fault> =
            for_a_person.filter(is_noticed).filter(is_possible).collect();
        let kinds: Vec<Fault> = (0..1 + random.index(KINDS_MAX))
            .map(|_| passing[random.index(passing.len())])
            .collect();
        let mut faults: Vec<PlannedFault> = (0..random.below(FAULTS_MAX + 1))
            .map(|_| PlannedFault {
                at: random.index(steps),
                fault: kinds[random.index(kinds.len())],
            })
            .collect();
        faults.sort_by_key(|planned| planned.at);
        let mut routers = 1 + random.index(2);
        let mut person = Person::Absent;
        if random.one_in(4) {
            let action = for_a_person[random.index(for_a_person.len())];
            if state_topic == StateTopicSetting::Unused {
                // Without a witness, only the process that saw the slot as it was can notice the
                // change, so it must not be replaced.
                routers = 1;
                let last = PlannedFault { at: steps * 3 / 4, fault: action };
                faults.retain(|planned| planned.at <= last.at);
                faults.push(last);
            } else {
                // After the state topic is deleted, a router need not notice the change.
                faults.retain(|planned| planned.fault != Fault::DeleteState);
                faults.push(PlannedFault { at: random.index(steps), fault: action });
                if random.one_in(2) {
                    person = Person::Accepts;
                    let action = for_a_person[random.index(for_a_person.len())];
                    faults.push(PlannedFault { at: random.index(steps), fault: action });
                }
            }
            faults.sort_by_key(|planned| planned.at);
        }
        let version = match random.below(4) {
            0 => VersionGroup::V13To14,
            1 => VersionGroup::V15To17,
            _ => VersionGroup::V18,
        };
        let standby = StandbySetting::of_seed(seed, version);
        if standby == StandbySetting::Named {
            faults.extend(StandbySetting::story(seed, steps));
            faults.sort_by_key(|planned| planned.at);
        }
        Self {
            seed,
            steps,
            version,
            routers,
            state_topic,
            person,
            window: 3 + random.below(30),
            queue: 3 + random.index(40),
            partitions: 1 + i32::try_from(random.below(4)).expect("small"),
            standby,
            dead_letters,
            backlog: BacklogReading::of_seed(seed),
            faults,
            trace: Trace::Off,
        }
    }

    /// The same plan with only some of its faults, by their indexes in [`Plan::faults`].
    #[must_use]
    pub fn with_only(&self, indexes: &[usize]) -> Self {
        let faults = indexes.iter().filter_map(|index| self.faults.get(*index).copied()).collect();
        Self { faults, ..self.clone() }
    }
}
