//! Rows that come again although they were marked: a trigger that acts after the statement changes
//! their marks back, which the statement cannot see.

use relay::polling::RowId;

/// A person may make the row pending that was marked last, and hardly twice in a row.
const TIMES: u32 = 2;

/// Of a table: whether the first row of each batch is again and again the one that was marked.
#[derive(Debug, Default)]
pub(super) struct UndoneMarks {
    /// The first of the rows that were marked last.
    first: Option<RowId>,
    /// Whether it was marked since it was counted last.
    counted: Counted,
    /// How often it was the first that was read after it was marked.
    times: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Counted {
    #[default]
    Yes,
    NotYet,
}

impl UndoneMarks {
    /// A batch was marked, with this row first.
    pub(super) fn marked(&mut self, first: Option<&RowId>) {
        if let Some(first) = first {
            self.first = Some(first.clone());
            self.counted = Counted::NotYet;
        }
    }

    /// The table may be mended: the row is sent once more to find out.
    pub(super) fn described(&mut self) {
        self.times = self.times.min(TIMES - 1);
    }

    /// A batch was read, with this row first. Whether that is the one which was marked, once more.
    pub(super) fn are_undone(&mut self, first: Option<&RowId>) -> bool {
        let Some(first) = first else { return false };
        if self.first.as_ref() != Some(first) {
            self.times = 0;
            return false;
        }
        match std::mem::replace(&mut self.counted, Counted::Yes) {
            Counted::Yes => false,
            Counted::NotYet => {
                self.times += 1;
                self.times >= TIMES
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> RowId {
        RowId([Box::from(id)].into())
    }

    /// Reads and marks these rows, each alone.
    fn read(marks: &mut UndoneMarks, ids: &[&str]) -> Vec<bool> {
        let one = |id: &&str| {
            let is_undone = marks.are_undone(Some(&row(id)));
            assert!(!marks.are_undone(Some(&row(id))), "read again, and not marked in between");
            if !is_undone {
                marks.marked(Some(&row(id)));
            }
            is_undone
        };
        ids.iter().map(one).collect()
    }

    #[test]
    fn a_row_may_come_again_once() {
        let mut marks = UndoneMarks::default();
        assert_eq!(read(&mut marks, &["1", "1", "2", "1", "1"]), [false; 5]);
        assert_eq!(read(&mut marks, &["1"]), [true]);
    }

    #[test]
    fn after_each_description_the_row_is_sent_once() {
        let mut marks = UndoneMarks::default();
        assert_eq!(read(&mut marks, &["1", "1", "1"]), [false, false, true]);
        for _ in 0..3 {
            marks.described();
            assert_eq!(read(&mut marks, &["1", "1"]), [false, true]);
        }
        marks.described();
        assert_eq!(read(&mut marks, &["1", "2", "3"]), [false; 3]);
    }
}
