//! Marks that are times without a time zone, for people: the router takes them for UTC, and who
//! else writes them may not.

use tokio_postgres::types::Type;

use super::{super::facts::Facts, Marks};

/// A mark of the type `timestamp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonelessMark {
    /// Its column.
    pub column: String,
    /// Who fills it.
    pub filled: FilledBy,
}

/// Who fills a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilledBy {
    /// Writers and other programs, too: when a row may be read, and until when it is taken.
    Others,
    /// The router: when a row was published or given up.
    Router,
}

impl Marks {
    /// Its times without a time zone.
    pub(in super::super) fn zoneless(&self, facts: &Facts) -> Vec<ZonelessMark> {
        let others = [&self.available_at, &self.claim.until, &self.claim.since];
        let own = [&self.time, &self.abandoned_at];
        let others = others.into_iter().flatten().map(|column| (column, FilledBy::Others));
        let own = own.into_iter().flatten().map(|column| (column, FilledBy::Router));
        let is_zoneless = |column: &str| {
            facts.column(column).is_some_and(|column| column.is_of(&[Type::TIMESTAMP]))
        };
        others
            .chain(own)
            .filter(|(column, _)| is_zoneless(column))
            .map(|(column, filled)| ZonelessMark { column: column.clone(), filled })
            .collect()
    }
}
