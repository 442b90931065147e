//! The verdicts of the last hours, so that a person sees what happened before he looked.

use std::{collections::VecDeque, time::SystemTime};

use super::{Verdict, Word};

/// How many changes are remembered: many hours of a router that changes every few minutes.
const CHANGES_MAX: usize = 500;

/// A verdict that replaced another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it began.
    pub at: SystemTime,
    /// The word.
    pub word: Word,
    /// The code of its reason, if it has one.
    pub code: Option<&'static str>,
    /// The sentence.
    pub sentence: String,
}

/// The latest changes, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    changes: VecDeque<Change>,
}

impl Timeline {
    /// Since when this verdict holds; `None` for another one than the last. Numbers in the sentence
    /// make no other verdict.
    pub fn since(&self, verdict: &Verdict) -> Option<SystemTime> {
        let last = self.changes.back()?;
        ((last.word, last.code) == (verdict.word, verdict.code)).then_some(last.at)
    }

    /// Adds a verdict that replaces the last one.
    pub fn add(&mut self, verdict: &Verdict, at: SystemTime) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        let Verdict { word, code, ref sentence, .. } = *verdict;
        self.changes.push_back(Change { at, word, code, sentence: sentence.clone() });
    }

    /// The changes, the oldest first.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &Change> {
        self.changes.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::monitor::Blame;

    fn verdict(word: Word, sentence: &str) -> Verdict {
        let sentence = sentence.to_owned();
        let (blame, to_do) = (Blame::Nobody, Vec::new());
        Verdict { word, sentence, code: None, blame, needs_person: false, to_do }
    }

    #[test]
    fn only_another_verdict_is_a_change_and_old_ones_are_forgotten() {
        let mut timeline = Timeline::default();
        let at = |second| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        timeline.add(&verdict(Word::Ok, "1 MiB behind"), at(1));
        assert_eq!(timeline.since(&verdict(Word::Ok, "2 MiB behind")), Some(at(1)));
        assert_eq!(timeline.since(&verdict(Word::Blocked, "")), None);
        for second in 3..1_003 {
            let word = if second % 2 == 0 { Word::Ok } else { Word::Blocked };
            timeline.add(&verdict(word, ""), at(second));
        }
        assert_eq!(timeline.changes().count(), CHANGES_MAX);
        assert_eq!(timeline.changes().next().map(|change| change.at), Some(at(503)));
    }
}
