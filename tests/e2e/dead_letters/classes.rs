//! One row of each class.

use std::collections::BTreeSet;

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::postgres::DatabaseSession;
use testbed::reader::{ConsumedRecord, read_all};
use testbed::wait::eventually;

use super::poison::{
    Letter, Poison, dead_letters, every_class, expect_few_duplicates, letters, only_letter,
    prepared, write_among_innocents,
};
use super::{KEYS, drop_letters, open_of, states, wait_closed, write};

/// A row of each class and its key, in the order in which they are written.
const ROWS: [(Poison, i32); 4] = [
    (Poison::Rejected, 11),
    (Poison::BadRow, 12),
    (Poison::TooLarge, 13),
    (Poison::Unroutable, 14),
];

/// How many events of the `nth` row's key come after it: two after each row, and two at the end.
fn followers(nth: usize) -> usize {
    2 * (ROWS.len() - nth) + 2
}

/// The ids of committed events that are not in Kafka.
async fn missing_in_kafka(fixture: &Fixture) -> BTreeSet<String> {
    let (truth, seen) = (fixture.truth().await.unwrap(), fixture.seen().await.unwrap());
    let there: BTreeSet<&str> = seen.iter().filter_map(|record| record.header("id")).collect();
    let ids = truth.events.iter().map(|event| event.id.to_string());
    ids.filter(|id| !there.contains(id.as_str())).collect()
}

/// The ids of the events that are held behind dead letters.
async fn held_behind(session: &DatabaseSession) -> BTreeSet<String> {
    let sql = "SELECT event_id FROM outbox_router.held WHERE code IS NULL";
    session.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Each dead letter is in its topic. The sessions that search a refused record may write the others
/// of its transaction again.
async fn expect_shown(fixture: &Fixture, topic: &str, letters: &[Letter]) {
    let records = read_all(&fixture.kafka.bootstrap(), &[topic]).await.unwrap();
    for (letter, (poison, _)) in letters.iter().zip(ROWS) {
        let of_letter = |record: &&ConsumedRecord| is_of(record, letter);
        let copies: Vec<_> = records.iter().filter(of_letter).collect();
        assert!(!copies.is_empty(), "no record shows {letter:?}");
        for record in copies {
            expect_content(fixture, record, letter, poison);
        }
    }
    let strange: Vec<_> = records
        .iter()
        .filter(|record| !letters.iter().any(|letter| is_of(record, letter)))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

fn is_of(record: &ConsumedRecord, letter: &Letter) -> bool {
    record.header("__outbox_router.errors.event_id") == Some(&letter.event_id)
}

/// A record of a dead letter says why and where, and is the original as far as it can be made.
fn expect_content(fixture: &Fixture, record: &ConsumedRecord, letter: &Letter, poison: Poison) {
    assert_eq!(record.key.as_deref(), Some(letter.key.as_bytes()));
    let header = |name: &str| record.header(&format!("__outbox_router.errors.{name}"));
    let index = letter.index.to_string();
    let commit_lsn = letter.commit_lsn.to_string();
    assert_eq!(header("code"), Some(poison.code()));
    assert_eq!(header("message"), Some(letter.error.as_str()));
    assert_eq!(header("table"), Some("public.outbox"));
    assert_eq!(header("commit_lsn"), Some(commit_lsn.as_str()));
    assert_eq!(header("index"), Some(index.as_str()));
    assert_eq!(header("committed_at"), Some(letter.committed_at.as_str()));
    let topic = fixture.topics.first().unwrap().as_str();
    assert_eq!(header("topic"), poison.has_topic().then_some(topic));
    assert_eq!(record.value.as_deref(), Some(letter.payload.as_bytes()));
    assert_eq!(header("value_left_out"), None);
    assert_eq!(record.header("id"), Some(letter.event_id.as_str()));
    assert_eq!(record.header("type"), Some("Poison"));
    assert_eq!(record.header("tenant"), poison.has_own_headers().then_some("t"));
}

/// The broker names no record when it refuses a batch, so the sessions that find it send again what
/// is innocent.
#[tokio::test]
async fn of_a_transaction_only_the_rows_at_fault_become_dead_letters_in_every_class() {
    let (mut fixture, session, topic) = prepared(every_class()).await;
    fixture.kafka.create_topic(&topic, 1, &[]).await.unwrap();
    fixture.restart().await.unwrap();
    write(&session, KEYS * 2).await;
    write_among_innocents(&session, &ROWS).await;
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    // In the table: the rows at fault, and what follows in their keys.
    let letters = letters(&session).await;
    let codes: Vec<&str> = letters.iter().map(|letter| letter.code.as_str()).collect();
    assert_eq!(codes, ROWS.map(|(poison, _)| poison.code()), "{letters:?}");
    let held = (0..ROWS.len()).map(followers).sum::<usize>();
    let open = i64::try_from(held + ROWS.len()).unwrap();
    assert_eq!(states(&session).await.into_iter().collect::<Vec<_>>(), [("held".into(), open)]);
    for (nth, (poison, key)) in ROWS.into_iter().enumerate() {
        let expected = i64::try_from(followers(nth) + 1).unwrap();
        assert_eq!(open_of(&session, key).await, (expected, 1), "{poison:?}");
    }
    // In Kafka: everything else, in order.
    let result = fixture.check().await.unwrap();
    println!("{result}");
    assert_eq!(result.lost.count(), held, "{result}");
    assert_eq!((result.order.count(), result.phantom.count(), result.altered.count()), (0, 0, 0));
    assert_eq!(missing_in_kafka(&fixture).await, held_behind(&session).await);
    expect_shown(&fixture, &topic, &letters).await;

    assert_eq!(drop_letters(&session).await, 4);
    wait_closed(&session).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
    // The transaction's, and those written after it.
    expect_few_duplicates(&fixture, result.duplicates, 600).await;
    let closed = i64::try_from(held).unwrap();
    let expected = [("delivered".to_owned(), closed), ("dropped".to_owned(), 4)];
    assert_eq!(states(&session).await.into_iter().collect::<Vec<_>>(), expected);
}

/// With compression the router cannot know how large a batch is, so the broker refuses the record.
#[tokio::test]
async fn a_record_that_is_too_large_even_when_compressed_becomes_a_dead_letter() {
    const KEY: i32 = 8;
    let compressed = every_class().set("kafka.properties.\"compression.type\"", "lz4");
    let (mut fixture, session, topic) = prepared(compressed).await;
    fixture.kafka.create_topic(&topic, 1, &[]).await.unwrap();
    fixture.restart().await.unwrap();
    let noise = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
                 SELECT 'order', 'order-8', 'Poison', jsonb_build_object('pad', \
                 string_agg(md5(g::text), '')) FROM generate_series(1, 3000) g";
    write(&session, KEYS * 2).await;
    session.batch_execute(noise).await.unwrap();
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(only_letter(&session).await.code, "K012");
    assert_eq!(open_of(&session, KEY).await, (3, 1));

    // Requeued without a change of the cause, it is refused again.
    dead_letters(&fixture, &["requeue", "--all", "--yes"]).await;
    let is_refused_again = async || Ok((open_of(&session, KEY).await == (3, 1)).then_some(()));
    eventually(SHORT_DEADLINE, "the second refusal", is_refused_again).await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    println!("{}", fixture.check().await.unwrap().clean().unwrap());
}
