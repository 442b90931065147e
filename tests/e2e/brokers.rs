//! Brokers that come and go while others stay, and topics that are taken away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, largest_transaction, wait_committed};
use testbed::checker::{CheckOptions, check};
use testbed::kafka::KafkaOptions;
use testbed::load::{COMMITTED, Load};
use testbed::reader::ConsumedRecord;
use testbed::wait::eventually;

const DEADLINE: Duration = Duration::from_secs(90);

fn load() -> Load {
    Load { writers: 4, think: Duration::from_millis(10), ..Load::default() }
}

#[tokio::test]
async fn too_few_in_sync_replicas_and_a_rolling_restart_lose_nothing_and_keep_the_order() {
    const WINDOW: usize = 1_000;
    let mut fixture = Fixture::builder()
        .own_kafka(KafkaOptions::default().brokers(3).set("min.insync.replicas", "2"))
        .without_topics()
        .set("kafka.create_topics.partitions", 3)
        .set("kafka.create_topics.replication_factor", 3)
        .set("limits.window_events", WINDOW)
        .start()
        .await
        .unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 200).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let walsender = fixture.slot().await.unwrap().active_pid;

    // One of three is left, which takes nothing: `acks=all` asks for two.
    for id in [2, 3] {
        fixture.kafka.owned().unwrap().broker(id).unwrap().stop().await.unwrap();
    }
    let blocked = fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    assert_eq!(blocked["blame"], "kafka", "{blocked}");
    let held = fixture.confirmed().await.unwrap();
    wait_committed(&running, 200).await.unwrap();
    assert_eq!(
        fixture.confirmed().await.unwrap(),
        held,
        "a position was confirmed without acknowledgements"
    );
    fixture.kafka.owned().unwrap().start_again().await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();

    // One broker is killed, the other is shut down. Broker 1 is also the controller.
    for id in [3, 1] {
        let broker = fixture.kafka.owned().unwrap().broker(id).unwrap();
        match id {
            3 => broker.kill9().await.unwrap(),
            _ => broker.stop().await.unwrap(),
        }
        wait_committed(&running, 100).await.unwrap();
        fixture.kafka.owned().unwrap().start_again().await.unwrap();
        fixture.wait_delivered(DEADLINE).await.unwrap();
    }
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    let replays = sessions_ended_by_inference(&fixture.status().await.unwrap());
    println!("{result} · {replays} replays");
    let limit = replays * (WINDOW + largest_transaction(&fixture.truth().await.unwrap()));
    assert!(result.duplicates <= limit, "more than {limit} duplicates");
    if replays == 0 {
        assert_eq!(
            fixture.slot().await.unwrap().active_pid,
            walsender,
            "the router reconnected to PostgreSQL"
        );
    }
}

/// How often a report without an offset (K019) ended the session. It is the only reason to end one
/// when a broker goes away: if the connection to a leader is lost with requests in flight, and the
/// next leader acknowledges the later batch first, librdkafka infers that it has the earlier one.
fn sessions_ended_by_inference(status: &serde_json::Value) -> usize {
    let times = status.pointer("/totals/errors/K019").and_then(serde_json::Value::as_u64);
    times.unwrap_or_default().try_into().unwrap()
}

/// The last record of each event: what a consumer ends up with that lets later records overwrite
/// earlier ones.
fn last_record_of_each_event(seen: Vec<ConsumedRecord>) -> Vec<ConsumedRecord> {
    let mut last = HashMap::new();
    for record in seen {
        let id = record.header("id").expect("a header id").to_owned();
        match last.entry(id) {
            Entry::Vacant(entry) => drop(entry.insert(record)),
            Entry::Occupied(mut entry) if entry.get().offset < record.offset => {
                entry.insert(record);
            }
            Entry::Occupied(_) => {}
        }
    }
    last.into_values().collect()
}

