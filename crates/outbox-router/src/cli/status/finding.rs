//! What `status` reports to a person.

use relay::Failure;

use crate::codes::hint;

/// Something that is wrong, or that a person should know.
pub(super) struct Finding {
    pub(super) code: Option<String>,
    pub(super) message: String,
    /// What to type.
    pub(super) hint: Option<String>,
}

impl Finding {
    pub(super) fn of(failure: &Failure) -> Self {
        Self {
            code: Some(failure.code.to_string()),
            message: failure.message_with_causes(),
            hint: hint(failure),
        }
    }
}
