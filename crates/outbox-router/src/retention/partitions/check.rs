//! What shows that a partition may go: all of its rows may.

use relay::{Failure, TableName};

use crate::{
    postgres::quote_table,
    retention::{
        partitions::root::unsuitable,
        rows::Rule,
        session::{Session, malformed, number, text},
    },
};

/// The rows of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) all: u64,
    /// Not confirmed yet.
    pub(super) undelivered: u64,
    /// Their events are open in `outbox_router.held`.
    pub(super) held: u64,
    /// Written after the table was detached, as far as their transactions tell: then they were
    /// never in the stream.
    pub(super) strange: u64,
}

/// What a table is of which rows are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Partition,
    /// It was one.
    Detached,
}

impl Rows {
    /// Whether no row keeps the partition.
    pub(super) const fn may_go(self) -> bool {
        self.undelivered == 0 && self.held == 0 && self.strange == 0
    }

    /// Why they stay.
    pub(super) fn why(self) -> String {
        let Self { all, undelivered, held, strange } = self;
        format!(
            "of its {all} rows, {undelivered} are not delivered yet, {held} are held, and {strange} \
             seem to be written to it after it was detached, so they were never sent"
        )
    }
}

/// Reads a whole partition, for as long as it takes.
///
/// The transaction that detached the table has written its row of `pg_class`, and began when those
/// that wrote through the root had ended, or nearly all: a later one may have written to the table
/// itself. Such a table stays, because a person should not have to find out what was in it.
///
/// # Errors
/// It is another table by now; row security hides rows from the role; the statement fails.
pub(super) async fn count(
    session: Session<'_>,
    rule: &Rule<'_>,
    oid: u32,
    name: &TableName,
    origin: Origin,
) -> Result<Rows, Failure> {
    let table = quote_table(name);
    let strange = match origin {
        Origin::Partition => "false".to_owned(),
        Origin::Detached => {
            let row = "t.xmin::text::int8";
            format!(
                "{row} >= 3 and ((select c.xmin::text::int8 from pg_class c where c.oid = {oid}) \
                 - {row} + 4294967296) % 4294967296 not between 1 and 2147483647"
            )
        }
    };
    let query = format!(
        "select count(*), count(*) filter (where not {}), count(*) filter (where {}), \
           count(*) filter (where {strange}), pg_backend_pid() = {}, \
           exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where c.oid = {oid} and c.oid = '{}'::regclass and c.relispartition = {}) \
         from only {table} t",
        rule.is_covered(),
        rule.is_held(),
        session.backend.pid,
        table.replace('\'', "''"),
        origin == Origin::Partition,
    );
    let row = session.row_in_time(&query).await?;
    if text(&row, 4)? != "t" {
        return Err(malformed("comes from another server process: connect without a pooler"));
    }
    if text(&row, 5)? != "t" {
        let what = format!("{name} was attached, detached, or replaced in this moment");
        return Err(unsuitable(what, "nothing: the next sweep looks again"));
    }
    Ok(Rows {
        all: number(&row, 0)?,
        undelivered: number(&row, 1)?,
        held: number(&row, 2)?,
        strange: number(&row, 3)?,
    })
}
