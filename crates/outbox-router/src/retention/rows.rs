//! The statements that remove rows.

use std::time::Duration;

use relay::delivered::{Covered, DeliveredRows, EventPart, FullXid};

use super::{
    events::has_event_sql,
    session::Session,
    target::{RowLocks, Target},
    time::TimeColumn,
};
use crate::postgres::quote_table;

/// Which rows of a table may be removed.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    pub(super) target: &'a Target,
    /// The proof: its rows were sent.
    pub(super) delivered: &'a DeliveredRows,
    pub(super) keep: Duration,
}

/// What the statement counted.
pub(super) struct Counted {
    pub(super) candidates: u64,
    pub(super) covered: u64,
    pub(super) removed: u64,
    pub(super) last: Option<String>,
}

impl Rule<'_> {
    /// Whether the row's transaction is confirmed.
    pub(super) fn is_covered(&self) -> String {
        covered_sql(self.delivered.covered(), "t.xmin", NEXT)
    }

    /// Whether the row was written when its table was an outbox.
    pub(super) fn is_event(&self) -> String {
        is_event_sql(self.delivered.parts(), &self.target.time)
    }

    /// Whether the row is old enough.
    pub(super) fn is_old(&self) -> String {
        let time = &self.target.time;
        format!("t.{} < {}", time.quoted(), time.ago(self.keep))
    }

    /// Whether the row's event is open, or was left out.
    pub(super) fn is_held(&self) -> &str {
        &self.target.is_held
    }

    /// Removes the covered ones of these candidates: a query of `tableoid`, `ctid`, what the
    /// sweep goes on from, and [`Self::is_covered`], named `o`, `c`, `at` and `covered`. Answers
    /// with their number, how many are covered, how many were removed, and the greatest `at`.
    ///
    /// A row is known by its place: `ctid` is another one as soon as somebody has updated the row.
    pub(super) fn remove(&self, candidates: &str) -> String {
        let table = self.target.quoted();
        let picked = match self.target.locks {
            RowLocks::Skipped => format!(
                "select t.tableoid as o, t.ctid as c from candidate k \
                 join {table} t on t.tableoid = k.o and t.ctid = k.c \
                 where k.covered for update of t skip locked"
            ),
            RowLocks::WaitedFor => "select o, c from candidate where covered".to_owned(),
        };
        let (returned, kept) = match &self.target.archive {
            None => ("1".to_owned(), String::new()),
            Some(archive) => {
                let of_row: Vec<String> =
                    archive.columns.iter().map(|column| format!("t.{column}")).collect();
                let columns = archive.columns.join(", ");
                let insert = format!(
                    ", kept as (insert into {} ({columns}) select {columns} from gone returning 1)",
                    quote_table(&archive.table)
                );
                (of_row.join(", "), insert)
            }
        };
        let archived = if kept.is_empty() { "gone" } else { "kept" };
        format!(
            "with candidate as materialized ({candidates}), picked as materialized ({picked}), \
             gone as (delete from {table} t using picked p \
               where t.tableoid = p.o and t.ctid = p.c returning {returned}){kept} \
             select (select count(*) from candidate), \
               (select count(*) from candidate where covered), \
               (select count(*) from gone), (select count(*) from {archived}), \
               (select max(at) from candidate), pg_backend_pid()"
        )
    }
}

/// The next transaction's `xid8`: an id that none has yet.
pub(crate) const NEXT: &str = "pg_snapshot_xmax(pg_current_snapshot())";

/// The condition that the row `t` was written when its table was an outbox, in one of these places;
/// `None`: a person has given up those that were not.
pub(crate) fn is_event_sql(parts: Option<&[EventPart]>, time: &TimeColumn) -> String {
    match parts {
        Some([]) => "false".to_owned(),
        Some(parts) => has_event_sql(parts, time, NEXT),
        None => "true".to_owned(),
    }
}

/// [`Covered::contains`] as SQL, of expressions: `xmin` is a row's, and `next` the next
/// transaction's `xid8`.
pub fn covered_sql(covered: Covered, xmin: &str, next: &str) -> String {
    precedes_sql(covered.before(), xmin, next)
}

/// [`FullXid::follows`] as SQL, likewise.
pub(crate) fn precedes_sql(before: FullXid, xmin: &str, next: &str) -> String {
    let full = before.as_u64();
    let low = u64::from(before.of_row().as_u32());
    let row = format!("{xmin}::text::int8");
    format!(
        "({row} < 3 or {next}::text::int8 - {full} < 2147483648 \
         and ({low} - {row} + 4294967296) % 4294967296 between 1 and 2147483647)"
    )
}

/// A condition that holds on the connection that took the horizon, and nowhere else: a pooler may
/// have another server process answer.
pub(super) fn is_of(session: Session<'_>) -> String {
    format!("pg_backend_pid() = {}", session.backend.pid)
}
