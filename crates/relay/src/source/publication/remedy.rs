//! Statements that put a table into a publication, for people to type and for `setup` to run.
//!
//! Each is one transaction, so that nothing is left out between its statements, and touches no
//! other table: `set table` would take every other one out, and without `only` a child (INHERITS)
//! would be added and dropped with its parent, or make the statement fail. The lock waits for
//! whoever is writing, and whoever comes to write waits for it, so not for long. Without it
//! PostgreSQL before 13.21, 14.18, 15.13, 16.9 and 17.5 goes on with the former publication for
//! what comes after such a transaction (release notes of these versions). It is taken without
//! `only`: who writes to a partition locks that one and not its root. So children are locked, too,
//! which changes nothing about them and needs no right of its own.

use crate::{
    routing::table::TableName,
    source::quote::{quote_identifier, quote_table},
};

/// How a person says that the gap is known and dealt with.
pub(super) const ACCEPT: &str = "outbox-router accept";

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
    let tables: Vec<String> = tables.iter().map(|table| quote_table(table)).collect();
    let (locked, altered) = (tables.join(", "), tables.join(", only "));
    let alter =
        |action: &&str| format!("alter publication {publication} {action} table only {altered}; ");
    let statements: String = actions.iter().map(alter).collect();
    format!(
        "begin; set local lock_timeout = '5s'; lock table {locked} in share row exclusive mode; {statements}commit"
    )
}
