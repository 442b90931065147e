//! What the parts of a record have in common: positions, marks, and why a record cannot be read.

use pgoutput::Lsn;
use serde::{Deserialize, Serialize};

use crate::source::Mark;

/// The format version that this router writes, and the only one that it reads.
pub(super) const VERSION: u32 = 1;

/// A record that this router does not understand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It has another format version.
    #[error("its format version is {0}, this router knows {VERSION}")]
    Version(u32),
    /// It is not a record of a router.
    #[error("it is no witness of outbox-router: {0}")]
    Malformed(String),
}

#[derive(Serialize, Deserialize)]
pub(super) struct MarkText {
    lsn: String,
    at: Option<String>,
}

impl MarkText {
    pub(super) fn of(mark: &Mark) -> Self {
        Self { lsn: mark.lsn.to_string(), at: mark.at.clone() }
    }

    pub(super) fn read(self) -> Result<Mark, Unreadable> {
        Ok(Mark { lsn: lsn(&self.lsn)?, at: self.at })
    }
}

pub(super) fn lsn(text: &str) -> Result<Lsn, Unreadable> {
    text.parse().map_err(|_| Unreadable::Malformed(format!("{text:?} is no LSN")))
}
