//! What was found about an event, before it is judged.

use relay::{Failure, Lsn, TableName, TopicName, source::Gap};

use super::{
    search::{Ending, FoundRecord},
    wanted::Wanted,
    whose,
};
use crate::{
    cli::{
        dead_letters::{DecidedBy, HeldEvent},
        explain_row::{EventRow, Placement},
        status::{Flow, OpenGap, Summary},
    },
    kafka::Retention,
    polling::sql::{RowMarks, RowState},
};

/// An event that is looked for.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// Its id, as its table writes it.
    pub(super) id: String,
    pub(super) table: Option<TableName>,
    /// The column of its table with the time at which a row was written.
    pub(super) time_column: Option<String>,
    /// The number of its table among those that are looked at.
    pub(super) of: Option<usize>,
    pub(super) row: Option<EventRow>,
    /// What becomes of the row, by the configuration.
    pub(super) placement: Option<Placement>,
    pub(super) held: Option<HeldEvent>,
    /// The LSN of a decision to skip it, and who decided.
    pub(super) skip: Option<(String, DecidedBy)>,
    /// A record with its id and its key.
    pub(super) found: Option<FoundRecord>,
    /// A record with its id, and with another key than the row's, or than the named one.
    pub(super) of_another_key: Option<FoundRecord>,
    /// The last record with its id and key, and with another value than the row's, and how many
    /// such records were read.
    pub(super) of_other_content: Option<(FoundRecord, u64)>,
    /// Of an event that was found, and whose id may be that of another row: why the record may be
    /// of that row.
    pub(super) doubt: Option<Doubt>,
    /// How the search in its partition ended.
    pub(super) ending: Option<Ending>,
    /// What its own marks say; `None` where rows are streamed, or its record was found before.
    pub(super) mark: Option<Mark>,
    /// Whether the row is not sent again: it is proved that the slot has confirmed it, or it is
    /// marked as published.
    pub(super) is_confirmed: bool,
    pub(super) topic: Option<TopicState>,
    /// The table that a person has named, so that no other was looked in.
    pub(super) asked: Option<TableName>,
    /// The key that a person has named; of an event without a row, its record has to have it.
    pub(super) asked_key: Option<String>,
    /// Of an event without a row: other tables whose rows may go to the topic of the found record.
    pub(super) others: Vec<TableName>,
}

/// Why a record may be of a former row with the id.
#[derive(Debug, Clone)]
pub(super) enum Doubt {
    /// The row's transaction may have committed in this gap, which is open.
    Gap(Box<Gap>),
    /// Whether a gap is open is not known.
    Unknown(Box<Failure>),
}

/// What the marks of a polled row say.
#[derive(Debug, Clone)]
pub(super) enum Mark {
    /// The row has these.
    Row(RowMarks),
    /// It is not marked as published, and no worker takes it: the table is handed to the stream.
    Unpolled(Box<Failure>),
    /// The row has left its table since it was read.
    Gone,
    /// They cannot be read.
    Unreadable(Box<Failure>),
}

/// What a topic has of the time of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicState {
    pub(super) name: TopicName,
    /// The first offset of the event's partition that is not deleted.
    pub(super) low: i64,
    pub(super) left: Left,
    /// How long ago the event was written.
    pub(super) age_ms: i64,
    pub(super) retention: Retention,
}

/// What a topic has left, beside an event's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The event's partition has a record that is as old.
    AsOld,
    /// Every record of the event's partition is younger.
    Younger,
    /// Every record of every partition is younger, and none was ever deleted.
    AllYounger,
}

/// How the stream is, for events that were not found.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) summary: Summary,
    /// The slot's `confirmed_flush_lsn`.
    pub(super) confirmed: Option<Lsn>,
    /// The open gaps, with their intervals in milliseconds since 1970.
    pub(super) gaps: Vec<(Interval, OpenGap)>,
}

/// Times that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
}

/// A time of a gap is written without its fraction of the second.
const FRACTION_MS: i64 = 999;

/// What says when an event was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TimeOrigin {
    /// The server's commit timestamp.
    Server,
    /// The table of held events.
    Held,
    /// The record's timestamp, which is the commit time.
    Record,
    /// A column of the row: the transaction committed no earlier.
    Row,
}

