//! What is not copied, not known, or not supported.

use super::{
    CONNECTOR, Given, debezium, differs, given, lacks, migrate, migrate_with, outbox, writes,
};

#[test]
fn secrets_are_not_copied() {
    let migration = migrate(
        "database.password=canary/1\nproducer.override.security.protocol=SASL_SSL\n\
         producer.override.sasl.mechanism=PLAIN\nproducer.override.sasl.jaas.config=\
         x.PlainLoginModule required username=\"u\" password=\"canary\";\n",
    );
    let all = format!("{migration:?}");
    assert!(!all.contains("canary"), "{all}");
    writes(
        &migration,
        &[
            "url = \"postgres://u:${env:POSTGRES_PASSWORD}@db/shop?sslmode=verify-full\"",
            "\"sasl.username\" = \"u\"",
            "\"sasl.password\" = \"${env:KAFKA_PASSWORD}\"",
        ],
    );
    differs(&migration, "postgres.url", "percent-encoded");
}

#[test]
fn what_has_a_meaning_in_a_url_is_percent_encoded() {
    let migration = migrate(
        "database.user=a.b-c_d~e/@é\ndatabase.sslrootcert=/x y/ca%.pem\ndatabase.dbname=a+b\n",
    );
    let url = "postgres://a.b-c_d~e%2F%40%C3%A9@db/a%2Bb?sslmode=verify-full\
               &sslrootcert=/x%20y/ca%25.pem";
    writes(&migration, &[&format!("url = \"{url}\"")]);
}

#[test]
fn the_producers_properties_become_librdkafkas() {
    let migration = migrate(
        "producer.override.compression.type=lz4\nproducer.override.linger.ms=5\n\
         producer.override.acks=1\nproducer.override.ssl.truststore.location=/x/ca.pem\n\
         producer.override.batch.size=16384\n",
    );
    writes(
        &migration,
        &[
            "\"compression.type\" = \"lz4\"",
            "\"linger.ms\" = \"5\"",
            "\"ssl.ca.location\" = \"/x/ca.pem\"",
        ],
    );
    differs(&migration, "producer.override.acks", "always waits");
    for (property, why) in [
        ("ssl.truststore.location=/x/store.jks", "PEM"),
        ("partitioner.class=com.example.P", "murmur2"),
        ("compression.type=zstd", "no zstd"),
        ("sasl.jaas.config=x.Krb5LoginModule required;", "Krb5LoginModule"),
        ("lingre.ms=5", "no property of the producer"),
    ] {
        let name = property.split('=').next().unwrap();
        let migration = migrate(&format!("producer.override.{property}\n"));
        lacks(&migration, &format!("producer.override.{name}"), why);
    }
    let open = "producer.override.security.protocol=SASL_PLAINTEXT\n\
                producer.override.sasl.mechanism=PLAIN\n";
    lacks(&migrate(open), "producer.override.security.protocol", "clear text");
}

#[test]
fn other_transforms_are_named_and_a_predicate_on_the_outbox_is_not() {
    let chain = |class: &str| {
        let text = CONNECTOR.replace("transforms=outbox\n", "transforms=outbox,x\n");
        debezium(&format!("{text}transforms.x.type={class}\n"), &given()).unwrap()
    };
    for class in [
        "org.apache.kafka.connect.transforms.RegexRouter",
        "io.debezium.transforms.ExtractNewRecordState",
        "io.debezium.transforms.ByLogicalTableRouter",
        "org.apache.kafka.connect.transforms.HeaderFrom$Value",
        "org.apache.kafka.connect.transforms.Filter",
    ] {
        lacks(&chain(class), "transforms.x.type", class);
    }
    let predicate = |class: &str, negate: &str| {
        migrate(&format!(
            "transforms.outbox.predicate=p\ntransforms.outbox.negate={negate}\npredicates=p\n\
             predicates.p.type=org.apache.kafka.connect.transforms.predicates.{class}\n\
             predicates.p.pattern=.*outbox\n"
        ))
    };
    assert!(predicate("TopicNameMatches", "false").is_complete());
    assert!(predicate("RecordIsTombstone", "true").is_complete());
    lacks(&predicate("HasHeaderKey", "false"), "transforms.outbox.predicate", "every row");
    lacks(&predicate("TopicNameMatches", "true"), "transforms.outbox.predicate", "no table of");
}

#[test]
fn what_is_another_thing_altogether_is_refused() {
    for (from, to, why) in [
        ("postgresql.PostgresConnector", "mysql.MySqlConnector", "MySQL"),
        ("postgresql.PostgresConnector", "sqlserver.SqlServerConnector", "SQL Server"),
        ("postgresql.PostgresConnector", "oracle.OracleConnector", "Oracle"),
        ("outbox.EventRouter", "Other", "no transform is Debezium's EventRouter"),
        ("outbox.EventRouter", "outbox.MongoEventRouter", "MongoDB"),
    ] {
        let text = CONNECTOR.replace(from, to);
        let migration = debezium(&text, &given()).unwrap();
        assert!(migration.toml.is_none(), "{to}");
        let [finding] = migration.unsupported.as_slice() else { panic!("{to}") };
        assert!(finding.text.contains(why), "{finding:?}");
    }
}

#[test]
fn what_is_not_known_is_reported() {
    let migration = migrate("no.such.property=1\nslot.nmae=x\n");
    lacks(&migration, "no.such.property", "known here");
    lacks(&migration, "slot.nmae", "slot.name is what it may have meant");
    let migration = outbox(&[("table.field.payload", "data")]);
    differs(&migration, "transforms.outbox.table.field.payload", "table.field.event.payload");
    assert!(migration.is_complete());
}

#[test]
fn without_brokers_a_flag_is_asked_for() {
    let none = Given { file: "a test".to_owned(), ..Given::default() };
    let migration = migrate_with("", &none);
    lacks(&migration, "bootstrap.servers", "--bootstrap-servers HOST:PORT");
    writes(&migration, &["bootstrap_servers = \"${env:KAFKA_BOOTSTRAP_SERVERS}\""]);
    let own = migrate_with("producer.override.bootstrap.servers=k:1\n", &none);
    writes(&own, &["bootstrap_servers = \"k:1\""]);
}
