//! How the tables say what becomes of a name.

/// What becomes of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Verdict {
    /// Nothing needs to be set, for this reason.
    Same(&'static str),
    /// What the router does instead.
    Different(&'static str),
    /// Why the router cannot do it.
    Unsupported(&'static str),
}

/// What becomes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Fate {
    /// A translation takes it and writes this key.
    Carried(&'static str),
    /// The same for every value.
    Always(Verdict),
    /// For these values the first, for all others the second.
    ByValue(&'static [&'static str], Verdict, Verdict),
}

/// Names with one fate. A name that ends in `*` stands for all that begin like it.
#[derive(Debug)]
pub(in super::super) struct Rule {
    pub(in super::super) names: &'static [&'static str],
    pub(super) fate: Fate,
}

pub(super) const fn carried(key: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, fate: Fate::Carried(key) }
}

pub(super) const fn same(because: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, fate: Fate::Always(Verdict::Same(because)) }
}

pub(super) const fn different(how: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, fate: Fate::Always(Verdict::Different(how)) }
}

pub(super) const fn unsupported(why: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { names, fate: Fate::Always(Verdict::Unsupported(why)) }
}

pub(super) const fn by_value(
    names: &'static [&'static str],
    values: &'static [&'static str],
    then: Verdict,
    otherwise: Verdict,
) -> Rule {
    Rule { names, fate: Fate::ByValue(values, then, otherwise) }
}

impl Fate {
    /// What becomes of this value; `None` where a translation decides.
    pub(in super::super) fn of(self, value: &str) -> Option<Verdict> {
        match self {
            Self::Carried(_) => None,
            Self::Always(verdict) => Some(verdict),
            Self::ByValue(values, then, otherwise) => {
                let is_one = values.iter().any(|known| known.eq_ignore_ascii_case(value));
                Some(if is_one { then } else { otherwise })
            }
        }
    }
}
