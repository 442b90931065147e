//! The section `[recover]`.

use super::{
    entry::KeyEntry,
    error::Rejection,
    kinds::{Kind, Named, text},
    names::identifier,
    print::Lines,
    read::{Problems, Section},
    table::{DeclaredTable, tables},
};

tables! {
    /// `[recover]`
    pub struct RecoverSection {
        /// The columns by which `outbox-router recover` puts the missing rows in order, separated
        /// by commas. "": the column of the time, then the id.
        order_by: Vec<String> = Vec::new(),
            text("columns' names, separated by commas, or \"\"", parse_columns, print_columns);
    }
}

fn parse_columns(text: &str) -> Result<Vec<String>, Rejection> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|name| identifier(name.trim()).map(str::to_owned)).collect()
}

#[expect(clippy::ptr_arg, reason = "the form that every printing function has")]
fn print_columns(names: &Vec<String>) -> String {
    names.join(", ")
}
