//! Events that Kafka has, and those that it had.

use e2e::{Fixture, SHORT_DEADLINE};
use serde_json::json;
use testbed::kafka::KafkaOptions;
use testbed::wait::eventually;

use super::{insert, told, where_is};

#[tokio::test]
async fn an_acknowledged_event_is_named_by_topic_partition_and_offset() {
    let fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let mut ids = Vec::new();
    for key in ["a", "b", "c", "a"] {
        ids.push(insert(&session, "order", key).await);
    }
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    for id in &ids {
        let record = seen.iter().find(|record| record.header("id") == Some(id)).unwrap();
        let answer = where_is(&fixture, &[id]).await;
        answer.expect("acknowledged", "at offset ");
        let place = [&answer.json["topic"], &answer.json["partition"], &answer.json["offset"]];
        assert_eq!(
            place,
            [&json!(&*record.topic), &json!(record.partition), &json!(record.offset)]
        );
        assert_eq!(answer.text("table"), "public.outbox");
        // Without commit timestamps of the server, the record's own says when it was committed.
        assert_eq!(answer.text("committed_at_source"), "the record's timestamp");
        assert_eq!(answer.text("committed_at"), answer.text("record_at"));
        assert_eq!(answer.json["searched"].as_array().unwrap().len(), 1, "one partition was read");
    }
    let upper = ids[0].to_uppercase();
    where_is(&fixture, &[&upper]).await.expect("acknowledged", "at offset ");
    let told = told(&fixture, &[&ids[0]]).await;
    assert!(told.contains("state      acknowledged: at offset "), "{told}");
    assert!(told.contains("read       "), "{told}");
}

#[tokio::test]
async fn the_server_says_when_an_event_was_committed_where_it_keeps_that() {
    let fixture =
        Fixture::builder().postgres("track_commit_timestamp", "on").start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "order", "a").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("acknowledged", "at offset ");
    assert_eq!(answer.text("committed_at_source"), "the server's commit timestamp");
    assert_eq!(answer.text("committed_at"), answer.text("record_at"));
}

#[tokio::test]
async fn an_event_whose_row_is_deleted_is_found_in_the_topics() {
    let fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let (id, other) = (insert(&session, "order", "a").await, insert(&session, "order", "b").await);
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    session.batch_execute("DELETE FROM outbox").await.unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("deleted", "no table has its row any more");
    assert_eq!((answer.text("topic"), answer.text("key")), (fixture.topics[0].as_str(), "a"));
    assert!(answer.text("since").contains("last 60 min"), "{:#}", answer.json);
    // Its key leads to one partition.
    let answer = where_is(&fixture, &[&id, "--key", "a"]).await;
    answer.expect("deleted", "at offset ");
    assert_eq!(answer.json["searched"].as_array().unwrap().len(), 1, "{:#}", answer.json);
    where_is(&fixture, &[&other, "--since", "1h"]).await.expect("deleted", "at offset ");
    // Nothing is as young as that.
    let answer = where_is(&fixture, &[&id, "--since", "2999-01-01"]).await;
    answer.expect("not_committed", "since 2999-01-01");
}

#[tokio::test]
async fn an_event_of_a_topic_that_has_grown_is_found_in_its_former_partition() {
    let fixture = Fixture::builder().partitions(1).start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let mut ids = Vec::new();
    for key in ["a", "b", "c", "d"] {
        ids.push(insert(&session, "order", key).await);
    }
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kafka.grow_topic(&fixture.topics[0], 5).await.unwrap();
    for id in &ids {
        let answer = where_is(&fixture, &[id]).await;
        answer.expect("acknowledged", "at offset ");
        assert_eq!(answer.json["partition"], 0);
    }
}

#[tokio::test]
async fn an_event_that_its_topic_has_deleted_is_expired() {
    let eager = KafkaOptions::default()
        .set("log.initial.task.delay.ms", "100")
        .set("log.retention.check.interval.ms", "500");
    let builder = Fixture::builder().own_kafka(eager).without_topics();
    let mut fixture = builder.prepare().await.unwrap();
    let topic = fixture.topics[0].clone();
    let settings = [("retention.ms", "1000"), ("segment.ms", "100")];
    fixture.kafka.create_topic(&topic, 1, &settings).await.unwrap();
    fixture.restart().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert(&session, "order", "a").await;
    // A segment is closed when another record comes, and deleted by a task of the broker.
    eventually(SHORT_DEADLINE * 2, "records that the topic has deleted", async || {
        insert(&session, "order", "later").await;
        let answer = where_is(&fixture, &[&id]).await;
        Ok((answer.text("state") == "expired").then_some(answer))
    })
    .await
    .unwrap()
    .expect("expired", "retention.ms=1000");
}

#[tokio::test]
async fn of_a_compacted_topic_it_is_said_that_it_keeps_the_last_of_each_key() {
    let mut fixture = Fixture::builder().without_topics().prepare().await.unwrap();
    let topic = fixture.topics[0].clone();
    fixture.kafka.create_topic(&topic, 1, &[("cleanup.policy", "compact")]).await.unwrap();
    let session = fixture.session().await.unwrap();
    // The slot passes it without a router.
    let id = insert(&session, "order", "a").await;
    super::undelivered::pass_slot(&session).await;
    fixture.restart().await.unwrap();
    insert(&session, "order", "a").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    where_is(&fixture, &[&id]).await.expect("expired", "is compacted");
}
