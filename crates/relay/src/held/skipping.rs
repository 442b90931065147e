//! The row at which the session waits, and whether a person has decided to skip it.

use std::time::Duration;

use super::{EventId, HeldRequest};
use crate::clock::Moment;

/// How often the table is asked.
const READ_EVERY: Duration = Duration::from_secs(5);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Skipping {
    waits_at: Option<WaitingRow>,
    /// A row that a person has decided to skip.
    skip: Option<EventId>,
}

#[derive(Debug)]
struct WaitingRow {
    id: EventId,
    event_id: Option<String>,
    table: String,
    ask_at: Moment,
}

impl Skipping {
    /// The session waits at this row of a table.
    pub(crate) fn waits_at(
        &mut self,
        id: EventId,
        (table, event_id): (String, Option<String>),
        at: Moment,
    ) {
        if self.waits_at.as_ref().is_none_or(|waiting| waiting.id != id) {
            self.waits_at = Some(WaitingRow { id, event_id, table, ask_at: at });
        }
    }

    /// A row was taken: the session waits at none.
    pub(crate) fn goes_on(&mut self) {
        self.waits_at = None;
    }

    /// Whether no row is to be skipped.
    pub(crate) fn is_idle(&self) -> bool {
        self.skip.is_none()
    }

    /// Whether a person has decided to skip this row. It is asked for once.
    pub(crate) fn takes(&mut self, id: EventId) -> bool {
        self.skip.take_if(|skip| *skip == id).is_some()
    }

    /// When the table is to be asked; `None` while the session waits at no row.
    pub(crate) fn due_at(&self) -> Option<Moment> {
        self.waits_at.as_ref().map(|waiting| waiting.ask_at)
    }

    /// What to ask, if it is due.
    pub(crate) fn request(&self, at: Moment) -> Option<HeldRequest> {
        let waiting = self.waits_at.as_ref().filter(|waiting| waiting.ask_at <= at)?;
        let WaitingRow { id, event_id, table, .. } = waiting;
        let (event_id, table) = (event_id.clone(), table.clone());
        Some(HeldRequest::ReadSkip { id: *id, event_id, table })
    }

    /// The table has answered: it is asked again later.
    pub(crate) fn answered(&mut self, at: Moment) {
        if let Some(waiting) = &mut self.waits_at {
            waiting.ask_at = at + READ_EVERY;
        }
    }

    /// A person has decided to skip the row. Returns whether the session still waits at it.
    pub(crate) fn decided(&mut self) -> bool {
        self.skip = self.waits_at.as_ref().map(|waiting| waiting.id);
        self.skip.is_some()
    }
}
