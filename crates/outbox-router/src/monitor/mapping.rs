//! Which columns of a table the router reads, to tell whether a publication's column list leaves one out.

use relay::{OutboxTable, Preset, Role};

/// The columns of `table` that the mapping of `outbox` reads: per role the first of its names that the table has.
pub(super) fn mapped<'t>(outbox: &OutboxTable, table: &'t [String]) -> Vec<&'t str> {
    let preset = match outbox.preset {
        Preset::Auto if table.iter().any(|column| column == "aggregateid") => Preset::Debezium,
        Preset::Auto => Preset::Default,
        chosen @ (Preset::Default | Preset::Debezium) => chosen,
    };
    let find = |name: &str| table.iter().find(|column| *column == name).map(String::as_str);
    Role::ALL
        .into_iter()
        .filter_map(|role| match outbox.columns.get(role) {
            Some(names) => names.iter().find_map(|name| find(name)),
            None => find(preset_name(preset, role)),
        })
        .collect()
}

fn preset_name(preset: Preset, role: Role) -> &'static str {
    match (preset, role) {
        (Preset::Debezium, Role::AggregateType) => "aggregatetype",
        (Preset::Debezium, Role::AggregateId) => "aggregateid",
        (Preset::Debezium, Role::EventType) => "type",
        // A role's word in the configuration is its column in our own table.
        (
            Preset::Auto | Preset::Default | Preset::Debezium,
            role @ (Role::Id
            | Role::AggregateType
            | Role::AggregateId
            | Role::EventType
            | Role::Payload
            | Role::Headers
            | Role::TraceParent
            | Role::TraceState),
        ) => role.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::TableName;

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
    fn the_preset_is_told_by_the_tables_columns() {
        let ours = columns(&["id", "aggregate_type", "aggregate_id", "event_type", "created_at"]);
        assert_eq!(
            mapped(&outbox(), &ours),
            ["id", "aggregate_type", "aggregate_id", "event_type"]
        );
        let theirs = columns(&["id", "aggregatetype", "aggregateid", "type", "payload"]);
        assert_eq!(
            mapped(&outbox(), &theirs),
            ["id", "aggregatetype", "aggregateid", "type", "payload"]
        );
    }

    #[test]
    fn a_configured_name_replaces_the_presets() {
        let mut outbox = outbox();
        outbox.columns.set(Role::AggregateId, columns(&["customer", "aggregate_id"]));
        let table = columns(&["aggregate_id", "customer"]);
        assert_eq!(mapped(&outbox, &table), ["customer"]);
    }
}
