//! The topic of dead letters is missing, or takes only small records.

use e2e::{Fixture, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::reader::{ConsumedRecord, read_all};
use tokio_postgres::types::PgLsn;

use super::poison::{
    Poison, dead_letters, every_class, only_letter, prepared, write_among_innocents,
};
use super::{KEYS, drop_letters, states, wait_closed, write};

/// The router cannot write to the topic of dead letters, and says so: `end`, a position past the
/// row that becomes one, is not confirmed.
pub(super) async fn expect_waits(
    fixture: &mut Fixture,
    state: &str,
    code: &str,
    topic: &str,
    end: PgLsn,
) -> Value {
    let is_reported = |status: &Value| {
        text(status, "/state") == Some(state) && text(status, "/reason/code") == Some(code)
    };
    let what = format!("{state} with {code}");
    let status = fixture.router.wait_status(&what, SHORT_DEADLINE, is_reported).await.unwrap();
    let [message, hint] = ["message", "hint"].map(|of| text(&status, &format!("/reason/{of}")));
    assert!(message.is_some_and(|message| message.contains(topic)), "{status}");
    assert!(hint.is_some_and(|hint| hint.contains(topic)), "{status}");
    assert!(fixture.confirmed().await.unwrap() < end, "it was confirmed past the row");
    status
}

/// The records that show dead letters.
pub(super) async fn shown(fixture: &Fixture, topic: &str) -> Vec<ConsumedRecord> {
    read_all(&fixture.kafka.bootstrap(), &[topic]).await.unwrap()
}

#[tokio::test]
async fn a_missing_topic_of_dead_letters_blocks_and_a_small_one_is_told_where_the_row_is() {
    let (mut fixture, session, topic) = prepared(every_class()).await;
    fixture.restart().await.unwrap();
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let end = write_among_innocents(&session, &[(Poison::TooLarge, 11)]).await;
    write(&session, KEYS * 2).await;

    expect_waits(&mut fixture, "blocked", "K010", &topic, end).await;
    let often = |status: &Value| {
        status.pointer("/totals/errors/K010").and_then(Value::as_u64).is_some_and(|n| n >= 3)
    };
    fixture.router.wait_status("three lookups of the topic", SHORT_DEADLINE, often).await.unwrap();
    assert!(fixture.confirmed().await.unwrap() < end, "it was confirmed past the row");
    assert!(states(&session).await.is_empty(), "the row is in the table, and in no topic");

    // The topic that is made is too small for the row, so the record only says where the row is.
    fixture.kafka.create_topic(&topic, 1, &[("max.message.bytes", "2000")]).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    let letter = only_letter(&session).await;
    let records = shown(&fixture, &topic).await;
    assert_eq!(records.len(), 1, "{records:?}");
    let record = &records[0];
    assert_eq!((record.key.as_deref(), record.value.as_deref()), (Some(&[][..]), None));
    let header = |name: &str| record.header(&format!("__outbox_router.errors.{name}"));
    assert_eq!(header("value_left_out"), Some("true"));
    assert_eq!(header("code"), Some("K012"));
    assert_eq!(header("topic"), Some(fixture.topics[0].as_str()));
    assert_eq!(header("event_id"), Some(letter.event_id.as_str()));
    let place = format!("{}:{}", header("commit_lsn").unwrap(), header("index").unwrap());
    let row = dead_letters(&fixture, &["show", "--id", &place]).await;
    assert!(row.contains(&letter.event_id) && row.contains("xxxxxxxx"), "{row}");

    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
    assert_eq!(result.duplicates, 0);
}

/// A topic that is too small also for a record that only says where the row is.
#[tokio::test]
async fn a_topic_of_dead_letters_that_refuses_them_blames_no_other_event() {
    let (mut fixture, session, topic) = prepared(every_class()).await;
    let takes_nothing = [("max.message.bytes", "200")];
    fixture.kafka.create_topic(&topic, 1, &takes_nothing).await.unwrap();
    fixture.restart().await.unwrap();
    let end = write_among_innocents(&session, &[(Poison::Rejected, 11)]).await;
    write(&session, KEYS * 2).await;
    let status = expect_waits(&mut fixture, "failed", "K012", &topic, end).await;
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("--delete-config max.message.bytes"), "{hint}");
    assert!(!hint.contains("on_error"), "{hint}");

    fixture.kafka.set_topic(&topic, &[]).await.unwrap();
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(only_letter(&session).await.code, "K013");
    assert!(!shown(&fixture, &topic).await.is_empty());
    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    println!("{}", fixture.check().await.unwrap().clean().unwrap());
}
