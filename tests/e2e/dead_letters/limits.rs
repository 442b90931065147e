//! The limits of events and bytes, and what makes room.

use e2e::{Fixture, SHORT_DEADLINE, text};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::bulk::{create_functions, write_poison, write_transactions};
use super::{builder, decide_about_all, open, reconfigure, started, states, wait_closed};

const POISONED: i32 = 3;

/// Waits until the router stops at a limit, and returns what it says.
async fn wait_full(fixture: &mut Fixture) -> String {
    let status = fixture
        .router
        .wait_status("a limit that is reached", SHORT_DEADLINE, |status| {
            text(status, "/state") == Some("failed") && text(status, "/reason/code") == Some("R017")
        })
        .await
        .unwrap();
    text(&status, "/reason/message").unwrap().to_owned()
}

#[tokio::test]
async fn at_the_limits_of_events_and_bytes_the_router_waits_for_room() {
    let builder =
        builder().set("dead_letters.max_events", 50).set("dead_letters.max_bytes", "1MiB");
    let (mut fixture, session) = started(builder).await;
    create_functions(&session).await;
    write_poison(&session, POISONED).await;
    write_transactions(&session, 60, 10, 1).await;
    let message = wait_full(&mut fixture).await;
    assert!(message.contains("50 events are held, which is the limit"), "{message}");
    wait_open(&session, 50).await;
    // Records that were produced before are on their way.
    let few = eventually(SHORT_DEADLINE, "the events before the limit", async || {
        let lost = fixture.check().await?.lost.count();
        Ok((lost < 200).then_some(lost))
    });
    let lost = few.await.unwrap();
    println!("{message}: {lost} events are not delivered");
    assert!(lost > 50, "{lost}");

    // A greater limit of events: the rest goes on, until the bytes are too many.
    reconfigure(&mut fixture, |config| {
        config.set("dead_letters.max_events", 1_000);
    })
    .await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open(&session).await, (61, 1));
    let large = format!(
        "DO $$ BEGIN FOR i IN 1..60 LOOP PERFORM testbed.events({POISONED}, 1, 1, 20000); \
         COMMIT; END LOOP; END $$"
    );
    session.batch_execute(&large).await.unwrap();
    write_transactions(&session, 1, 10, 1).await;
    let message = wait_full(&mut fixture).await;
    println!("{message}");
    assert!(message.contains("bytes are held, which is near the limit of 1048576"), "{message}");
    // The limit counts what is on its way into the table. An event has some 20,500 bytes.
    eventually(SHORT_DEADLINE, "as many events in the table as have a mebibyte", async || {
        let (held, letters) = open(&session).await;
        Ok((letters == 1 && (61 + 48..=61 + 52).contains(&held)).then_some(()))
    })
    .await
    .unwrap();

    // A decision makes room, while the router stands there.
    assert_eq!(fixture.status().await.unwrap()["state"], "failed");
    decide_about_all(&fixture, "drop").await;
    fixture.wait_streaming().await.unwrap();
    wait_closed(&session).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap();
    println!("{result}");
    assert_eq!((result.lost.count(), result.order.count()), (1, 0), "the row that was dropped");
    assert_eq!(result.examples().len(), 1, "{:?}", result.examples());
    assert_eq!(states(&session).await["dropped"], 1);
}

/// What comes again after a restart is in the table already, and is no reason to pass a limit; and
/// a decision makes room there, too.
#[tokio::test]
async fn a_limit_holds_within_a_large_transaction_after_a_restart_and_room_can_be_made() {
    const LIMIT: i64 = 50;
    let (mut fixture, session) = started(builder().set("dead_letters.max_events", LIMIT)).await;
    create_functions(&session).await;
    let sql = format!(
        "BEGIN; SELECT testbed.poison({POISONED}); SELECT testbed.events(0, 10, 200, 10); COMMIT"
    );
    session.batch_execute(&sql).await.unwrap();
    for _ in 0..2 {
        wait_full(&mut fixture).await;
        wait_open(&session, LIMIT).await;
        fixture.kill_router().await.unwrap();
        fixture.router.start_again().unwrap();
    }
    wait_full(&mut fixture).await;
    reconfigure_at_limit(&mut fixture).await;
    decide_about_all(&fixture, "requeue").await;
    wait_closed(&session).await;
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
}

/// The router reports the limit when so many events are on their way into the table.
async fn wait_open(session: &DatabaseSession, events: i64) {
    eventually(SHORT_DEADLINE, "the held events in the table", async || {
        Ok((open(session).await == (events, 1)).then_some(()))
    })
    .await
    .unwrap();
}

async fn reconfigure_at_limit(fixture: &mut Fixture) {
    fixture.kill_router().await.unwrap();
    fixture.config.set_outbox("columns.headers", serde_json::json!([]));
    fixture.rewrite_config().unwrap();
    fixture.router.start_again().unwrap();
    wait_full(fixture).await;
}
