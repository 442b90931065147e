//! Statements that put a table into a publication, for people to type and for `setup` to run.
//!
//! Each of them is one transaction, so that no row is left out between its statements, and it
//! changes no other table: `set table` would take every other table out, and without `only` a child
//! (INHERITS) would be added and dropped with its parent, or make the statement fail.
//!
//! The lock waits for transactions that write to the table, and later writers wait for the lock;
//! `lock_timeout` bounds that. Without the lock, PostgreSQL before 13.21, 14.18, 15.13, 16.9 and
//! 17.5 decodes later transactions with the former publication (release notes of these versions).
//! It is taken without `only`, because a writer to a partition locks the partition and not its
//! root. So children are locked, too, which changes nothing about them and needs no right of its
//! own.

use crate::{
    routing::table::TableName,
    source::quote::{quote_identifier, quote_table},
};

/// The statements that publish tables which are not published.
#[must_use]
pub fn add(publication: &str, tables: &[&TableName]) -> String {
    let tables: Vec<String> = tables.iter().map(|table| quote_table(table)).collect();
    under_lock(&quote_identifier(publication), &tables, &["add"])
}

/// The statements that publish every row and every column of a table that is published in part.
#[must_use]
pub fn add_again(publication: &str, table: &TableName) -> String {
    under_lock(&quote_identifier(publication), &[quote_table(table)], &["drop", "add"])
}

/// The statements of [`add`] for a reader who replaces `PUBLICATION` and `TABLE`.
#[must_use]
pub fn add_placeholder() -> String {
    under_lock("PUBLICATION", &["TABLE".to_owned()], &["add"])
}

/// The statements of [`add_again`] for a reader who replaces `PUBLICATION` and `TABLE`.
#[must_use]
pub fn add_again_placeholder() -> String {
    under_lock("PUBLICATION", &["TABLE".to_owned()], &["drop", "add"])
}

/// `publication` and `tables` are quoted where SQL requires it.
fn under_lock(publication: &str, tables: &[String], actions: &[&str]) -> String {
    let (locked, altered) = (tables.join(", "), tables.join(", only "));
    let alter =
        |action: &&str| format!("alter publication {publication} {action} table only {altered}; ");
    let statements: String = actions.iter().map(alter).collect();
    format!(
        "begin; set local lock_timeout = '5s'; lock table {locked} in share row exclusive mode; {statements}commit"
    )
}
