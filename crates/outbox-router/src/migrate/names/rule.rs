//! How the tables say what becomes of a name.

/// What the router does of a property's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Outcome {
    /// Nothing needs to be set, for this reason.
    Same(&'static str),
    /// What the router does instead.
    Different(&'static str),
    /// Why the router cannot do it.
    Unsupported(&'static str),
}

/// How a name is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Treatment {
    /// A translation takes it and writes this key.
    Carried(&'static str),
    /// The same for every value.
    Always(Outcome),
    /// For these values the first, for all others the second.
    ByValue(&'static [&'static str], Outcome, Outcome),
}

/// Names with one treatment. A name that ends in `*` stands for all that begin like it.
#[derive(Debug)]
pub(in super::super) struct Rule {
    pub(in super::super) names: &'static [&'static str],
    pub(super) treatment: Treatment,
}

pub(super) const fn carried(key: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, treatment: Treatment::Carried(key) }
}

pub(super) const fn same(because: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, treatment: Treatment::Always(Outcome::Same(because)) }
}

pub(super) const fn different(how: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, treatment: Treatment::Always(Outcome::Different(how)) }
}

pub(super) const fn unsupported(why: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, treatment: Treatment::Always(Outcome::Unsupported(why)) }
}

pub(super) const fn by_value(
    names: &'static [&'static str],
    values: &'static [&'static str],
    then: Outcome,
    otherwise: Outcome,
) -> Rule {
    Rule { names, treatment: Treatment::ByValue(values, then, otherwise) }
}

impl Treatment {
    /// What becomes of this value; `None` where a translation decides.
    pub(in super::super) fn of(self, value: &str) -> Option<Outcome> {
        match self {
            Self::Carried(_) => None,
            Self::Always(outcome) => Some(outcome),
            Self::ByValue(values, then, otherwise) => {
                let is_one = values.iter().any(|known| known.eq_ignore_ascii_case(value));
                Some(if is_one { then } else { otherwise })
            }
        }
    }
}
