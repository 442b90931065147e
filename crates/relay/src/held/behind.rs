//! The check that the table of held events is there, and lacks no write and no open event.

use super::TableMark;
use crate::{
    failure::{Case, Code, Failure},
    source::{Gap, Interval, Mark},
};

/// What this pipeline has in a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableReading {
    /// What the writes have recorded.
    pub mark: TableMark,
    /// How many events are open.
    pub events: u64,
}

impl TableReading {
    /// The gap where the table lacks something of what the witness relies on: writes, or open
    /// events that its writes have counted. Rows of events that were open may be as old as the
    /// pipeline, so the gap has no beginning; `to` is where the witness stands. A witness that
    /// relies on no write, as the one after an acceptance, misses nothing: the session counts the
    /// events ([`super::OpenCount`]).
    pub fn gap(self, relied_on: TableMark, to: Mark) -> Option<Gap> {
        Some(Gap::new(self.lost(relied_on)?, Interval { from: None, to }))
    }

    fn lost(self, relied_on: TableMark) -> Option<Failure> {
        let Self { mark, events } = self;
        relied_on.version?;
        let what = if mark.lacks(relied_on) {
            lost_writes(mark, relied_on)
        } else if events < mark.open {
            lost_events(events, mark.open)
        } else {
            return None;
        };
        Some(Failure::new(Code::HeldTableBehind, what))
    }
}

/// The result of a look at the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFound {
    /// There is none. What its writes have recorded beside it may be there still.
    Absent(TableMark),
    /// It is there, and this role may not read it.
    Hidden,
    /// It was read.
    Read(TableReading),
}

impl TableFound {
    /// The reading, where there is one.
    #[must_use]
    pub const fn reading(self) -> Option<TableReading> {
        match self {
            Self::Absent(_) | Self::Hidden => None,
            Self::Read(reading) => Some(reading),
        }
    }

    /// Checks that there is a table where events were open in one, and that its rows are seen. Who
    /// goes on without them would take those events for delivered: nothing but the table has them.
    /// `relied_on` is what the witness has.
    ///
    /// # Errors
    /// [`Code::HeldTable`]: there is none. [`Case::CommandDenied`]: this role may not read it.
    pub fn check_there(self, relied_on: TableMark) -> Result<(), Failure> {
        match self {
            Self::Absent(left) => check_absent(relied_on.open.max(left.open)),
            Self::Hidden if relied_on.open > 0 => self.check_seen(),
            Self::Hidden | Self::Read(_) => Ok(()),
        }
    }

    /// Checks that this role may read the table, where nothing says whether events are open in it.
    ///
    /// # Errors
    /// [`Case::CommandDenied`]: it may not.
    pub fn check_seen(self) -> Result<(), Failure> {
        match self {
            Self::Hidden => {
                let what = "the role may not see which events are held: grant usage on schema \
                            outbox_router, and select on outbox_router.held and \
                            outbox_router.held_version, to it";
                Err(Failure::of(Case::CommandDenied, what))
            }
            Self::Absent(_) | Self::Read(_) => Ok(()),
        }
    }

    /// The same, and that the table lacks nothing of what the mark shows that it had.
    ///
    /// # Errors
    /// [`Code::HeldTable`], or [`Code::HeldTableBehind`]: it lacks something.
    pub fn check_whole(self, relied_on: TableMark) -> Result<(), Failure> {
        self.check_there(relied_on)?;
        self.reading().and_then(|reading| reading.lost(relied_on)).map_or(Ok(()), Err)
    }
}

fn check_absent(open: u64) -> Result<(), Failure> {
    if open == 0 {
        return Ok(());
    }
    Err(absent(&format!("it had {open} open events")))
}

/// The failure of a table that has to be there, and why it has to.
pub(crate) fn absent(why: &str) -> Failure {
    Failure::new(Code::HeldTable, format!("the table outbox_router.held does not exist; {why}"))
}

fn lost_writes(mark: TableMark, relied_on: TableMark) -> String {
    let (has, cause) = match (mark.version, relied_on.version) {
        (None, _) => (
            "has none of this pipeline's writes".to_owned(),
            "it was made again, or a restored backup or a promotion lost them",
        ),
        (Some(has), Some(needs)) if has.origin == needs.origin => (
            format!("has this pipeline's writes up to {}", has.writes),
            "a restored backup or a promotion lost the others",
        ),
        (Some(_), _) => {
            ("is another table than this pipeline has written to".to_owned(), "it was made again")
        }
    };
    let needs = relied_on.version.map_or(0, |version| version.writes);
    let open = relied_on.open;
    format!(
        "outbox_router.held {has}, and the slot relies on write {needs}, after which {open} events \
         were open in it: {cause}"
    )
}

fn lost_events(there: u64, open: u64) -> String {
    format!(
        "outbox_router.held has {there} of the {open} open events that it should have: somebody \
         else has removed the others"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::TableVersion;

    fn mark(writes: u64, open: u64) -> TableMark {
        TableMark { version: Some(TableVersion { origin: 7, writes }), open }
    }

    fn code(checked: Result<(), Failure>) -> Option<Code> {
        checked.err().map(|failure| failure.code)
    }

    #[test]
    fn without_the_table_nothing_was_open_by_the_witness_and_by_what_is_left_beside_it() {
        let none = TableMark::default();
        let absent = |left, relied_on| code(TableFound::Absent(left).check_there(relied_on));
        let hidden = |relied_on| code(TableFound::Hidden.check_there(relied_on));
        assert_eq!(hidden(mark(4, 0)), None, "no event is open");
        assert_eq!(hidden(mark(4, 1)), Some(Code::AuthenticationFailed));
        assert_eq!(absent(none, none), None, "there was never a table");
        assert_eq!(absent(mark(4, 0), mark(4, 0)), None, "every event has left it");
        assert_eq!(absent(none, mark(4, 1)), Some(Code::HeldTable));
        assert_eq!(absent(mark(4, 1), none), Some(Code::HeldTable), "no witness is kept");
        assert_eq!(code(TableFound::Absent(none).check_whole(mark(4, 1))), Some(Code::HeldTable));
    }

    #[test]
    fn a_table_that_was_made_again_is_there_and_not_whole() {
        let again = TableReading::default();
        assert_eq!(code(TableFound::Read(again).check_there(mark(4, 1))), None);
        let lacks = code(TableFound::Read(again).check_whole(mark(4, 1)));
        assert_eq!(lacks, Some(Code::HeldTableBehind));
        let whole = TableReading { mark: mark(4, 1), events: 1 };
        assert_eq!(code(TableFound::Read(whole).check_whole(mark(4, 1))), None);
        let emptied = TableReading { events: 0, ..whole };
        let lacks = code(TableFound::Read(emptied).check_whole(mark(4, 1)));
        assert_eq!(lacks, Some(Code::HeldTableBehind));
    }

    #[test]
    fn a_removed_event_is_missed_after_later_writes_until_a_person_accepts_that_it_is_gone() {
        let removed = TableFound::Read(TableReading { mark: mark(5, 2), events: 1 });
        let lacks = code(removed.check_whole(mark(4, 1)));
        assert_eq!(lacks, Some(Code::HeldTableBehind), "the witness is a write behind");
        assert_eq!(code(removed.check_whole(TableMark::default())), None, "accepted");
    }
}
