//! Keys of a megabyte.

use e2e::SHORT_DEADLINE;
use testbed::postgres::DatabaseSession;
use testbed::reader::{ConsumedRecord, read_all};

use super::bulk::{create_functions, write_poison, write_transactions};
use super::{
    builder, dead_letters, decide_about_all, make_tables, open, remove_cause, started, states,
    wait_closed, wait_open,
};

/// The aggregate whose key is long.
const LONG: i32 = 4;
const MEGABYTE: usize = 1 << 20;

/// What Kafka has by default, which is a megabyte and some bytes.
const SMALL: (&str, &str) = ("max.message.bytes", "1048588");
const LARGE: (&str, &str) = ("max.message.bytes", "4194304");

async fn lengthen_key(session: &DatabaseSession) {
    // No index takes such a value.
    let sql = format!(
        "ALTER TABLE testbed.aggregate DROP CONSTRAINT aggregate_id_key; \
         UPDATE testbed.aggregate SET id = repeat('k', {MEGABYTE}) WHERE n = {LONG}"
    );
    session.batch_execute(&sql).await.unwrap();
}

fn is_long(record: &&ConsumedRecord) -> bool {
    record.key.as_ref().is_some_and(|key| key.len() == MEGABYTE)
}

/// `list` and `list --events` show a key in part.
fn assert_short(listed: &str) {
    assert!(listed.contains("kkkk…"), "{:.2000}", listed);
    assert!(listed.len() < 10_000, "{} characters", listed.len());
}

#[tokio::test]
async fn a_poisoned_key_of_a_megabyte_is_held_listed_and_released_like_any_other() {
    let (mut fixture, session) = started(builder()).await;
    create_functions(&session).await;
    lengthen_key(&session).await;
    write_transactions(&session, 1, 10, 2).await;
    write_poison(&session, LONG).await;
    write_transactions(&session, 1, 10, 3).await;

    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open(&session).await, (4, 1));
    let result = fixture.check().await.unwrap();
    println!("while the key is held: {result}");
    assert_eq!((result.sent, result.lost.count(), result.order.count()), (51, 4, 0));
    for line in [&["list"][..], &["list", "--events"]] {
        let (code, listed) = dead_letters(&fixture, line).await;
        assert_eq!(code, Some(1));
        assert_short(&listed);
    }
    remove_cause(&mut fixture).await;
    let told = decide_about_all(&fixture, "requeue").await;
    assert_short(&told);
    wait_closed(&session).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("after the release: {result}");
    assert_eq!(result.duplicates, 0);
    assert_eq!(states(&session).await, [("delivered".to_owned(), 4)].into());
    let seen = fixture.seen().await.unwrap();
    assert_eq!(seen.iter().filter(is_long).count(), 6);
}

/// Its records are larger than the topic takes. The topic of dead letters takes no such key either,
/// so what it shows has none.
#[tokio::test]
async fn records_that_are_too_large_for_their_key_alone_are_dead_letters_until_the_topic_takes_them()
 {
    let builder = builder().set("on_error.too_large", "dead_letter");
    let mut fixture = builder.prepare().await.unwrap();
    make_tables(&fixture).await;
    let session = fixture.session().await.unwrap();
    create_functions(&session).await;
    lengthen_key(&session).await;
    let topic = fixture.topics[0].clone();
    let letters = format!("{topic}.letters");
    fixture.kafka.set_topic(&topic, &[SMALL]).await.unwrap();
    fixture.kafka.create_topic(&letters, 1, &[SMALL]).await.unwrap();
    fixture.config.set("dead_letters.topic", letters.as_str());
    fixture.rewrite_config().unwrap();
    fixture.restart().await.unwrap();
    write_transactions(&session, 1, 10, 3).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open(&session).await, (3, 1), "the first, and two that wait behind it");
    let (code, listed) = dead_letters(&fixture, &["list"]).await;
    assert_eq!(code, Some(1));
    assert_short(&listed);
    assert!(listed.contains("K012"), "{listed}");

    // Dropped, the next of the key is looked at, and is too large as well.
    decide_about_all(&fixture, "drop").await;
    wait_open(&session, (2, 1)).await;
    assert_eq!(states(&session).await["dropped"], 1);

    // Requeued after the limit was raised, while the router runs.
    fixture.kafka.set_topic(&topic, &[LARGE]).await.unwrap();
    decide_about_all(&fixture, "requeue").await;
    wait_closed(&session).await;
    write_transactions(&session, 1, 10, 1).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let expected = [("delivered".to_owned(), 2), ("dropped".to_owned(), 1)];
    assert_eq!(states(&session).await, expected.into());
    let result = fixture.check().await.unwrap();
    println!("{result}");
    assert_eq!((result.sent, result.lost.count()), (40, 1), "the dropped one");
    assert_eq!(result.examples().len(), 1, "{:?}", result.examples());

    let shown = read_all(&fixture.kafka.bootstrap(), &[&letters]).await.unwrap();
    assert_eq!(shown.len(), 2, "each dead letter");
    for record in &shown {
        assert_eq!(record.header("__outbox_router.errors.code"), Some("K012"));
        assert_eq!(record.header("__outbox_router.errors.value_left_out"), Some("true"));
        assert!(record.key.as_ref().is_none_or(Vec::is_empty), "the key does not fit");
    }
}
