//! The page of known tables, made of the presets.

use relay::{Example, ExampleRecord, PRESETS, Preset, Role};

const HEAD: &str = "\
<!-- Made of the presets by crates/outbox-router/tests/generated_docs. -->

# Outbox tables

A *preset* says which column of a table is what. With `preset = \"auto\"`, the default, the router
takes the preset whose columns a table has, and refuses a table that fits several or none (R007),
with what the nearest presets lack. A column that differs is named under `columns`, which also takes
texts such as `\"${ordering_key|event_id}\"`; every key is in [configuration.md](configuration.md).

Several tables may be followed on one slot: one `[[outbox]]` for each. A partitioned table is one
table, under the name of its root (`publish_via_partition_root`, which `setup` sets). A publication
FOR ALL TABLES or FOR TABLES IN SCHEMA, as Debezium makes them, is accepted when the outbox is in
it; rows of other tables are then sent to the router, which ignores and counts them.

Below, each preset has a table that it fits, a row of it, and the record that the router makes of
the row with the defaults. A test runs each on PostgreSQL and Kafka (`tests/e2e/tables.rs`).
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| preset | recognised by |\n|---|---|\n");
    for preset in PRESETS {
        page.push_str(&format!("| [`{0}`](#{0}) | {1} |\n", preset.name, recognised_by(preset)));
    }
    for preset in PRESETS {
        page.push_str(&section(preset));
    }
    page
}

/// The columns without which a table is no such table.
fn recognised_by(preset: &Preset) -> String {
    let required =
        [Role::Id, Role::AggregateType, Role::AggregateId, Role::EventType, Role::Payload];
    let of_roles = required.iter().map(|role| columns_of(preset.alternatives(*role)));
    let of_signature = preset.signature.iter().map(|name| vec![*name]);
    let groups: Vec<Vec<&str>> = of_roles.chain(of_signature).collect();
    let is_single = |name: &&str| groups.contains(&vec![*name]);
    let mut found: Vec<String> = Vec::new();
    for group in &groups {
        // Alternatives one of which every such table has say nothing.
        if group.len() > 1 && group.iter().any(is_single) {
            continue;
        }
        let names: Vec<String> = group.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(" or ");
        if !names.is_empty() && !found.contains(&names) {
            found.push(names);
        }
    }
    if preset.example.topic.is_some() {
        found.push("and a configured `topic`".to_owned());
    }
    found.join(", ")
}

/// The columns of a role's alternatives; of a template, those that it names.
fn columns_of(alternatives: &[&'static str]) -> Vec<&'static str> {
    let columns = alternatives.iter().flat_map(|name| {
        let inside = name.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        inside.unwrap_or(name).split('|')
    });
    columns.map(|name| name.split('#').next().unwrap_or(name)).collect()
}

/// By which keys a table is configured as the preset's text says.
fn keys(preset: &Preset) -> Option<&'static str> {
    (preset.name == "spring_modulith").then_some(
        "The filter is `where = { column = \"listener_id\", in = [\"…\"] }`, and the template stands in \
         `columns.aggregate_id`, for example `\"${serialized_event#/orderId}\"`.",
    )
}

fn section(preset: &Preset) -> String {
    let Example { table, topic, row, record } = &preset.example;
    let keys = keys(preset).map_or_else(String::new, |keys| format!(" {keys}"));
    let mut section = format!("\n## {}\n\n{}{keys}\n\n", preset.name, preset.about);
    section.push_str("| what | column |\n|---|---|\n");
    for (role, names) in preset.columns {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", else ").replace('|', "\\|");
        section.push_str(&format!("| `columns.{}` | {names} |\n", role.as_str()));
    }
    let default = match topic {
        Some(_) => "none that fits: configure one".to_owned(),
        None => format!("`{}`", preset.topic),
    };
    section.push_str(&format!("| `topic` | {default} |\n"));
    if !preset.headers.is_empty() {
        let names: Vec<String> = preset.headers.iter().map(|name| format!("`{name}`")).collect();
        section.push_str(&format!("| headers of the same name | {} |\n", names.join(", ")));
    }
    section.push_str(&format!("\n```sql\n{table};\n\n{row};\n```\n\n"));
    if let Some(topic) = topic {
        section.push_str(&format!("With `topic = \"{topic}\"`:\n\n"));
    }
    section.push_str(&record_lines(record));
    section
}

fn record_lines(record: &ExampleRecord) -> String {
    let ExampleRecord { topic, key, value, headers } = record;
    let mut lines = format!("```text\ntopic    {topic}\nkey      {key}\nvalue    {value}\n");
    for (name, value) in *headers {
        lines.push_str(&format!("header   {name}: {}\n", value.unwrap_or("null")));
    }
    lines.push_str("```\n");
    lines
}
