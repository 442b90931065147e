//! The error below a failure.

use std::{error::Error, fmt, sync::Arc};

use crate::wording::chain;

/// An error, shared so that a failure can be cloned.
#[derive(Clone)]
pub(super) struct Cause {
    error: Arc<dyn Error + Send + Sync>,
    /// Whether the failure's message is this error's text. Then the failure's cause is this
    /// error's.
    is_message: bool,
}

impl Cause {
    pub(super) fn below(error: impl Error + Send + Sync + 'static) -> Self {
        Self { error: Arc::new(error), is_message: false }
    }

    pub(super) fn as_message(error: impl Error + Send + Sync + 'static) -> Self {
        Self { error: Arc::new(error), is_message: true }
    }

    pub(super) fn error(&self) -> Option<&(dyn Error + 'static)> {
        if self.is_message { self.error.source() } else { Some(&*self.error) }
    }

    fn text(&self) -> Option<String> {
        self.error().map(chain)
    }
}

/// Compares the texts: what reads the same is logged once.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Cause {}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
