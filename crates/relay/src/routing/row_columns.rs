//! By which columns a row of an outbox has an age and an id.

use crate::{
    failure::Failure,
    routing::{columns::age_and_id, table::OutboxTable},
};

/// Columns of a table, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowColumns<'t> {
    /// When the row was written, as the application says.
    pub time: Option<&'t str>,
    /// The event's id; `None` also where a template makes it.
    pub id: Option<&'t str>,
}

/// The columns of a table that `outbox` maps, found as for routing.
///
/// # Errors
/// The mapping does not fit the table.
pub fn row_columns<'t>(
    outbox: &OutboxTable,
    table: &'t [String],
) -> Result<RowColumns<'t>, Failure> {
    let names: Vec<&[u8]> = table.iter().map(String::as_bytes).collect();
    let (time, id) = age_and_id(outbox, &names)?;
    let name = |position: Option<usize>| table.get(position?).map(String::as_str);
    Ok(RowColumns { time: name(time), id: name(id) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::table::{ColumnName, Role, TableName};

    fn found(outbox: &OutboxTable, columns: &[&str]) -> (Option<String>, Option<String>) {
        let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
        let found = row_columns(outbox, &columns).unwrap();
        (found.time.map(str::to_owned), found.id.map(str::to_owned))
    }

    #[test]
    fn time_and_id_are_the_presets_columns_or_those_that_are_configured() {
        let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let mut outbox = OutboxTable::with_defaults(name);
        let some = |name: &str| Some(name.to_owned());
        let usual = ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "created_at"];
        assert_eq!(found(&outbox, &usual), (some("created_at"), some("id")));
        assert_eq!(found(&outbox, &usual[..5]), (None, some("id")));
        let debezium = ["timestamp", "id", "aggregatetype", "aggregateid", "type", "payload"];
        assert_eq!(found(&outbox, &debezium), (some("timestamp"), some("id")));
        outbox.columns.set(Role::Timestamp, vec!["written".into()]);
        let template = ColumnName::parse("${id}-${event_type}").unwrap();
        outbox.columns.set(Role::Id, vec![template]);
        let named = [&usual[..], &["written"]].concat();
        assert_eq!(found(&outbox, &named), (some("written"), None));
    }
}
