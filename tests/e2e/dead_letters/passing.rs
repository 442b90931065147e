//! What concerns more than one row makes no dead letters, whatever `[on_error]` says: a missing
//! topic, a missing right, a broker that is down. It is waited for, and so is the topic of dead
//! letters where the router may not write to it.

use e2e::{Fixture, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::checker::CheckResult;
use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::load::{Preset, Schema};
use testbed::postgres::DatabaseSession;
use testbed::reader::ConsumedRecord;
use tokio_postgres::types::PgLsn;

use super::letter_topic::{expect_waits, shown};
use super::poison::{
    Poison, every_class, expect_few_duplicates, only_letter, prepared, write_among_innocents,
};
use super::{KEYS, drop_letters, states, wait_closed, write};

/// Leaves the clients everything but to write to these topics.
async fn forbid(fixture: &Fixture, topics: [&str; 2]) {
    let bootstrap = fixture.kafka.bootstrap();
    let mut line = vec!["--bootstrap-server", &bootstrap, "--add", "--allow-principal"];
    line.extend([KafkaCluster::PRINCIPAL, "--operation", "Read", "--operation", "Describe"]);
    line.extend(["--operation", "DescribeConfigs"]);
    topics.iter().for_each(|topic| line.extend(["--topic", topic]));
    fixture.kafka.change_acls(&line).await.unwrap();
}

/// Does what the hint of K011 says.
async fn allow(fixture: &Fixture, status: &Value) {
    let hint = text(status, "/reason/hint").unwrap().replace("User:NAME", KafkaCluster::PRINCIPAL);
    let command = hint.strip_prefix("kafka-acls.sh ").unwrap_or_else(|| panic!("{hint}"));
    fixture.kafka.change_acls(&command.split(' ').collect::<Vec<_>>()).await.unwrap();
}

/// Waits until everything is delivered again, and nothing was held.
async fn expect_goes_on(fixture: &mut Fixture, session: &DatabaseSession) -> CheckResult {
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert!(states(session).await.is_empty(), "an event is in the table");
    result
}

/// Writes events of every key, and returns a position past them.
async fn write_more(session: &DatabaseSession) -> PgLsn {
    write(session, KEYS * 4).await;
    session.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_missing_topic_a_missing_right_and_a_broker_that_is_down_make_no_dead_letters() {
    let schema = Schema::new(Preset::Default).types(&["order", "invoice"]);
    let kafka = KafkaOptions::default().with_acls();
    let (mut fixture, session, topic) =
        prepared(every_class().schema(schema).own_kafka(kafka)).await;
    let invoices = fixture.topics[1].clone();
    fixture.kafka.create_topic(&topic, 1, &[]).await.unwrap();
    forbid(&fixture, [&invoices, &topic]).await;
    fixture.restart().await.unwrap();

    let end = write_more(&session).await;
    expect_waits(&mut fixture, "blocked", "K010", &invoices, end).await;
    fixture.kafka.create_topic(&invoices, 3, &[]).await.unwrap();
    let status = expect_waits(&mut fixture, "blocked", "K011", &invoices, end).await;
    allow(&fixture, &status).await;
    println!("{}", expect_goes_on(&mut fixture, &session).await);

    fixture.kafka.owned().unwrap().stop().await.unwrap();
    let end = write_more(&session).await;
    let bootstrap = fixture.kafka.bootstrap();
    let is_unreachable = |status: &Value| {
        text(status, "/state") == Some("blocked") && text(status, "/reason/code") == Some("K001")
    };
    let status = fixture.router.wait_status("K001", SHORT_DEADLINE, is_unreachable).await.unwrap();
    assert!(text(&status, "/reason/message").unwrap().contains(&bootstrap), "{status}");
    assert!(fixture.confirmed().await.unwrap() < end, "it was confirmed without Kafka");
    fixture.kafka.owned().unwrap().start_again().await.unwrap();
    println!("{}", expect_goes_on(&mut fixture, &session).await);
    assert_eq!(fixture.router.metric("outbox_dead_letters_total", "").await.unwrap(), Some(0.0));

    // The topic of dead letters, to which the router may not write.
    let end = write_among_innocents(&session, &[(Poison::Rejected, 12)]).await;
    let status = expect_waits(&mut fixture, "blocked", "K011", &topic, end).await;
    assert!(shown(&fixture, &topic).await.is_empty());
    allow(&fixture, &status).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let letter = only_letter(&session).await;
    assert_eq!(letter.code, "K013");
    let records = shown(&fixture, &topic).await;
    let is_of_letter = |record: &ConsumedRecord| record.header("id") == Some(&letter.event_id);
    assert!(!records.is_empty() && records.iter().all(is_of_letter), "{records:?}");
    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
    // The last transaction has so many, and so has each step before it.
    expect_few_duplicates(&fixture, result.duplicates, 200).await;
}
