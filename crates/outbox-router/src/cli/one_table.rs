//! The one table that a command is about.

use relay::{OutboxTable, TableName};

/// The named table, or the only one that is configured.
///
/// # Errors
/// What to type, where it is neither.
pub(super) fn one_table(
    named: Option<&TableName>,
    outboxes: &[OutboxTable],
) -> Result<TableName, String> {
    let names: Vec<String> = outboxes.iter().map(|table| table.name.to_string()).collect();
    let names = names.join(", ");
    match (named, outboxes) {
        (Some(name), []) => Ok(name.clone()),
        (Some(name), _) if outboxes.iter().any(|table| table.name == *name) => Ok(name.clone()),
        (Some(name), _) => Err(format!("{name} is no configured outbox; there are {names}")),
        (None, [only]) => Ok(only.name.clone()),
        (None, []) => {
            Err("no table is configured; say whose row it is: --table SCHEMA.TABLE".to_owned())
        }
        (None, _) => Err(format!(
            "several tables are configured; say whose row it is: --table, one of {names}"
        )),
    }
}
