//! From how many rows are settled to the place in the order at which another run may go on.

use std::collections::VecDeque;

use relay::handover::Position;

/// A place is kept of every so many rows: fewer would repeat more, more would cost memory.
const EVERY: u64 = 100;

/// Places of rows that are not known to be settled.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// Each with the number of the row, counted from 1.
    kept: VecDeque<(u64, Position)>,
}

impl Checkpoints {
    /// Whether the place of this row is to be kept.
    pub(super) const fn is_due(row: u64) -> bool {
        row.is_multiple_of(EVERY)
    }

    pub(super) fn keep(&mut self, row: u64, position: Position) {
        self.kept.push_back((row, position));
    }

    /// The last place up to which everything is settled, with the number of its row; once.
    pub(super) fn settled(&mut self, rows: u64) -> Option<(u64, Position)> {
        let mut last = None;
        while self.kept.front().is_some_and(|(row, _)| *row <= rows) {
            last = self.kept.pop_front();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_settled_place_counts_and_none_behind_it() {
        let mut checkpoints = Checkpoints::default();
        let position = |text: &str| vec![Some(text.to_owned()), None];
        assert_eq!(checkpoints.settled(1_000), None);
        for row in [100, 200, 300] {
            assert!(Checkpoints::is_due(row) && !Checkpoints::is_due(row + 1));
            checkpoints.keep(row, position(&row.to_string()));
        }
        assert_eq!(checkpoints.settled(99), None);
        assert_eq!(checkpoints.settled(299), Some((200, position("200"))));
        assert_eq!(checkpoints.settled(299), None, "it was told");
        assert_eq!(checkpoints.settled(300), Some((300, position("300"))));
    }
}
