//! Faults of topics, permissions and the configuration.

use std::fs;

use testbed::kafka::KafkaCluster;

use super::pair::{Found, Pair, STATE, TOPIC, doctor};

/// The state topic as the router makes it; what is not named returns to its default.
const STATE_SETTINGS: [(&str, &str); 1] = [("cleanup.policy", "compact")];

#[tokio::test]
async fn each_fault_of_kafka_is_named_by_its_code_alone() {
    let pair = Pair::start().await;
    let database = pair.database("shop").await;
    let kafka = &pair.kafka;

    for (settings, code) in [
        (("retention.ms", "60000"), "K023"),
        (("cleanup.policy", "compact"), "D033"),
        (("min.insync.replicas", "2"), "D032"),
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
    pair.expect_nothing("run creates the topic", &made);
    database.expect("D038", &["--set", "kafka.create_topics.replication_factor=3"]).await;
    database.expect("K022", &["--set", "name=another"]).await;
    database.expect("D042", &["--set", "kafka.state_topic="]).await;

    let listens = database.doctor(&["--set", "admin.listen=0.0.0.0:0"]).await;
    pair.expect_nothing("the admin endpoint is open", &listens);
    assert_eq!(listens.severity("D041"), "note");

    drop(database);
    permissions(&pair).await;
    pair.assert_named(9);
}

async fn permissions(pair: &Pair) {
    let (kafka, database) = (&pair.kafka, pair.database("permissions").await);
    let change = async |arguments: &[&str]| {
        let bootstrap = kafka.bootstrap();
        let principal = ["--bootstrap-server", &bootstrap, "--force"];
        kafka.change_acls(&[&principal[..], arguments].concat()).await.expect("changed");
    };
    let write =
        ["--deny-principal", KafkaCluster::PRINCIPAL, "--operation", "Write", "--topic", TOPIC];
    let all =
        ["--allow-principal", KafkaCluster::PRINCIPAL, "--operation", "All", "--topic", TOPIC];
    change(&[&["--add"], &write[..]].concat()).await;
    change(&[&["--add"], &all[..]].concat()).await;
    let found = eventually(async || database.doctor(&[]).await, "K011").await;
    pair.expect("K011", "a topic that may not be written", &found);
    assert!(found.remedy("K011").ends_with(&format!("--topic {TOPIC}")), "{found:?}");
}

/// A broker applies an access control list some time after the tool has ended.
async fn eventually(examine: impl AsyncFn() -> Found, code: &str) -> Found {
    for _ in 0..20 {
        let found = examine().await;
        if found.serious().contains(code) {
            return found;
        }
    }
    examine().await
}

#[tokio::test]
async fn a_secret_in_the_file_is_named_by_its_key_and_never_printed() {
    let pair = Pair::start().await;
    let database = pair.database("secrets").await;
    let url = database.url("router").replace("router@", "router:canary@");
    let text = format!(
        "[postgres]\nurl = \"{url}\"\nslot = \"secrets\"\n[kafka]\nbootstrap_servers = \"{}\"\n\
         [kafka.properties]\n\"ssl.key.password\" = \"canary\"\n",
        pair.kafka.bootstrap()
    );
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("written");
    let line = ["doctor".to_owned(), "--json".to_owned()];
    let found = doctor(Some(file.path()), &line).await;
    pair.expect("D040", "a password in the file", &found);
    pair.assert_named(1);
    let message = found
        .finding("D040")
        .get("message")
        .and_then(serde_json::Value::as_str)
        .expect("a message");
    assert!(message.contains("postgres.url, kafka.properties.\"ssl.key.password\""), "{message}");
    assert!(!found.report.to_string().contains("canary") && !found.err.contains("canary"));
}
