//! The outbox table is altered between the moment a row is held and the moment it leaves.

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::checker::{CheckOptions, CheckResult, check};
use testbed::reader::ConsumedRecord;

use super::poison::{
    Poison, dead_letters, every_class, only_letter, prepared, write_among_innocents,
};
use super::{KEYS, open_of, states, wait_closed, write};

const KEY: i32 = 23;

/// Columns that the configuration does not name.
const COLUMNS: &str =
    "ALTER TABLE outbox ADD COLUMN note text DEFAULT 'n', ADD COLUMN extra int DEFAULT 7";

/// A column that the configuration does not name is renamed, another is added with a value for
/// every row, and one is removed that the held rows still have.
const ALTER: &str = "ALTER TABLE outbox RENAME COLUMN note TO remark;
    ALTER TABLE outbox ADD COLUMN region text NOT NULL DEFAULT 'eu';
    ALTER TABLE outbox DROP COLUMN extra";

/// What the checker finds beside the poisoned rows, which it takes for phantoms.
async fn check_without_poison(fixture: &Fixture, seen: &[ConsumedRecord]) -> CheckResult {
    let others: Vec<_> = seen.iter().filter(|record| !is_poison(record)).cloned().collect();
    check(&fixture.truth().await.unwrap(), &others, &CheckOptions::default()).clean().unwrap()
}

/// Which records of the key are the poisoned rows, counted from 0.
fn places_of_poison(seen: &[ConsumedRecord]) -> Vec<usize> {
    let key = format!("order-{KEY}");
    let of_key = |record: &&ConsumedRecord| record.key.as_deref() == Some(key.as_bytes());
    let mut records: Vec<_> = seen.iter().filter(of_key).collect();
    records.sort_by_key(|record| record.offset);
    (0..).zip(records).filter(|(_, record)| is_poison(record)).map(|(place, _)| place).collect()
}

fn is_poison(record: &ConsumedRecord) -> bool {
    record.header("type") == Some("Poison")
}

/// The one record of an event.
fn record_of<'a>(seen: &'a [ConsumedRecord], event_id: &str) -> &'a ConsumedRecord {
    let of_event = |record: &&ConsumedRecord| record.header("id") == Some(event_id);
    let records: Vec<_> = seen.iter().filter(of_event).collect();
    let [record] = records.as_slice() else { panic!("{event_id}: {records:?}") };
    record
}

#[tokio::test]
async fn a_held_row_is_delivered_as_it_was_stored_although_its_table_was_altered() {
    let (mut fixture, session, topic) = prepared(every_class()).await;
    fixture.kafka.create_topic(&topic, 1, &[]).await.unwrap();
    session.batch_execute(COLUMNS).await.unwrap();
    fixture.restart().await.unwrap();
    write(&session, KEYS * 2).await;
    write_among_innocents(&session, &[(Poison::TooLarge, KEY)]).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let letter = only_letter(&session).await;
    session.batch_execute(ALTER).await.unwrap();
    write_among_innocents(&session, &[(Poison::TooLarge, KEY)]).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open_of(&session, KEY).await, (8, 1), "the second is held behind the first");
    let shown = dead_letters(&fixture, &["show", "--id", &letter.event_id]).await;
    assert!(shown.contains("note") && shown.contains("extra"), "{shown}");
    assert!(!shown.contains("remark") && !shown.contains("region"), "{shown}");

    // The next process knows the table only as it is now.
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open_of(&session, KEY).await, (10, 1));
    fixture.kafka.set_topic(&fixture.topics[0], &[("max.message.bytes", "1000000")]).await.unwrap();
    dead_letters(&fixture, &["requeue", "--all", "--yes", "--reason", "limit raised"]).await;
    wait_closed(&session).await;
    assert_eq!(states(&session).await.into_iter().collect::<Vec<_>>(), [("delivered".into(), 10)]);

    let seen = fixture.seen().await.unwrap();
    let rows = "SELECT id::text, payload::text FROM outbox WHERE event_type = 'Poison'";
    for row in session.query(rows, &[]).await.unwrap() {
        let (id, payload): (String, String) = (row.get(0), row.get(1));
        let record = record_of(&seen, &id);
        assert_eq!(record.key.as_deref(), Some(format!("order-{KEY}").as_bytes()));
        assert_eq!(record.value.as_deref(), Some(payload.as_bytes()));
        let own = ["type", "tenant"].map(|name| record.header(name));
        assert_eq!((own, record.headers.len()), ([Some("Poison"), Some("t")], 3));
    }
    assert_eq!(places_of_poison(&seen), [4, 9], "each in its place among the events of its key");
    let result = check_without_poison(&fixture, &seen).await;
    println!("{result}");
    assert_eq!(result.duplicates, 0);
}
