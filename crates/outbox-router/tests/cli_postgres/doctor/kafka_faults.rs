//! Faults of topics, permissions and the configuration.

use std::fs;

use testbed::kafka::KafkaCluster;

use super::{
    found::{Found, doctor},
    pair::{Pair, TOPIC},
    place::STATE,
};

/// What is planted here.
pub(super) const CODES: &[&str] = &[
    "D030", "D032", "D033", "D034", "D036", "D037", "D038", "D040", "D041", "D042", "K010", "K011",
    "K020", "K022", "K023",
];

/// The state topic as the router makes it; what is not named returns to its default.
const STATE_SETTINGS: [(&str, &str); 1] = [("cleanup.policy", "compact")];

#[tokio::test]
pub(super) async fn each_fault_of_kafka_is_named_by_its_code_alone() {
    let pair = Pair::start().await;
    let database = pair.database("shop").await;
    let kafka = &pair.kafka;

    for (settings, code) in [
        (("message.timestamp.before.max.ms", "60000"), "K023"),
        (("cleanup.policy", "compact"), "D033"),
        (("min.insync.replicas", "2"), "D032"),
        (("max.message.bytes", "1000000"), "D034"),
    ] {
        kafka.set_topic(TOPIC, &[settings]).await.expect("set");
        database.expect(code, &[]).await;
    }
    kafka.set_topic(TOPIC, &[]).await.expect("set");
    kafka.set_topic(STATE, &[("cleanup.policy", "compact,delete")]).await.expect("set");
    database.expect("K020", &[]).await;
    kafka.set_topic(STATE, &STATE_SETTINGS).await.expect("set");

    let absent = ["--set", "outbox.0.table=public.outbox", "--set", "outbox.0.topic=absent"];
    let found = database.expect("K010", &absent).await;
    assert!(found.remedy("K010").contains("--create --topic absent"), "{found:?}");
    let created = ["--set", "kafka.create_topics.replication_factor=1"];
    let made = database.doctor(&[&absent[..], &created].concat()).await;
    pair.ledger.expect_nothing("run creates the topic", &made);
    database.expect("D038", &["--set", "kafka.create_topics.replication_factor=3"]).await;
    database.expect("K022", &["--set", "name=another"]).await;
    database.expect("D042", &["--set", "kafka.state_topic="]).await;

    let templates = ["--set", "outbox.0.table=public.outbox"];
    let none_yet = ["--set", "outbox.0.topic=absent.${aggregate_type}"];
    database.expect("D030", &[templates, none_yet].concat()).await;
    database.expect("D041", &["--set", "admin.listen=0.0.0.0:0"]).await;

    drop(database);
    secrets(&pair).await;
    permissions(&pair).await;
    pair.ledger.assert_proved(CODES);
}

async fn permissions(pair: &Pair) {
    let (kafka, database) = (&pair.kafka, pair.database("permissions").await);
    let change = async |arguments: &[&str]| {
        let bootstrap = kafka.bootstrap();
        let principal = ["--bootstrap-server", &bootstrap, "--force"];
        kafka.change_acls(&[&principal[..], arguments].concat()).await.expect("changed");
    };
    let of = |operation| ["--operation", operation, "--topic", TOPIC];
    let allow = ["--add", "--allow-principal", KafkaCluster::PRINCIPAL];
    let deny = ["--add", "--deny-principal", KafkaCluster::PRINCIPAL];
    let create = ["--operation", "Create", "--cluster"];

    // Where a resource has any list, what no list allows is forbidden.
    change(
        &[&allow[..], &["--operation", "Describe", "--operation", "Write", "--topic", TOPIC]]
            .concat(),
    )
    .await;
    let found = eventually(async || database.doctor(&[]).await, "D036").await;
    pair.ledger.expect("D036", "settings that may not be read", &found);
    change(&[&allow[..], &of("All")].concat()).await;
    change(&[&deny[..], &of("Write")].concat()).await;
    let found = eventually(async || database.doctor(&[]).await, "K011").await;
    pair.ledger.expect("K011", "a topic that may not be written", &found);
    assert!(found.remedy("K011").ends_with(&format!("--topic {TOPIC}")), "{found:?}");
    change(&["--remove", deny[1], deny[2], "--operation", "Write", "--topic", TOPIC]).await;

    let creates = ["--set", "kafka.create_topics.partitions=1"];
    database.expect_nothing("topics may be created", &creates).await;
    change(&[&deny[..], &create].concat()).await;
    let found = eventually(async || database.doctor(&creates).await, "D037").await;
    pair.ledger.expect("D037", "topics that may not be created", &found);
}

/// A broker applies an access control list some time after the tool has ended.
async fn eventually(examine: impl AsyncFn() -> Found, code: &str) -> Found {
    for _ in 0..20 {
        let found = examine().await;
        if !found.quiet().contains(code) {
            return found;
        }
    }
    examine().await
}

/// A secret in the file is named by its key, and never printed.
async fn secrets(pair: &Pair) {
    let database = pair.database("secrets").await;
    let text = |secret: &str| {
        format!(
            "[postgres]\nurl = \"{}\"\nslot = \"secrets\"\n\
             [kafka]\nbootstrap_servers = \"{}\"\n\
             [kafka.properties]\n\"ssl.key.password\" = \"{secret}\"\n",
            database.url(&format!("router:{secret}")),
            pair.kafka.bootstrap()
        )
    };
    let (file, secret) = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a file")).into();
    let line = ["doctor".to_owned(), "--json".to_owned()];
    fs::write(secret.path(), "canary").expect("written");
    fs::write(file.path(), text(&format!("${{file:{}}}", secret.path().display()))).expect("it");
    let found = doctor(Some(file.path()), &line).await;
    pair.ledger.expect_nothing("the password is elsewhere", &found);

    fs::write(file.path(), text("canary")).expect("written");
    let found = doctor(Some(file.path()), &line).await;
    pair.ledger.expect("D040", "a password in the file", &found);
    let message = found
        .finding("D040")
        .get("message")
        .and_then(serde_json::Value::as_str)
        .expect("a message");
    assert!(message.contains("postgres.url, kafka.properties.\"ssl.key.password\""), "{message}");
    assert!(!found.report.to_string().contains("canary") && !found.err.contains("canary"));
}
