//! Marks that are times without a time zone, for people: the router takes them for UTC, and who
//! else writes them may not.

use tokio_postgres::types::Type;

use super::{super::facts::Facts, Marks};

impl Marks {
    /// Its times without a time zone that writers and other programs fill, too: when a row may be
    /// read, and until when it is claimed. When it was published and abandoned the router writes.
    pub(in super::super) fn zoneless(&self, facts: &Facts) -> Vec<String> {
        let filled = [&self.available_at, &self.claim.until, &self.claim.since];
        let is_found = |name: &&String| {
            facts.column(name).is_some_and(|column| {
                let default = column.default.as_deref();
                column.is_of(&[Type::TIMESTAMP]) && !default.is_some_and(is_in_utc)
            })
        };
        filled.into_iter().flatten().filter(is_found).cloned().collect()
    }
}

/// Whether a default, as `pg_get_expr` prints it, is the time of UTC: its author knows of zones.
fn is_in_utc(default: &str) -> bool {
    let default = default.to_ascii_lowercase();
    ["at time zone 'utc'", "timezone('utc'"].iter().any(|form| default.contains(form))
}
