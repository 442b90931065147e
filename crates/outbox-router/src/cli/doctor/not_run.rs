//! Why a check was not run.

use relay::Failure;

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotRun(pub(super) String);

impl From<&Failure> for NotRun {
    fn from(failure: &Failure) -> Self {
        Self(failure.to_string())
    }
}
