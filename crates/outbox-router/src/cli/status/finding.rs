//! What `status` reports to a person.

use relay::Failure;

use crate::{
    codes::{Hint, to_type},
    status::ToDo,
};

/// A hint in the JSON output: its text, and the commands in it.
pub(super) fn hint_json(hint: Option<&Hint>) -> (Option<&str>, &[String]) {
    (hint.map(|hint| &**hint), hint.map_or(&[], Hint::commands))
}

/// Something that is wrong, or that a person should know.
pub(super) struct Finding {
    pub(super) code: Option<String>,
    pub(super) message: String,
    /// What to type.
    pub(super) hint: Option<Hint>,
    /// Whether events stand still for it; what only threatens does not stop them.
    pub(super) stops: bool,
}

impl Finding {
    pub(super) fn of(failure: &Failure) -> Self {
        Self {
            code: Some(failure.code.to_string()),
            message: failure.message_with_causes(),
            hint: to_type(failure),
            stops: true,
        }
    }

    /// What threatens, while events flow.
    pub(super) fn of_threat(to_do: ToDo) -> Self {
        let ToDo { code, message, hint } = to_do;
        Self { code: code.map(str::to_owned), message, hint, stops: false }
    }
}
