//! What `status` reports to a person.

/// Something that is wrong, or that a person should know.
pub(super) struct Finding {
    pub(super) code: Option<String>,
    pub(super) message: String,
    /// What to type.
    pub(super) hint: Option<String>,
}
