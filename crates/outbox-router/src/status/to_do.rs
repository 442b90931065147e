//! What a person has to do, as verdict, page, `/status.json` and `outbox-router status` show it.

use relay::{Failure, source::Gap, witness::LostTopic};

use crate::codes::{Hint, to_type, to_type_of_open};

/// What a person has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToDo {
    /// The code of what is wrong, if it has one.
    pub code: Option<&'static str>,
    /// What is wrong.
    pub message: String,
    /// What to type; `None` where nothing helps but waiting.
    pub hint: Option<Hint>,
}

impl ToDo {
    /// About a failure.
    pub(crate) fn of(failure: &Failure) -> Self {
        let code = Some(failure.code.as_str());
        Self { code, message: failure.message_with_causes(), hint: to_type(failure) }
    }

    /// About a topic that is gone with its events.
    pub(super) fn of_lost_topic(lost: &LostTopic) -> Self {
        let finding = lost.finding();
        Self { hint: to_type_of_open(&finding, &lost.name()), ..Self::of(&finding) }
    }

    /// About an open gap, whose name the commands take.
    pub(super) fn of_gap(gap: &Gap) -> Self {
        Self { hint: to_type_of_open(&gap.failure, &gap.name()), ..Self::of(&gap.failure) }
    }
}
