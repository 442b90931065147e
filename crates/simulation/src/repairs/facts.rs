//! What `accept` and `recover` read together, and the witness in which gaps are closed
//! (`cli/accept/mod.rs`).

use relay::{
    source::{Gap, SlotHealth, preflight},
    witness::{OpenFinding, Witness},
};

use super::{
    site::{Reading, Setup, Site},
    slot::Holder,
};

/// Source and witness.
#[derive(Debug, Clone)]
pub struct Facts {
    recorded: Witness,
    /// With the gaps that a router would find.
    pub witness: Witness,
    /// The source.
    pub reading: Reading,
}

impl Site {
    /// Reads both. A slot that `ignored` holds counts as free.
    pub fn facts(&self, ignored: Option<Holder>) -> Option<Facts> {
        let recorded = self.pipeline.witness.clone()?;
        let reading = self.read(ignored);
        let is_held = reading.slot.slot.as_ref().is_some_and(SlotHealth::is_active);
        let witness = if is_held {
            recorded.clone()
        } else {
            recorded.with_found(&self.gaps(&recorded, &reading), &reading.slot.mark())
        };
        Some(Facts { recorded, witness, reading })
    }
}

impl Facts {
    /// The gaps that are open: the rows of all that there are here can close them.
    pub fn gaps(&self) -> Vec<Gap> {
        let gap = |open| match open {
            OpenFinding::Gap(gap) => Some(gap),
            OpenFinding::Beginning(_) | OpenFinding::Topic(_) => None,
        };
        self.witness.open_findings().into_iter().filter_map(gap).collect()
    }

    /// The witness in which all that was found is open; `None` where it is so already.
    pub fn with_open(&self) -> Option<Witness> {
        self.recorded.with_open(&self.witness.gaps)
    }

    /// What is found of the interval of gaps that a person was shown is part of them.
    pub fn with_shown(mut self, shown: &[Gap]) -> Self {
        let now = self.reading.slot.mark();
        let known = self.recorded.with_found(shown, &now);
        self.witness = known.with_found(&self.witness.gaps, &now);
        self
    }

    /// The witness in which these gaps are closed; `None`: no stream could start now.
    pub fn closed(self, setup: &Setup, chosen: &[OpenFinding], by: &str) -> Option<Witness> {
        let Reading { server, slot, catalog, .. } = self.reading;
        let baseline = preflight(setup.expected(None), server, &slot, catalog).ok()?;
        let recorded = self.recorded.open_findings();
        let known: Vec<OpenFinding> =
            chosen.iter().filter(|open| recorded.contains(open)).cloned().collect();
        self.witness.may_accept(&known, &baseline).ok()?;
        let begin = Witness::begin(&baseline, "k", &setup.outboxes);
        Some(self.witness.accept(chosen, begin, by))
    }
}
