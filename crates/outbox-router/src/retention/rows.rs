//! The statements that remove rows.

use std::time::Duration;

use relay::retention::FullXid;

use super::{
    held::{HeldTable, is_open},
    session::Session,
    target::{RowLocks, Target},
};
use crate::postgres::{quote_identifier, quote_table};

/// Which rows of a table may be removed.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    pub(super) target: &'a Target,
    /// Transactions before this one are confirmed.
    pub(super) covered: FullXid,
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
        precedes_sql(self.covered, "t.xmin", "pg_snapshot_xmax(pg_current_snapshot())")
    }

    /// Whether the row is old enough.
    pub(super) fn is_old(&self) -> String {
        let time = &self.target.time;
        format!("t.{} < {}", time.quoted(), time.ago(self.keep))
    }

    /// Whether the row's event is open.
    pub(super) fn is_held(&self) -> String {
        match (&self.target.id, self.target.held) {
            (Some(id), HeldTable::Present) => is_open(&format!("t.{id}")),
            // Without an id, no event is open: that was checked.
            (None, _) | (_, HeldTable::Absent) => "false".to_owned(),
        }
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
        let columns: Vec<String> =
            self.target.columns.iter().map(|column| quote_identifier(&column.name)).collect();
        let (returned, kept) = match &self.target.archive {
            None => ("1".to_owned(), String::new()),
            Some(archive) => {
                let of_row: Vec<String> =
                    columns.iter().map(|column| format!("t.{column}")).collect();
                let columns = columns.join(", ");
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

/// [`relay::retention::Horizon::precedes`] as SQL, of expressions: `xmin` is a row's, and `next`
/// the next transaction's `xid8`.
pub fn precedes_sql(before: FullXid, xmin: &str, next: &str) -> String {
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
