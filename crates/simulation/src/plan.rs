//! What a seed means: the shape of the world and the faults that happen in it, decided before
//! anything runs, so that a failing run can be made smaller by leaving faults out.

use crate::{fault::Fault, random::Random};

/// Generation of PostgreSQL, as far as it matters to whoever reads from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 13 and 14: sends transactions without rows, takes a slot back when told to.
    Old,
    /// 15 to 17: a missing publication is an error.
    Middle,
    /// 18: a missing publication is a warning, and rows are skipped.
    New,
}

/// Whether the routers keep a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// In the state topic.
    Witness,
    /// No: each remembers what it saw, as long as it lives.
    Memory,
}

/// Whether a person comes when one is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    /// Nobody does.
    Away,
    /// After a while, and accepts what cannot be mended.
    Comes,
}

/// A fault, and when it happens.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// The step.
    pub at: usize,
    /// What happens.
    pub fault: Fault,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// How long the faults go on.
    pub steps: usize,
    /// Which PostgreSQL.
    pub generation: Generation,
    /// How many routers compete for the slot.
    pub routers: usize,
    /// Whether they keep a witness.
    pub keeping: Keeping,
    /// Whether a person comes.
    pub person: Person,
    /// The window in events.
    pub window: u64,
    /// What the producer's queue holds.
    pub queue: usize,
    /// Partitions of each topic at the start.
    pub partitions: i32,
    /// In the order of time.
    pub faults: Vec<Planned>,
    /// Whether every event is to be told.
    pub trace: Trace,
}

/// Whether a run tells what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Nothing.
    Silent,
    /// On stderr, one line per event.
    Told,
}

const STEPS: u64 = 220;
/// Each run knows few kinds of faults, so that some runs are nothing but cut connections.
const KINDS_MAX: usize = 5;
const FAULTS_MAX: u64 = 9;

impl Plan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x5eed_0f00_7b07);
        let steps = usize::try_from(STEPS / 2 + random.below(STEPS)).expect("small");
        let keeping = if random.one_in(8) { Keeping::Memory } else { Keeping::Witness };
        let passing: Vec<Fault> =
            Fault::ALL.iter().copied().filter(|fault| !fault.is_for_a_person()).collect();
        let for_a_person = Fault::ALL.iter().copied().filter(|fault| fault.is_for_a_person());
        // Nobody notices a slot that was moved who has nothing to compare it with.
        let is_noticed = |fault: &Fault| keeping == Keeping::Witness || !fault.needs_a_witness();
        let for_a_person: Vec<Fault> = for_a_person.filter(is_noticed).collect();
        let kinds: Vec<Fault> = (0..1 + random.index(KINDS_MAX))
            .map(|_| passing[random.index(passing.len())])
            .collect();
        let mut faults: Vec<Planned> = (0..random.below(FAULTS_MAX + 1))
            .map(|_| Planned { at: random.index(steps), fault: kinds[random.index(kinds.len())] })
            .collect();
        faults.sort_by_key(|planned| planned.at);
        let mut routers = 1 + random.index(2);
        let mut person = Person::Away;
        if random.one_in(4) {
            let deed = for_a_person[random.index(for_a_person.len())];
            if keeping == Keeping::Memory {
                // Whoever knew the slot as it was must live to see what became of it.
                routers = 1;
                let last = Planned { at: steps * 3 / 4, fault: deed };
                faults.retain(|planned| planned.at <= last.at);
                faults.push(last);
            } else {
                // Evidence that was deleted is none.
                faults.retain(|planned| planned.fault != Fault::DeleteState);
                faults.push(Planned { at: random.index(steps), fault: deed });
                if random.one_in(2) {
                    person = Person::Comes;
                    let deed = for_a_person[random.index(for_a_person.len())];
                    faults.push(Planned { at: random.index(steps), fault: deed });
                }
            }
            faults.sort_by_key(|planned| planned.at);
        }
        Self {
            seed,
            steps,
            generation: match random.below(4) {
                0 => Generation::Old,
                1 => Generation::Middle,
                _ => Generation::New,
            },
            routers,
            keeping,
            person,
            window: 3 + random.below(30),
            queue: 3 + random.index(40),
            partitions: 1 + i32::try_from(random.below(4)).expect("small"),
            faults,
            trace: Trace::Silent,
        }
    }

    /// The same with only some of its faults, by their places in [`Plan::faults`].
    #[must_use]
    pub fn keeping(&self, places: &[usize]) -> Self {
        let faults = places.iter().filter_map(|place| self.faults.get(*place).copied()).collect();
        Self { faults, ..self.clone() }
    }
}
