//! Counts what the runs of a simulation have reached.

use std::{collections::BTreeMap, marker::PhantomData};

/// What a simulation has to reach.
pub trait Wanted {
    /// Its name in a report.
    const NAME: &'static str;
    /// What must happen within some thousand seeds.
    const STATES: &'static [&'static str];
}

/// Counts of runs, by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Reached<W>(BTreeMap<&'static str, u64>, PhantomData<W>);

impl<W: Wanted> Reached<W> {
    /// Counts something that happened.
    pub fn count(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// How often it happened.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, n)| *self.0.entry(name).or_default() += n);
    }

    /// Everything that was never reached.
    pub fn missing(&self) -> Vec<String> {
        let never = W::STATES.iter().filter(|name| self.of(name) == 0);
        never.map(|name| format!("{}: {name}", W::NAME)).collect()
    }

    /// The counts in a line.
    pub fn report(&self) -> String {
        let counts: Vec<String> = self.0.iter().map(|(name, n)| format!("{name} {n}")).collect();
        format!("{:<7} {}\n", W::NAME, counts.join(" · "))
    }
}
