//! One entry of the tables.

use relay::{Case, Class, Code};

/// What is to be known of a code: its entry in the tables.
#[derive(Debug)]
pub struct Explanation {
    /// The code: a letter and three digits.
    pub code: &'static str,
    /// The code in a few words.
    pub title: &'static str,
    /// What has happened, and what the router does.
    pub meaning: &'static str,
    /// What to type or to look at, unless a case applies.
    pub remedy: &'static str,
    /// Cases with remedies of their own.
    pub cases: &'static [CaseRemedy],
}

impl Explanation {
    /// What follows from a failure of the code; `None` for a code of the configuration.
    pub fn class(&self) -> Option<Class> {
        Code::parse(self.code).map(Code::class)
    }
}

/// A case of a code.
#[derive(Debug)]
pub struct CaseRemedy {
    /// The case.
    pub case: Case,
    /// When it applies, as the end of a sentence that begins with "if".
    pub when: &'static str,
    /// What to type or to look at.
    pub remedy: &'static str,
}

pub(super) const fn case_remedy(
    case: Case,
    when: &'static str,
    remedy: &'static str,
) -> CaseRemedy {
    CaseRemedy { case, when, remedy }
}
