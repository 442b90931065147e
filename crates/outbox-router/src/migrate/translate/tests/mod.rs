mod any;
mod predicates;
mod refusals;
mod routing;
mod values;

use super::{
    super::{
        debezium,
        report::{Migration, PropertyFinding},
    },
    given::{Given, GivenConverter},
};

/// A connector of which every test changes what it is about.
const CONNECTOR: &str = "name=n
connector.class=io.debezium.connector.postgresql.PostgresConnector
plugin.name=pgoutput
snapshot.mode=no_data
database.hostname=db
database.user=u
database.dbname=shop
database.sslmode=verify-full
topic.prefix=p
extended.headers.enabled=false
table.include.list=public.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
topic.creation.default.partitions=6
";

fn given() -> Given {
    Given {
        file: "a test".to_owned(),
        bootstrap_servers: Some("kafka:9092".to_owned()),
        ..Given::default()
    }
}

fn migrate(more: &str) -> Migration {
    migrate_with(more, &given())
}

fn migrate_with(more: &str, given: &Given) -> Migration {
    debezium(&format!("{CONNECTOR}{more}"), given).unwrap_or_else(|error| panic!("{error}"))
}

fn outbox(options: &[(&str, &str)]) -> Migration {
    let lines = options.iter().map(|(name, value)| format!("transforms.outbox.{name}={value}\n"));
    migrate(&lines.collect::<String>())
}

#[track_caller]
fn writes(migration: &Migration, lines: &[&str]) {
    let toml = migration.toml.as_deref().expect("TOML");
    for line in lines {
        assert!(toml.lines().any(|written| written == *line), "{line} is not in:\n{toml}");
    }
}

#[track_caller]
fn writes_nothing_of(migration: &Migration, key: &str) {
    let toml = migration.toml.as_deref().expect("TOML");
    assert!(!toml.lines().any(|line| line.starts_with(key)), "{key} is in:\n{toml}");
}

fn has(list: &[PropertyFinding], property: &str, text: &str) -> bool {
    list.iter().any(|finding| {
        let hint = finding.hint.as_deref().unwrap_or_default();
        finding.property == property && (finding.text.contains(text) || hint.contains(text))
    })
}

#[track_caller]
fn differs(migration: &Migration, property: &str, text: &str) {
    assert!(has(&migration.different, property, text), "{:#?}", migration.different);
}

#[track_caller]
fn lacks(migration: &Migration, property: &str, text: &str) {
    assert!(has(&migration.unsupported, property, text), "{:#?}", migration.unsupported);
}
