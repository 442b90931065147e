//! Names of Debezium Server's properties, as a connector has them in Kafka Connect.

use super::super::properties::{Properties, Property};

/// What a prefix becomes. The first that fits applies; Debezium Server does the same with
/// `debezium.source.` (`DebeziumServer.configToProperties`).
const PREFIXES: [(&str, &str); 5] = [
    ("debezium.source.", ""),
    ("debezium.transforms", "transforms"),
    ("debezium.predicates", "predicates"),
    ("debezium.sink.kafka.producer.", "producer.override."),
    ("debezium.engine.", "engine."),
];

pub(super) fn as_connector(properties: Properties) -> Properties {
    let mut renamed = Properties::default();
    for property in properties.into_rest() {
        let name = PREFIXES.iter().find_map(|(prefix, replacement)| {
            let rest = property.name.strip_prefix(prefix)?;
            Some(format!("{replacement}{rest}"))
        });
        let name = name.unwrap_or_else(|| property.name.clone());
        renamed.push(Property { name, ..property });
    }
    renamed
}
