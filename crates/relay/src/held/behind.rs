//! The gap where the table lacks what was written to it.

use super::TableMark;
use crate::{
    failure::{Code, Failure},
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
    /// The gap where the table lacks something of what the witness relies on: writes, or, after
    /// the same writes, open events. Rows of events that were open may be as old as the pipeline,
    /// so the gap has no beginning; `to` is where the witness stands.
    pub fn gap(self, relied_on: TableMark, to: Mark) -> Option<Gap> {
        let Self { mark, events } = self;
        let what = if mark.lacks(relied_on) {
            lost_writes(mark, relied_on)
        } else if mark.version == relied_on.version && events < relied_on.open {
            lost_events(events, relied_on.open)
        } else {
            return None;
        };
        let failure = Failure::new(Code::HeldTableBehind, what);
        Some(Gap::new(failure, Interval { from: None, to }))
    }
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
