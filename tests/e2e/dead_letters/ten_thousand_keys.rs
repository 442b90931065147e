//! As many poisoned keys as may be held by default, and one more.

use std::collections::BTreeMap;

use e2e::{SHORT_DEADLINE, text};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::bulk::{create_functions, write_transactions};
use super::{
    LONG_DEADLINE, builder, dead_letters, decide_about_all, open, reconfigure, started, states,
    wait_closed,
};

/// What `dead_letters.max_keys` is by default.
const LIMIT: i64 = 10_000;

/// Writes a poisoned row for each of these keys, which nothing else uses, and events of ten other
/// keys before and behind them, all in one transaction.
async fn write_poisons(session: &DatabaseSession, keys: std::ops::RangeInclusive<i64>) {
    let (first, last) = keys.into_inner();
    let sql = format!(
        "BEGIN; SELECT testbed.events(0, 10, 2, 10); \
         INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
         SELECT 'order', 'poisoned-' || n, 'Poison', '{{}}', '[7]' \
         FROM generate_series({first}::int8, {last}) n; \
         SELECT testbed.events(0, 10, 2, 10); COMMIT"
    );
    session.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn one_key_more_than_may_be_held_stops_the_router_and_loses_nothing() {
    let (mut fixture, session) = started(builder().track_commits()).await;
    create_functions(&session).await;
    for first in (1..LIMIT).step_by(500) {
        write_poisons(&session, first..=first + 499).await;
    }
    fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
    assert_eq!(open(&session).await, (LIMIT, LIMIT));
    assert_eq!(fixture.status().await.unwrap().pointer("/held/keys"), Some(&LIMIT.into()));

    // One more: it stops there, and says at which limit and what to type.
    write_poisons(&session, LIMIT + 1..=LIMIT + 1).await;
    write_transactions(&session, 5, 10, 10).await;
    for _ in 0..2 {
        let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
        assert_eq!(text(&status, "/reason/code"), Some("R017"), "{status}");
        let [message, hint] = ["message", "hint"]
            .map(|of| text(&status, &format!("/reason/{of}")).unwrap_or_default().to_owned());
        println!("{message}\n{hint}");
        assert!(message.contains("10000 keys are held, which is the limit"), "{status}");
        assert!(hint.contains("outbox-router dead-letters list"), "{status}");
        assert!(hint.contains("drop") && hint.contains("raise max_keys"), "{status}");
        assert_eq!(open(&session).await, (LIMIT, LIMIT));
        // Of its transaction, 20 events precede it; nothing behind it is delivered or confirmed.
        eventually(SHORT_DEADLINE, "what precedes the row in Kafka", async || {
            Ok((fixture.check().await?.in_kafka == 820).then_some(()))
        })
        .await
        .unwrap();
        fixture.kill_router().await.unwrap();
        assert_eq!(fixture.check_confirmed_events_are_in_kafka().await.unwrap(), 800);
        fixture.router.start_again().unwrap();
    }

    // With a greater limit it goes on, and everything else is delivered.
    reconfigure(&mut fixture, |config| {
        config.set("dead_letters.max_keys", 20_000);
    })
    .await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("while {} keys are held: {result}", LIMIT + 1);
    assert_eq!(result.in_kafka, 1_340);
    assert_eq!(open(&session).await, (LIMIT + 1, LIMIT + 1));

    let (code, listed) = dead_letters(&fixture, &["list"]).await;
    assert_eq!(code, Some(1), "letters wait for a decision");
    let counted = "10001 dead letters of 10001 keys, 0 events held behind";
    assert!(listed.contains(counted), "{}", listed.lines().last().unwrap_or_default());
    let told = decide_about_all(&fixture, "drop").await;
    assert!(told.contains("dropped 10001 dead letters"), "{told}");
    wait_closed(&session).await;
    assert_eq!(states(&session).await, BTreeMap::from([("dropped".to_owned(), LIMIT + 1)]));
    assert_eq!(dead_letters(&fixture, &["list"]).await, (Some(0), "nothing is held\n".to_owned()));
    write_transactions(&session, 1, 10, 10).await;
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    println!("after the drop: {}", fixture.check().await.unwrap().clean().unwrap());
}
