//! Whether a person is to be called, and why.

use std::collections::BTreeSet;

use relay::Code;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Call {
    codes: BTreeSet<Code>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Nothing was done that must be noticed.
    #[default]
    Allowed,
    /// Something was, and must be noticed even if nothing is missing.
    Due,
    /// A person has come: nobody need be called any more.
    Answered,
}

impl Call {
    /// It would be no mistake to call a person for these reasons.
    pub(super) fn allow(&mut self, codes: &[Code]) {
        self.codes.extend(codes);
    }

    /// A person must be called.
    pub(super) fn demand(&mut self) {
        self.state = State::Due;
    }

    /// A person has come.
    pub(super) fn answer(&mut self) {
        self.state = State::Answered;
    }

    /// Whether a person must be called.
    pub(super) fn is_due(&self) -> bool {
        self.state == State::Due
    }

    /// Whether a person may be called for this reason.
    pub(super) fn allows(&self, code: Code) -> bool {
        self.codes.contains(&code)
    }

    /// Whether nothing was done that a person would have to know of.
    pub(super) fn is_idle(&self) -> bool {
        self.codes.is_empty()
    }
}
