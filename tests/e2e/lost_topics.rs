//! Topics, and a whole Kafka, that go away with what was acknowledged: nothing stops for a topic,
//! and the note of it stays until a person has decided.

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use testbed::kafka::KafkaOptions;
use testbed::load::Load;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::wait::eventually;

/// The topics in use are looked at every 30 seconds.
const LOOKED_AT: Duration = Duration::from_secs(60);

async fn write(fixture: &mut Fixture, events: u64) {
    let load = Load { events: Some(events), ..Load::default() };
    let journal = fixture.load(load).finished().await.unwrap();
    fixture.note(journal);
}

/// A router that has delivered, and of which nothing is open.
async fn delivered(fixture: &mut Fixture) -> String {
    write(fixture, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    command(fixture, &["accept", "--yes"], 0).await;
    let accepted =
        |status: &Value| status.pointer("/witness/began_without").is_some_and(Value::is_null);
    fixture.router.wait_status("the beginning accepted", SHORT_DEADLINE, accepted).await.unwrap();
    fixture.topics.first().unwrap().clone()
}

/// Types a command, as the superuser where it takes one; its output.
async fn command(fixture: &Fixture, arguments: &[&str], exit_code: i32) -> String {
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let mut arguments = arguments.to_vec();
    if arguments.first() != Some(&"status") {
        arguments.extend(["--admin-url", admin.as_str()]);
    }
    let output = fixture.router.command(&arguments).await.unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert_eq!(output.status.code(), Some(exit_code), "{arguments:?}: {text}");
    text
}

fn lost(status: &Value) -> &[Value] {
    status.pointer("/witness/lost_topics").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[tokio::test]
async fn a_topic_made_again_while_no_router_ran_is_noted_until_a_person_accepts_that() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let topic = delivered(&mut fixture).await;
    fixture.kill_router().await.unwrap();
    fixture.kafka.delete_topic(&topic).await.unwrap();
    fixture.kafka.create_topic(&topic, 3, &[]).await.unwrap();
    // No router has noticed it, and the rows are the last copies.
    let session = fixture.session().await.unwrap();
    let rows = async || session.query_one("SELECT count(*) FROM outbox", &[]).await.unwrap();
    let before: i64 = rows().await.get(0);
    let cleanup = ["cleanup", "--slow", "--yes", "--set", "retention.mode=delete"];
    let refused = command(&fixture, &cleanup, 1).await;
    assert!(refused.contains("K024@") && refused.contains(&topic), "{refused}");
    assert_eq!(rows().await.get::<_, i64>(0), before);
    let down = command(&fixture, &["status"], 1).await;
    assert!(down.contains("open      K024@"), "{down}");
    fixture.restart().await.unwrap();
    let is_noted = |status: &Value| !lost(status).is_empty();
    // Before any event is sent to it.
    let status = fixture.router.wait_status("the note", LOOKED_AT, is_noted).await.unwrap();
    let [note] = lost(&status) else { panic!("{status}") };
    assert_eq!(
        (note["topic"].as_str(), status["state"].as_str()),
        (Some(&*topic), Some("streaming"))
    );
    assert!(note["was"].is_string() && note["now"].is_string() && note["was"] != note["now"]);
    let name = text(note, "/name").unwrap().to_owned();

    for restarts in 0..2 {
        let shown = command(&fixture, &["status"], 1).await;
        for expected in [
            "outbox-router replay --where SQL",
            &*format!("    outbox-router accept --gap {name}\n"),
            &topic,
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(shown.contains(&format!("open      {name}\n")), "{shown}");
        let page = fixture.router.get("/").await.unwrap().body;
        assert!(page.contains(&format!("accept --gap {name}")), "{page}");
        if restarts == 0 {
            fixture.kill_router().await.unwrap();
            let down = command(&fixture, &["status"], 1).await;
            assert!(down.contains(&format!("open      {name}\n")), "{down}");
            fixture.restart().await.unwrap();
        }
    }
    assert!(fixture.router.log().contains("was deleted and made again"));

    let accepted = command(&fixture, &["accept", "--gap", &name, "--yes", "--by", "ann"], 0).await;
    assert!(accepted.contains(&format!("accepted {name} by ann\n")), "{accepted}");
    let is_closed = |status: &Value| lost(status).is_empty();
    fixture.router.wait_status("no note", SHORT_DEADLINE, is_closed).await.unwrap();
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    // Longer than until the first look.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(lost(&fixture.status().await.unwrap()).is_empty());
    command(&fixture, &["status"], 0).await;
}

/// Inserts rows of a type whose topic no session has produced to. Returns the topic.
async fn write_rare(fixture: &Fixture, headers: &str) -> String {
    let topic = format!("{}rare", fixture.mapping.topic_prefix);
    fixture.kafka.create_topic(&topic, 1, &[]).await.unwrap();
    let session = fixture.session().await.unwrap();
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
         SELECT 'rare', 'key', 'Changed', '{{}}', '{headers}' FROM generate_series(1, 3)"
    );
    session.batch_execute(&sql).await.unwrap();
    topic
}

async fn make_again(fixture: &Fixture, topic: &str) {
    fixture.kafka.delete_topic(topic).await.unwrap();
    fixture.kafka.create_topic(topic, 1, &[]).await.unwrap();
}

/// Waits until the router says that this topic is gone.
async fn wait_noted(fixture: &mut Fixture, topic: &str) {
    let is_noted = |status: &Value| {
        lost(status).iter().any(|note| note["topic"] == topic && note["now"].is_string())
    };
    fixture.router.wait_status("the note", LOOKED_AT, is_noted).await.unwrap();
}

async fn drop_slot(fixture: &Fixture) {
    let session = fixture.session().await.unwrap();
    eventually(SHORT_DEADLINE, "the slot is dropped", async || {
        let dropped = session.execute("SELECT pg_drop_replication_slot($1)", &[&SLOT]).await;
        Ok(dropped.ok().map(drop))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_topic_that_only_a_recovery_has_produced_to_is_noted_when_it_is_made_again() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    fixture.start_accepted().await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&fixture).await;
    let topic = write_rare(&fixture, "{}").await;
    let said = command(&fixture, &["recover", "--yes", "--slow"], 0).await;
    assert!(said.contains("sent 3 records"), "{said}");
    make_again(&fixture, &topic).await;
    fixture.restart().await.unwrap();
    wait_noted(&mut fixture, &topic).await;
}

/// The router does not read the table: it learns of the topic from the state topic.
#[tokio::test]
async fn a_topic_that_only_a_command_beside_the_router_has_produced_to_is_noted_too() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    fixture.start_accepted().await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&fixture).await;
    let topic = write_rare(&fixture, "[7]").await;
    command(&fixture, &["recover", "--yes", "--slow", "--skip-bad"], 0).await;
    fixture.restart().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("UPDATE outbox SET headers = '{}'").await.unwrap();
    let said = command(&fixture, &["dead-letters", "requeue", "--left-out", "--all", "--yes"], 0);
    let said = said.await;
    let seen = fixture.kafka.end_offsets(&topic).await.unwrap();
    assert_eq!(seen, [3], "{said}");
    make_again(&fixture, &topic).await;
    wait_noted(&mut fixture, &topic).await;
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    wait_noted(&mut fixture, &topic).await;
}

