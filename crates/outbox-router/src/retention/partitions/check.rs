//! Counts the rows of a partition, by why they stay.

use relay::{Failure, TableName, delivered::PartitionRows};

use crate::{
    postgres::{quote_literal, quote_table},
    retention::{
        partitions::{catalog::CONCURRENTLY_SINCE, root::unsuitable},
        rows::Rule,
        session::{Session, malformed, number, text},
    },
};

/// Reads a whole partition, for as long as it takes.
///
/// # Errors
/// It is another table by now, or no partition; row security hides rows from the role; the
/// statement fails.
pub(super) async fn count(
    session: Session<'_>,
    rule: &Rule<'_>,
    oid: u32,
    name: &TableName,
) -> Result<PartitionRows, Failure> {
    let table = quote_table(name);
    let (covered, event, held) = (rule.is_covered(), rule.is_event(), rule.is_held());
    let pending = match session.backend.version {
        CONCURRENTLY_SINCE.. => " and not i.inhdetachpending",
        _ => "",
    };
    let query = format!(
        "select count(*), count(*) filter (where is_event and not is_covered), \
           count(*) filter (where is_event and is_covered and is_held), \
           count(*) filter (where not is_event), pg_backend_pid() = {}, \
           exists (select from pg_class c join pg_inherits i on i.inhrelid = c.oid \
             where c.oid = {oid} and c.oid = {}::regclass and i.inhparent = {} \
             and c.relispartition{pending}) \
         from (select {covered} as is_covered, {event} as is_event, {held} as is_held \
           from only {table} t) r",
        session.backend.pid,
        quote_literal(&table),
        rule.target.oid,
    );
    let row = session.row_in_time(&query).await?;
    if text(&row, 4)? != "t" {
        return Err(malformed("comes from another server process: connect without a pooler"));
    }
    if text(&row, 5)? != "t" {
        let what = format!("{name} was detached or replaced in this moment");
        return Err(unsuitable(what, "nothing: the next sweep looks again"));
    }
    Ok(PartitionRows {
        all: number(&row, 0)?,
        undelivered: number(&row, 1)?,
        held: number(&row, 2)?,
        older: number(&row, 3)?,
    })
}
