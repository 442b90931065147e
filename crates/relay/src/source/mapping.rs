//! Which columns of a table the router reads, to tell whether a publication's column list leaves
//! one out.

use crate::routing::{columns::columns_read, table::OutboxTable};

/// The columns of `table` that the mapping of `outbox` reads. Empty when the mapping does not fit
/// the table: the first row then fails and says why.
pub(super) fn mapped<'t>(outbox: &OutboxTable, table: &'t [String]) -> Vec<&'t str> {
    let names: Vec<&[u8]> = table.iter().map(String::as_bytes).collect();
    let read = columns_read(outbox, &names).unwrap_or_default();
    read.into_iter().filter_map(|position| table.get(position)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::table::{Role, TableName};

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn outbox() -> OutboxTable {
        OutboxTable::with_defaults(TableName {
            schema: "public".to_owned(),
            name: "outbox".to_owned(),
        })
    }

    #[test]
    fn the_preset_is_recognised_by_the_tables_columns() {
        let default =
            columns(&["id", "aggregate_type", "aggregate_id", "event_type", "payload", "at"]);
        assert_eq!(
            mapped(&outbox(), &default),
            ["id", "aggregate_type", "aggregate_id", "event_type", "payload"]
        );
        let debezium = columns(&["id", "aggregatetype", "aggregateid", "type", "payload"]);
        assert_eq!(
            mapped(&outbox(), &debezium),
            ["id", "aggregatetype", "aggregateid", "type", "payload"]
        );
    }

    #[test]
    fn a_configured_name_replaces_the_presets() {
        let mut outbox = outbox();
        outbox.columns.set(Role::AggregateId, vec!["customer".into(), "aggregate_id".into()]);
        let table = columns(&["id", "customer", "aggregate_type", "event_type", "payload"]);
        assert_eq!(
            mapped(&outbox, &table),
            ["id", "aggregate_type", "customer", "event_type", "payload"]
        );
    }
}
