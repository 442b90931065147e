//! One poisoned row among thousands.

use e2e::SHORT_DEADLINE;
use testbed::wait::eventually;

use super::{
    KEYS, builder, committed_of, delivered_of, drop_letters, open_of, started, states, wait_closed,
    write, write_poison,
};

#[tokio::test]
async fn one_poisoned_row_holds_its_key_until_it_is_dropped_and_no_other() {
    const POISONED: i32 = 7;
    let (mut fixture, session) = started(builder()).await;
    write(&session, 2_000).await;
    let before = committed_of(&fixture, POISONED).await;
    write_poison(&session, POISONED).await;
    write(&session, 3_000).await;
    let all = committed_of(&fixture, POISONED).await;

    // Everything is settled, and so confirmed: the other keys in Kafka, this one in the table.
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let held = i64::try_from(all - before).unwrap();
    assert_eq!(open_of(&session, POISONED).await, (held + 1, 1), "the followers, and the letter");
    assert_eq!(states(&session).await.into_values().sum::<i64>(), held + 1, "nothing else");
    assert_eq!(delivered_of(&fixture, POISONED).await, before);
    let result = fixture.check().await.unwrap();
    assert_eq!(result.in_kafka, result.sent - (all - before), "{result}");

    // It is seen.
    let status = fixture
        .router
        .wait_status("what is held", SHORT_DEADLINE, |status| {
            status.pointer("/held/events").and_then(serde_json::Value::as_i64) == Some(held + 1)
        })
        .await
        .unwrap();
    assert_eq!(status.pointer("/state").and_then(serde_json::Value::as_str), Some("streaming"));
    assert_eq!(status.pointer("/held/dead_letters/R009"), Some(&1.into()), "{status}");
    let letters = fixture.router.metric("outbox_dead_letters_total", "code=\"R009\"").await;
    assert_eq!(letters.unwrap(), Some(1.0));
    let log = fixture.router.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("is a dead letter")).collect();
    assert!(lines.len() == 1 && lines[0].contains("R009"), "{lines:?}");
    assert!(lines[0].contains("outbox-router dead-letters show --id "), "{lines:?}");

    // Dropped: the followers leave in their order, and the key is free for what comes.
    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    write(&session, KEYS * 4).await;
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
    assert_eq!(result.duplicates, 0);
    let expected = [("delivered".to_owned(), held), ("dropped".to_owned(), 1)];
    assert_eq!(states(&session).await.into_iter().collect::<Vec<_>>(), expected);
}

/// Requeued without a change of the cause, it is refused again and holds its key again; with the
/// column left out by the configuration, it is delivered first.
#[tokio::test]
async fn a_poisoned_row_that_is_requeued_is_delivered_once_its_cause_is_removed() {
    const POISONED: i32 = 3;
    const REQUEUE: &str = "UPDATE outbox_router.held SET state = 'requeued', decided_at = now() \
                           WHERE code IS NOT NULL AND state = 'held'";
    let (mut fixture, session) = started(builder()).await;
    write_poison(&session, POISONED).await;
    write(&session, KEYS * 4).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(delivered_of(&fixture, POISONED).await, 0);
    assert_eq!(session.execute(REQUEUE, &[]).await.unwrap(), 1);
    eventually(SHORT_DEADLINE, "the second refusal", async || {
        let row = session
            .query_one("SELECT count(*) FROM outbox_router.held WHERE state = 'requeued'", &[])
            .await?;
        Ok((row.get::<_, i64>(0) == 0).then_some(()))
    })
    .await
    .unwrap();
    let (held, letters) = open_of(&session, POISONED).await;
    assert_eq!(letters, 1);
    assert_eq!(delivered_of(&fixture, POISONED).await, 0, "nothing has passed it");

    fixture.kill_router().await.unwrap();
    fixture.config.set_outbox("columns.headers", serde_json::json!([]));
    fixture.rewrite_config().unwrap();
    fixture.restart().await.unwrap();
    assert_eq!(session.execute(REQUEUE, &[]).await.unwrap(), 1);
    wait_closed(&session).await;
    let seen = fixture.seen().await.unwrap();
    let key = format!("order-{POISONED}");
    let of_key: Vec<_> =
        seen.iter().filter(|record| record.key.as_deref() == Some(key.as_bytes())).collect();
    assert_eq!(of_key.len(), usize::try_from(held).unwrap());
    let first = of_key.iter().min_by_key(|record| record.offset).unwrap();
    assert_eq!(first.header("type"), Some("Poison"), "it was committed first");
}
