//! Statements that put a table into a publication, for people to type and for `setup` to run.
//!
//! Each is one transaction, so that nothing is left out between its statements, and touches no other table: `set table` would
//! take every other one out. The lock waits for whoever is writing, and whoever comes to write waits for it, so not for long.
//! Without it PostgreSQL before 13.21, 14.18, 15.13, 16.9 and 17.5 goes on with the former publication for what comes after
//! such a transaction (release notes of these versions).

use crate::{
    source::quote::{quote_identifier, quote_table},
    table::TableName,
};

/// Publishes tables that are not published.
#[must_use]
pub fn add(publication: &str, tables: &[&TableName]) -> String {
    at_rest(publication, tables, &["add"])
}

/// Publishes every row and every column of a table of which some are left out.
#[must_use]
pub fn add_again(publication: &str, table: &TableName) -> String {
    at_rest(publication, &[table], &["drop", "add"])
}

fn at_rest(publication: &str, tables: &[&TableName], actions: &[&str]) -> String {
    let publication = quote_identifier(publication);
    let tables = tables.iter().map(|table| quote_table(table)).collect::<Vec<_>>().join(", ");
    let alter =
        |action: &&str| format!("alter publication {publication} {action} table {tables}; ");
    let statements: String = actions.iter().map(alter).collect();
    format!(
        "begin; set local lock_timeout = '5s'; lock table {tables} in share row exclusive mode; {statements}commit"
    )
}
