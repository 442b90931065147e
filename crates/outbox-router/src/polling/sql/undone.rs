//! Rows that come again although they were marked: a trigger that acts after the statement changes
//! their marks back, which the statement cannot see.

use relay::polling::RowId;

/// A person may make the row pending that was marked last, and hardly twice in a row.
const TIMES: u32 = 2;

/// Of a table: whether the first row of each batch is again and again the same.
#[derive(Debug, Default)]
pub(super) struct UndoneMarks {
    /// The first of the rows that were marked last.
    first: Option<RowId>,
    /// How often it was the first that was read afterwards.
    times: u32,
}

impl UndoneMarks {
    /// A batch was marked, with this row first.
    pub(super) fn marked(&mut self, first: Option<&RowId>) {
        if let Some(first) = first {
            self.first = Some(first.clone());
        }
    }

    /// A batch was read, with this row first. Whether that is the one which was marked, once more.
    pub(super) fn are_undone(&mut self, first: Option<&RowId>) -> bool {
        let Some(first) = first else { return false };
        self.times = if self.first.as_ref() == Some(first) { self.times + 1 } else { 0 };
        self.times >= TIMES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> RowId {
        RowId([Box::from(id)].into())
    }

    #[test]
    fn a_row_may_come_again_once() {
        let mut marks = UndoneMarks::default();
        for expected in [false, false, true] {
            assert_eq!(marks.are_undone(Some(&row("1"))), expected);
            marks.marked(Some(&row("1")));
            assert!(!marks.are_undone(None));
        }
        assert!(!marks.are_undone(Some(&row("2"))));
        assert!(!marks.are_undone(Some(&row("1"))), "another one was marked meanwhile");
    }
}
