//! What a person decides about rows that are given up: they are pending again, or they count as
//! published. A row that somebody else has decided about meanwhile stays as it is.

use relay::{Failure, polling::RowId};
use tokio_postgres::Client;

use super::{
    connection::run,
    failure::of_table,
    literals::literal,
    marks::Decides,
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

/// Sets rows that are given up pending, as if they had never been tried. Their last error stays,
/// for whoever asks why they were given up. Returns how many there were.
///
/// # Errors
/// The rows may not be written, or the connection breaks.
pub async fn requeue(client: &Client, table: &PolledTable, rows: &[RowId]) -> Result<u64, Failure> {
    let marks = &table.marks;
    let mut set = unlock(table);
    if let (Some(status), Some(word)) =
        (&marks.status, marks.status.as_ref().and_then(|status| status.words.pending.first()))
    {
        set.push((status.column.clone(), literal(word)));
    }
    set.extend(marks.attempts.as_ref().map(|it| (it.column.clone(), "0".to_owned())));
    set.extend(marks.available_at.iter().map(|it| (it.clone(), "now()".to_owned())));
    set.extend(marks.abandoned_at.iter().map(|it| (it.clone(), "null".to_owned())));
    set.extend(forget_claim(table));
    change(client, table, &update(table, &set), rows).await
}

/// Drops rows that are given up: they count as published from now on. Returns how many there were.
///
/// # Errors
/// As [`requeue`].
pub async fn drop_rows(
    client: &Client,
    table: &PolledTable,
    rows: &[RowId],
    why: &str,
) -> Result<u64, Failure> {
    if Dropped::of(table) == Dropped::Deleted {
        let head = format!("delete from {} t using", table.quoted());
        return change(client, table, &head, rows).await;
    }
    let mut set = published(table);
    if let Some(error) = &table.marks.last_error {
        let why: String = why.chars().take(error.max).collect();
        set.push((error.column.clone(), literal(&why)));
    }
    change(client, table, &update(table, &set), rows).await
}

fn update(table: &PolledTable, set: &Set) -> String {
    let set = set.iter().map(|(name, value)| format!("{} = {value}", quote_identifier(name)));
    format!("update {} t set {} from", table.quoted(), set.collect::<Vec<_>>().join(", "))
}

async fn change(
    client: &Client,
    table: &PolledTable,
    head: &str,
    rows: &[RowId],
) -> Result<u64, Failure> {
    let Some(abandoned) = condition(table, Stuck::Abandoned, "t") else { return Ok(0) };
    let names: Vec<String> = (0..table.identity.len()).map(|place| format!("k{place}")).collect();
    let types = table.identity.iter().map(|column| column.sql_type.as_str());
    let sql = format!(
        "{}{head} unnest({}) as x ({}) where {} and {abandoned}{COMMIT}",
        begin(Access::ReadWrite, Ways::Any),
        identities(types, rows.iter()),
        names.join(", "),
        table.same_row("x", |place| format!("k{place}")),
    );
    let answers = run(client, &sql).await.map_err(|error| of_table(error, table.name()))?;
    Ok(answers.get(BEGINS).map_or(0, |answer| answer.count))
}
