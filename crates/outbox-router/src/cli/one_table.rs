//! The one table that a command is about.

use relay::TableName;

use crate::config::Config;

/// The named table, or the only one that is configured.
///
/// # Errors
/// What to type, where it is neither.
pub(super) fn one_table(named: Option<&TableName>, config: &Config) -> Result<TableName, String> {
    let tables: Vec<&TableName> = config.tables().map(|table| &table.name).collect();
    let names: Vec<String> = tables.iter().map(ToString::to_string).collect();
    let names = names.join(", ");
    match (named, tables.as_slice()) {
        (Some(name), []) => Ok(name.clone()),
        (Some(name), tables) if tables.contains(&name) => Ok(name.clone()),
        (Some(name), _) => Err(format!("{name} is no configured outbox; there are {names}")),
        (None, [only]) => Ok((*only).clone()),
        (None, []) => {
            Err("no table is configured; say whose row it is: --table SCHEMA.TABLE".to_owned())
        }
        (None, _) => Err(format!(
            "several tables are configured; say whose row it is: --table, one of {names}"
        )),
    }
}
