//! What cannot be translated at all: another database, another sink.

use super::{super::report::PropertyFinding, context::Context};

/// Confluent's managed connector of Debezium's code.
pub(super) const MANAGED: &str = "PostgresCdcSourceV2";

/// The classes of a connector that reads PostgreSQL.
const POSTGRESQL: [&str; 2] = ["io.debezium.connector.postgresql.PostgresConnector", MANAGED];

/// Other databases by a word of the connector's class.
const DATABASES: [(&str, &str); 11] = [
    ("mysql", "MySQL"),
    ("mariadb", "MariaDB"),
    ("mongodb", "MongoDB"),
    ("sqlserver", "SQL Server"),
    ("oracle", "Oracle"),
    ("db2", "Db2"),
    ("cassandra", "Cassandra"),
    ("vitess", "Vitess"),
    ("spanner", "Spanner"),
    ("informix", "Informix"),
    ("yugabyte", "YugabyteDB"),
];

/// Why the file cannot be translated, if it cannot.
pub(super) fn refusal(context: &Context<'_>) -> Option<PropertyFinding> {
    let Some(class) = context.input.get("connector.class") else {
        let text = "the file does not say which connector it configures";
        let hint = "give the whole configuration, with connector.class";
        return Some(PropertyFinding::absent("connector.class", text).hint(hint));
    };
    if !POSTGRESQL.contains(&class.value.as_str()) {
        let lower = class.value.to_ascii_lowercase();
        let database = DATABASES.iter().find(|(word, _)| lower.contains(word));
        let text = match database {
            Some((_, database)) => {
                format!("it reads {database}; outbox-router reads PostgreSQL alone")
            }
            None => format!("{} is not Debezium's connector for PostgreSQL", class.value),
        };
        return Some(PropertyFinding::of(class, text));
    }
    let sink = context.input.get("debezium.sink.type")?;
    let text = format!("the sink is {}; outbox-router writes to Kafka alone", sink.value);
    (!sink.is("kafka")).then(|| PropertyFinding::of(sink, text))
}