#[tokio::test]
async fn a_topic_that_is_deleted_is_noted_although_nobody_has_made_it_again() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let topic = delivered(&mut fixture).await;
    fixture.kafka.delete_topic(&topic).await.unwrap();
    // Nothing is written meanwhile.
    let is_noted = |status: &Value| !lost(status).is_empty();
    let status = fixture.router.wait_status("the note", LOOKED_AT, is_noted).await.unwrap();
    assert!(lost(&status)[0]["now"].is_null(), "{status}");
    assert_eq!(status["state"], "streaming", "{status}");
    let shown = command(&fixture, &["status"], 1).await;
    assert!(shown.contains("does not exist any more"), "{shown}");

    // What was in it went with it.
    let session = fixture.session().await.unwrap();
    session.batch_execute(&format!("DELETE FROM {}", testbed::load::COMMITTED)).await.unwrap();
    write(&mut fixture, 20).await;
    fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();
    fixture.kafka.create_topic(&topic, 3, &[]).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let has_place = |status: &Value| lost(status).iter().any(|lost| lost["now"].is_string());
    let status = fixture.router.wait_status("the new id", LOOKED_AT, has_place).await.unwrap();
    assert_eq!(lost(&status).len(), 1, "{status}");
    fixture.check().await.unwrap().clean().unwrap();
}

/// An empty cluster under the address of the former one, while the router runs: it has no topic,
/// not even the router's own.
#[tokio::test]
async fn another_kafka_is_a_gap_before_anybody_makes_a_topic_there() {
    let mut fixture = Fixture::builder().own_kafka(KafkaOptions::default()).start().await.unwrap();
    delivered(&mut fixture).await;
    fixture.kafka.owned().unwrap().exchange().await.unwrap();
    write(&mut fixture, 5).await;
    let status = fixture.router.wait_state("failed", LOOKED_AT).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some("K021"), "{status}");
    assert!(lost(&status).is_empty(), "the gap says it: {status}");
}
