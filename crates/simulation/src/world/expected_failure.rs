//! Whether a router may, or must, ask for a person's action, and for which reasons.

use std::collections::BTreeSet;

use relay::Code;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct ExpectedFailure {
    codes: BTreeSet<Code>,
    state: Expectation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expectation {
    /// No fault was injected that must be noticed.
    #[default]
    Optional,
    /// A fault was injected that must be noticed even if no event is missing.
    Required,
    /// A person has come: no router has to ask for one any more.
    Resolved,
}

impl ExpectedFailure {
    /// From now on a router may ask for a person for these reasons.
    pub(super) fn allow(&mut self, codes: &[Code]) {
        self.codes.extend(codes);
    }

    /// From now on a router must ask for a person.
    pub(super) fn require(&mut self) {
        self.state = Expectation::Required;
    }

    /// A person has come.
    pub(super) fn resolve(&mut self) {
        self.state = Expectation::Resolved;
    }

    /// Whether a router must ask for a person.
    pub(super) fn is_required(&self) -> bool {
        self.state == Expectation::Required
    }

    /// Whether a router may ask for a person for this reason.
    pub(super) fn allows(&self, code: Code) -> bool {
        self.codes.contains(&code)
    }

    /// Whether no fault was injected that a person has to know of.
    pub(super) fn allows_nothing(&self) -> bool {
        self.codes.is_empty()
    }
}
