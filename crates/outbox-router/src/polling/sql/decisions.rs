//! What a person decides about abandoned rows: they are pending again, or they count as
//! published. A row that somebody else has decided about, or changed, meanwhile stays as it is.

use relay::{
    Failure,
    delivered::{GivenUp, RowAt},
};
use tokio_postgres::Client;

use super::{
    conditions::or,
    connection::run,
    failure::{of_table, unwritable},
    literals::{literal, numbers},
    marks::{Decides, Writable},
    settle::{Set, forget_claim, identities, published, unlock},
    stuck::{Stuck, condition},
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::postgres::quote_identifier;

/// What becomes of a row that is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It is marked as published, and its last error says who has dropped it.
    MarkedWithError,
    /// It is marked as published, and nothing in the table says that it was dropped.
    Marked,
    /// It is deleted, as published rows are.
    Deleted,
}

impl Dropped {
    /// What becomes of a row of this table.
    pub const fn of(table: &PolledTable) -> Self {
        match (table.marks.decides, &table.marks.last_error) {
            (Decides::Presence, _) => Self::Deleted,
            (_, Some(_)) => Self::MarkedWithError,
            (_, None) => Self::Marked,
        }
    }
}

/// Sets abandoned rows pending, as if they had never been tried. Their last error stays,
/// for whoever asks why they were abandoned. Returns how many there were.
///
/// What the role may not write stays as it is, but for what says that a row is abandoned: then none
/// of these rows is changed.
///
/// # Errors
/// The rows may not be written (P002), or the connection breaks.
pub async fn requeue(client: &Client, table: &PolledTable, rows: &[RowAt]) -> Result<u64, Failure> {
    let Some(mut abandoned) = abandoned(table, rows.iter()) else { return Ok(0) };
    for (column, is_abandoned) in unwritten(table) {
        let sql = format!(
            "{}select 1 from {} t, {abandoned} and {is_abandoned} limit 1{COMMIT}",
            begin(Access::ReadOnly, Ways::Any),
            table.quoted()
        );
        if count(client, table, &sql).await? > 0 {
            return Err(unwritable(table.name(), &table.facts.role, column));
        }
        // One that is abandoned so meanwhile stays.
        abandoned += &format!(" and {is_abandoned} is not true");
    }
    let set = pending(table);
    if set.is_empty() {
        return Ok(0);
    }
    change(client, table, &update(table, &set), &abandoned).await
}

/// The columns by which a row is abandoned that the role may not write, and that it is so.
fn unwritten(table: &PolledTable) -> Vec<(&str, String)> {
    let (marks, conditions) = (&table.marks, table.conditions());
    let word = marks.status.as_ref().filter(|status| status.written == Writable::No);
    let word = word.map(|status| {
        let any = [conditions.is_abandoned_by_word("t"), conditions.is_stranded("t")];
        (status.column.as_str(), or(&any.into_iter().flatten().collect::<Vec<_>>()))
    });
    let at = marks.abandoned_at.as_ref().filter(|_| marks.abandons == Writable::No);
    let at = at.and_then(|at| Some((at.as_str(), conditions.is_abandoned_at("t")?)));
    word.into_iter().chain(at).collect()
}

/// A row is pending, as if it had never been tried, as far as that may be written.
fn pending(table: &PolledTable) -> Set {
    let marks = &table.marks;
    let mut set = unlock(table);
    if let Some(status) = marks.written_status()
        && let Some(word) = status.words.pending.first()
    {
        set.push((status.column.clone(), literal(word)));
    }
    set.extend(marks.number().map(|flag| (flag.column.clone(), "0".to_owned())));
    set.extend(marks.attempts.as_ref().map(|it| (it.column.clone(), "0".to_owned())));
    // Also where the worker writes it for no row that failed: another program may have.
    let may_write =
        |name: &&String| table.facts.column(name).is_some_and(|column| column.is("update"));
    let available = marks.available_at.iter().filter(may_write);
    set.extend(available.map(|it| (it.clone(), "now()".to_owned())));
    let abandoned = marks.abandoned_at.iter().filter(may_write);
    set.extend(abandoned.map(|it| (it.clone(), "null".to_owned())));
    set.extend(forget_claim(table));
    set
}

/// Drops abandoned rows: they count as published from now on. Returns how many there were.
///
/// # Errors
/// As [`requeue`].
pub async fn drop_rows(
    client: &Client,
    table: &PolledTable,
    rows: &[GivenUp],
    why: &str,
) -> Result<u64, Failure> {
    let rows = rows.iter().map(GivenUp::row);
    let Some(abandoned) = abandoned(table, rows) else { return Ok(0) };
    if Dropped::of(table) == Dropped::Deleted {
        let head = format!("delete from {} t using", table.quoted());
        return change(client, table, &head, &abandoned).await;
    }
    let mut set = published(table);
    if let Some(error) = &table.marks.last_error {
        let why: String = why.chars().take(error.max).collect();
        set.push((error.column.clone(), literal(&why)));
    }
    change(client, table, &update(table, &set), &abandoned).await
}

/// What a statement has behind FROM or USING: those of these rows that are abandoned. `None`: no
/// row of such a table can be.
fn abandoned<'r>(
    table: &PolledTable,
    rows: impl Iterator<Item = &'r RowAt> + Clone,
) -> Option<String> {
    let abandoned = condition(table, Stuck::Abandoned, "t")?;
    let names: Vec<String> = (0..table.identity.len()).map(|place| format!("k{place}")).collect();
    Some(format!(
        "unnest({}, {}::xid[]) as x ({}, v) where t.xmin = x.v and {} and {abandoned}",
        identities(table.element_types(), rows.clone().map(|row| &row.id)),
        numbers(rows.map(|row| row.version)),
        names.join(", "),
        table.same_row("x", |place| format!("k{place}")),
    ))
}

fn update(table: &PolledTable, set: &Set) -> String {
    let set = set.iter().map(|(name, value)| format!("{} = {value}", quote_identifier(name)));
    format!("update {} t set {} from", table.quoted(), set.collect::<Vec<_>>().join(", "))
}

async fn change(
    client: &Client,
    table: &PolledTable,
    head: &str,
    abandoned: &str,
) -> Result<u64, Failure> {
    let begin = begin(Access::ReadWrite, Ways::Any);
    count(client, table, &format!("{begin}{head} {abandoned}{COMMIT}")).await
}

/// How many rows such a statement has returned or changed.
async fn count(client: &Client, table: &PolledTable, sql: &str) -> Result<u64, Failure> {
    let answers = run(client, sql).await.map_err(|error| of_table(error, table.name()))?;
    Ok(answers.get(BEGINS).map_or(0, |answer| answer.count))
}