impl Event {
    /// About when it was committed.
    pub(super) fn time_ms(&self) -> Option<i64> {
        let row = self.row.as_ref()?;
        row.committed_ms.or(row.written_ms)
    }

    /// From when on its record may be in the topic.
    pub(super) fn record_ms(&self) -> Option<i64> {
        let placed = match &self.placement {
            Some(Placement::Record(placed)) => placed.time_ms,
            _ => None,
        };
        // A broker that sets its own time stores it by that.
        [placed, self.time_ms()].into_iter().flatten().min()
    }

    /// Whether its record carries the commit time.
    pub(super) fn has_commit_time(&self) -> bool {
        matches!(&self.placement, Some(Placement::Record(placed)) if placed.is_commit_time)
    }

    /// The record that is the event's.
    pub(super) fn record(&self) -> Option<&FoundRecord> {
        let found = self.found.as_ref();
        found.or_else(|| self.under_other_content()).or_else(|| self.under_another_key())
    }

    /// The row's record under another key than it would get now: what makes the key may have been
    /// changed since the row was sent, and a record with its UUID is nobody else's. A polled row
    /// that is not marked as published is still to be sent, so that it has no record yet.
    pub(super) fn under_another_key(&self) -> Option<&FoundRecord> {
        let is_to_come = self.mark.is_some() && !self.is_confirmed;
        let is_it = self.row.is_some() && self.found.is_none() && !is_to_come;
        self.of_another_key.as_ref().filter(|_| is_it && whose::is_unique(&self.id))
    }

    /// The same for a record with other content.
    pub(super) fn under_other_content(&self) -> Option<&FoundRecord> {
        let is_to_come = self.mark.is_some() && !self.is_confirmed;
        let is_it = self.row.is_some() && self.found.is_none() && !is_to_come;
        let record = self.of_other_content.as_ref().map(|(record, _)| record);
        record.filter(|_| is_it && whose::is_unique(&self.id))
    }

    /// By what its record is known; `None` where it has no id, or there is no record.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        match &self.placement {
            Some(Placement::Record(placed)) => {
                let (id, key) = (placed.id.clone()?, Some(placed.key.clone()));
                Some(Wanted { id, key, value: Some(placed.value.clone().unwrap_or_default()) })
            }
            _ => None,
        }
    }
}

impl Mark {
    /// Whether no worker sends the row any more, as if it were published.
    pub(super) fn is_passed(&self) -> bool {
        match self {
            Self::Row(marks) => marks.state == RowState::Published,
            Self::Gone => true,
            Self::Unpolled(_) | Self::Unreadable(_) => false,
        }
    }
}

impl TopicState {
    /// Whether records of the event's time are deleted from its partition.
    pub(super) fn is_trimmed(&self) -> bool {
        self.low > 0 && self.left == Left::Younger
    }
}

impl Stream {
    /// The open gap in which a row of this time lies. Where there is no slot, nothing after the
    /// interval is kept, either.
    pub(super) fn gap_of(&self, time: Option<i64>) -> Option<&OpenGap> {
        let time = time?;
        let holds = |interval: &Interval| {
            let is_open = self.summary.flow == Flow::NoSlot;
            interval.from.is_none_or(|from| from <= time)
                && (is_open || interval.to.is_none_or(|to| time <= to.saturating_add(FRACTION_MS)))
        };
        self.gaps.iter().find(|(interval, _)| holds(interval)).map(|(_, gap)| gap)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row that says when it was written.
    pub(in super::super) fn row(written_ms: Option<i64>) -> EventRow {
        EventRow::without_columns(7, written_ms)
    }

    #[test]
    fn the_time_of_a_commit_counts_before_that_of_a_column() {
        let mut row = row(Some(5));
        row.committed_ms = Some(9);
        let event = Event { row: Some(row), ..Event::default() };
        assert_eq!((event.time_ms(), event.record_ms()), (Some(9), Some(9)));
        assert_eq!(Event::default().time_ms(), None);
    }
}
