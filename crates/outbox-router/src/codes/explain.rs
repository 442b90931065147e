//! How a code is explained to a person.

use std::fmt::{self, Write};

use relay::Names;

use super::{explanation::Explanation, template::fill};

/// A remedy without a failure's names: words in capitals stand for them.
pub fn typed(remedy: &str) -> String {
    fill(remedy, &Names::default(), None)
}

/// Writes title, meaning and remedies of a code. Names that only a failure has stand in capitals.
///
/// # Errors
/// Those of `out`.
pub fn explain(explanation: &Explanation, out: &mut dyn Write) -> fmt::Result {
    let Explanation { code, title, meaning, remedy, cases } = explanation;
    writeln!(out, "{code}: {title}\n\n{meaning}")?;
    match (*remedy, cases.is_empty()) {
        ("", true) => writeln!(out, "\nThere is nothing to type."),
        ("", false) => {
            writeln!(out, "\nThere is nothing to type, unless:")?;
            each(explanation, out)
        }
        (remedy, _) => {
            writeln!(out, "\nWhat to type:\n  {}", typed(remedy))?;
            each(explanation, out)
        }
    }
}

fn each(explanation: &Explanation, out: &mut dyn Write) -> fmt::Result {
    explanation
        .cases
        .iter()
        .try_for_each(|case| writeln!(out, "\nIf {}:\n  {}", case.when, typed(case.remedy)))
}