/// What was acknowledged before a topic was deleted went with it: the promise begins with what was
/// not.
///
/// Of that nothing is lost, and it is in order, but not always at once. The new topic's partitions
/// know nothing of the router's producer and take the first batch that reaches them, also when
/// those before it were refused while there was no topic. The router sees that the broker never
/// spoke for these, and sends again from the first of them on. So an event may be there before its
/// forerunner, once; then both come again, in order.
#[tokio::test]
async fn rows_written_while_a_topic_is_deleted_arrive_when_it_is_recreated() {
    // One record in a request and hardly a pause between attempts, that the topic comes into being
    // while some are in flight; and one partition, that they are all for the same. Which of them it
    // takes first is another each time.
    const TIMES: usize = 6;
    const PARTITIONS: i32 = 1;
    let mut fixture = Fixture::builder()
        .partitions(PARTITIONS)
        .set("kafka.properties.\"batch.num.messages\"", "1")
        .set("kafka.properties.\"retry.backoff.ms\"", "1")
        .start()
        .await
        .unwrap();
    let topic = fixture.topics[0].clone();
    let session = fixture.session().await.unwrap();
    for time in 0..TIMES {
        let journal = fixture.load(Load { events: Some(100), ..load() }).finished().await.unwrap();
        fixture.note(journal);
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        fixture.kafka.delete_topic(&topic).await.unwrap();
        // What was in it went with it.
        session.batch_execute(&format!("DELETE FROM {COMMITTED}")).await.unwrap();

        let running = fixture.load(load());
        if time == 0 {
            let blocked = fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
            assert_eq!(blocked["blame"], "kafka", "{blocked}");
        }
        wait_committed(&running, 100).await.unwrap();
        fixture.kafka.create_topic(&topic, PARTITIONS, &[]).await.unwrap();
        fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
        fixture.note(running.stop().await.unwrap());
        // Everything counts as acknowledged by now, so everything has to be there.
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        let (truth, seen) = (fixture.truth().await.unwrap(), fixture.seen().await.unwrap());
        let copies = seen.len();
        let result = check(&truth, &last_record_of_each_event(seen), &CheckOptions::default())
            .clean()
            .unwrap();
        println!("{result} · {} earlier copies", copies - result.records);
    }
}

/// Whether the broker has a topic; asking does not make one.
async fn exists(fixture: &Fixture, topic: &str) -> bool {
    fixture.kafka.end_offsets(topic).await.is_ok()
}

#[tokio::test]
async fn the_router_does_not_make_the_broker_auto_create_a_topic() {
    let mut fixture = Fixture::builder()
        .own_kafka(KafkaOptions::default().set("auto.create.topics.enable", "true"))
        .without_topics()
        .prepare()
        .await
        .unwrap();
    let topic = fixture.topics[0].clone();
    // Somebody else's producer, as it comes, has one made by asking for it.
    let theirs = format!("{topic}-theirs");
    let (bootstrap, asked) = (fixture.kafka.bootstrap(), theirs.clone());
    let asking = tokio::task::spawn_blocking(move || {
        use rdkafka::producer::{BaseProducer, Producer};
        let mut config = rdkafka::ClientConfig::new();
        let producer: BaseProducer = config.set("bootstrap.servers", bootstrap).create().unwrap();
        drop(producer.client().fetch_metadata(Some(&asked), SHORT_DEADLINE));
    });
    asking.await.unwrap();
    eventually(SHORT_DEADLINE, "the topic that the broker creates automatically", async || {
        Ok(exists(&fixture, &theirs).await.then_some(()))
    })
    .await
    .unwrap();

    fixture.restart().await.unwrap();
    let journal = fixture.load(Load { events: Some(50), ..load() }).finished().await.unwrap();
    fixture.note(journal);
    let status = fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    assert_eq!(status["reason"]["code"], "K010", "{status}");
    let often = |status: &serde_json::Value| {
        status["totals"]["errors"]["K010"].as_u64().is_some_and(|samples| samples >= 3)
    };
    fixture.router.wait_status("three lookups of the topic", SHORT_DEADLINE, often).await.unwrap();
    assert!(!exists(&fixture, &topic).await, "the router's metadata request created the topic");

    fixture.kafka.create_topic(&topic, 3, &[]).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}
