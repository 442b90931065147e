//! What is told to a person.

/// Something that is wrong.
pub(super) struct Finding {
    pub(super) code: Option<String>,
    pub(super) message: String,
    /// What to type.
    pub(super) hint: Option<String>,
}
