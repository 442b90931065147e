//! Counts what the runs have reached.

use std::{collections::BTreeMap, fmt::Write as _};

use relay::{Code, polling::PollState};

use super::fault::PollingFault;

/// Counts of runs.
#[derive(Debug, Default, Clone)]
pub struct PollingCoverage {
    faults: BTreeMap<PollingFault, u64>,
    states: BTreeMap<&'static str, u64>,
    codes: BTreeMap<Code, u64>,
    /// Rows that were committed.
    pub rows: u64,
    /// Records that were stored.
    pub records: u64,
    /// Records that repeat a row.
    pub duplicates: u64,
    /// Batches that were given up because their lease was over, as the workers say.
    pub claims_lost: u64,
    /// Rows that were abandoned.
    pub abandoned: u64,
    /// Rows that were changed while they were sent, as the workers say.
    pub changed: u64,
}

impl PollingCoverage {
    /// Counts a fault that took effect.
    pub fn fault(&mut self, fault: PollingFault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Counts a state that a worker was in.
    pub fn state(&mut self, state: PollState) {
        *self.states.entry(state.as_str()).or_default() += 1;
    }

    /// Counts a code that a worker reported.
    pub fn code(&mut self, code: Code, times: u64) {
        *self.codes.entry(code).or_default() += times;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        other.faults.iter().for_each(|(key, n)| *self.faults.entry(*key).or_default() += n);
        other.states.iter().for_each(|(key, n)| *self.states.entry(key).or_default() += n);
        other.codes.iter().for_each(|(key, n)| *self.codes.entry(*key).or_default() += n);
        self.rows += other.rows;
        self.records += other.records;
        self.duplicates += other.duplicates;
        self.claims_lost += other.claims_lost;
        self.abandoned += other.abandoned;
        self.changed += other.changed;
    }

    /// Everything that was never reached.
    pub fn missing(&self) -> Vec<String> {
        let faults = PollingFault::all().filter(|fault| !self.faults.contains_key(fault));
        let states = PollState::ALL.iter().filter(|one| !self.states.contains_key(one.as_str()));
        let totals = [
            ("duplicates", self.duplicates),
            ("lost claims", self.claims_lost),
            ("abandoned rows", self.abandoned),
            ("changed rows", self.changed),
        ];
        let totals = totals.into_iter().filter(|(_, count)| *count == 0);
        let faults = faults.map(|fault| format!("polling fault {}", fault.as_str()));
        let states = states.map(|state| format!("polling state {}", state.as_str()));
        faults.chain(states).chain(totals.map(|(name, _)| format!("polling {name}"))).collect()
    }

    /// The counts as a table.
    pub fn report(&self) -> String {
        let list = |counts: Vec<String>| counts.join(" · ");
        let faults = self.faults.iter().map(|(fault, n)| format!("{} {n}", fault.as_str()));
        let states = self.states.iter().map(|(state, n)| format!("{state} {n}"));
        let codes = self.codes.iter().map(|(code, n)| format!("{code} {n}"));
        let mut text = String::new();
        let lines = [
            ("faults", list(faults.collect())),
            ("states", list(states.collect())),
            ("errors", list(codes.collect())),
        ];
        for (what, counts) in lines {
            let _infallible = writeln!(text, "polling {what:<8}{counts}");
        }
        let Self { rows, records, duplicates, claims_lost, abandoned, changed, .. } = self;
        let _infallible = writeln!(
            text,
            "polling totals  rows {rows} · records {records} · duplicates {duplicates} · claims lost {claims_lost} · abandoned {abandoned} · changed {changed}"
        );
        text
    }
}
