//! What can go wrong, as facts: a code, what happened to which object, the names that a remedy
//! needs, and the error below. What a person should type is no part of it: the product makes that
//! text from code, case and names.

mod case;
mod cause;
mod code;
mod name;

use std::{error::Error, fmt};

use pgoutput::{DecodeError, Lsn};

use self::cause::Cause;
pub use self::{
    case::Case,
    code::{Class, Code},
    name::{Name, Names},
};
use crate::wording::chain;

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The stable code, which mostly decides the class.
    pub code: Code,
    /// Which of the code's remedies fits, where there are several.
    pub case: Option<Case>,
    /// What happened and to which object; begins in lower case, no full stop; never a key or
    /// payload.
    pub message: String,
    /// What the remedy names.
    pub names: Names,
    /// The commit LSN of the transaction concerned, if one is.
    pub lsn: Option<Lsn>,
    cause: Option<Cause>,
    is_of_gap: bool,
}

impl Failure {
    /// A failure that has the code's usual remedy.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            case: None,
            message: message.into(),
            names: Names::default(),
            lsn: None,
            cause: None,
            is_of_gap: false,
        }
    }

    /// A failure of which more is known than its code says.
    pub fn of(case: Case, message: impl Into<String>) -> Self {
        Self { case: Some(case), ..Self::new(case.code(), message) }
    }

    /// A failure that an error describes. The error's text is the message, and its causes are the
    /// failure's.
    pub fn from_error(code: Code, error: impl Error + Send + Sync + 'static) -> Self {
        Self {
            message: error.to_string(),
            cause: Some(Cause::as_message(error)),
            ..Self::new(code, "")
        }
    }

    /// Adds the error that caused it.
    #[must_use]
    pub fn caused_by(mut self, error: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Cause::below(error));
        self
    }

    /// Makes it a failure of which more is known, if there is a case. The case must be one of its
    /// code.
    #[must_use]
    pub fn with_case(mut self, case: impl Into<Option<Case>>) -> Self {
        if let Some(case) = case.into() {
            debug_assert_eq!(self.code, case.code(), "{case:?}");
            self.case = Some(case);
        }
        self
    }

    /// Whether it is the failure of a gap, so that repairing the defect is not enough: a person has
    /// to accept it.
    pub fn is_of_gap(&self) -> bool {
        self.is_of_gap
    }

    /// Makes it the failure of a gap that begins at this position.
    #[must_use]
    pub(crate) fn of_gap(mut self, begins_at: Lsn) -> Self {
        (self.is_of_gap, self.lsn) = (true, Some(begins_at));
        self
    }

    /// Adds a name that the remedy contains.
    #[must_use]
    pub fn naming(mut self, name: Name, value: impl fmt::Display) -> Self {
        self.names.set(name, value.to_string());
        self
    }

    /// Adds the commit LSN of the transaction concerned.
    #[must_use]
    pub fn at(mut self, lsn: Lsn) -> Self {
        self.lsn = Some(lsn);
        self
    }

    /// What follows from it: what follows from its code, except that a session which does not know
    /// a label ends, since the next one reads the labels again.
    pub fn class(&self) -> Class {
        match self.case {
            Some(Case::FilterLabel) => Class::Replay,
            Some(_) | None => self.code.class(),
        }
    }

    /// Whether it is only reported and stops nothing.
    pub fn is_note(&self) -> bool {
        self.class() == Class::Note
    }

    /// The message, followed by the chain of causes.
    pub fn message_with_causes(&self) -> String {
        match self.source() {
            Some(cause) => format!("{}: {}", self.message, chain(cause)),
            None => self.message.clone(),
        }
    }

    /// The same failure as text alone, as the witness keeps it: the causes are part of the message.
    #[must_use]
    pub(crate) fn flattened(mut self) -> Self {
        self.message = self.message_with_causes();
        self.cause = None;
        self
    }
}

/// Code and message; with `{:#}` also the chain of causes.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if let Some(lsn) = self.lsn {
            write!(f, " (at {lsn})")?;
        }
        match self.source() {
            Some(cause) if f.alternate() => write!(f, ": {}", chain(cause)),
            Some(_) | None => Ok(()),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().and_then(Cause::error)
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::from_error(Code::Protocol, error)
    }
}

impl From<&DecodeError> for Failure {
    fn from(error: &DecodeError) -> Self {
        Self::from(*error)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn refused() -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionRefused, "refused")
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect to PostgreSQL at db:5432")]
    struct Unreachable(#[source] io::Error);

    #[test]
    fn an_error_that_describes_a_failure_is_not_its_own_cause() {
        let failure = Failure::from_error(Code::ServerUnreachable, Unreachable(refused()));
        assert_eq!(failure.to_string(), "P001: cannot connect to PostgreSQL at db:5432");
        assert_eq!(failure.source().unwrap().to_string(), "refused");
        assert_eq!(chain(&failure), "P001: cannot connect to PostgreSQL at db:5432: refused");
    }

    #[test]
    fn the_chain_of_causes_is_reached_to_the_bottom() {
        let failure =
            Failure::new(Code::ServerUnreachable, "no stream").caused_by(Unreachable(refused()));
        let cause = failure.source().unwrap();
        assert_eq!(cause.source().unwrap().to_string(), "refused");
        let text = "no stream: cannot connect to PostgreSQL at db:5432: refused";
        assert_eq!(failure.message_with_causes(), text);
        let flat = failure.flattened();
        assert_eq!((flat.message.as_str(), flat.source().is_none()), (text, true));
    }

    #[test]
    fn failures_with_other_causes_are_not_the_same() {
        let failure = |text| {
            let error = io::Error::other(text);
            Failure::new(Code::ServerUnreachable, "broken").caused_by(error)
        };
        assert_eq!(failure("reset"), failure("reset"));
        assert_ne!(failure("reset"), failure("timed out"));
    }

    #[test]
    fn the_alternate_form_shows_the_causes() {
        let failure = Failure::new(Code::ServerUnreachable, "broken").caused_by(refused());
        assert_eq!(format!("{failure}"), "P001: broken");
        assert_eq!(format!("{failure:#}"), "P001: broken: refused");
    }
}
