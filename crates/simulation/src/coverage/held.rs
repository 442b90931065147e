//! Counts of events that cannot be delivered.

use std::collections::BTreeMap;

use relay::{Code, ErrorClass};

/// See the module's documentation.
#[derive(Debug, Default, Clone)]
pub struct HeldCounts {
    /// Dead letters, by code.
    pub letters: BTreeMap<Code, u64>,
    /// Events that are held behind a dead letter.
    pub followers: u64,
    /// Events that were delivered out of the table.
    pub released: u64,
    /// Events that were to leave, and could not be delivered.
    pub refused_again: u64,
    /// Events that were dropped.
    pub dropped: u64,
    /// Events that the server sent again, and that were in the table.
    pub known: u64,
    /// Records of dead letters that were produced to their topic.
    pub letter_records: u64,
    /// Batches that the topic of dead letters refused.
    pub letters_refused: u64,
    /// Events that were produced behind an open dead letter of their key, where keys are not held.
    pub overtakes: u64,
    /// Times at which a router that makes dead letters was seen at a row whose class halts.
    pub halts: u64,
    /// Batches that the broker refused because of one record.
    pub refusals: u64,
}

impl HeldCounts {
    /// Adds the counts of another run.
    pub(super) fn add(&mut self, other: &Self) {
        super::counts::add(&mut self.letters, &other.letters);
        self.followers += other.followers;
        self.released += other.released;
        self.refused_again += other.refused_again;
        self.dropped += other.dropped;
        self.known += other.known;
        self.letter_records += other.letter_records;
        self.letters_refused += other.letters_refused;
        self.overtakes += other.overtakes;
        self.halts += other.halts;
        self.refusals += other.refusals;
    }

    /// Each count with its name; dead letters by class.
    pub(super) fn named(&self) -> Vec<(String, u64)> {
        let of_class = |class: ErrorClass| {
            let of_class = |(code, _): &(&Code, &u64)| ErrorClass::of(**code) == Some(class);
            let letters: u64 = self.letters.iter().filter(of_class).map(|(_, n)| n).sum();
            (class.as_str().to_owned(), letters)
        };
        let others = [
            ("held behind one", self.followers),
            ("released", self.released),
            ("refused again", self.refused_again),
            ("dropped", self.dropped),
            ("met again", self.known),
            ("records of dead letters", self.letter_records),
            ("records of them refused", self.letters_refused),
            ("past one, keys not held", self.overtakes),
            ("halted", self.halts),
            ("batches refused", self.refusals),
        ];
        let others = others.map(|(name, count)| (name.to_owned(), count));
        ErrorClass::ALL.into_iter().map(of_class).chain(others).collect()
    }
}
