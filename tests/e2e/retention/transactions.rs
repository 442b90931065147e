//! Transactions that are open for long, with savepoints, prepared.

use e2e::{SHORT_DEADLINE, wait_committed};

use super::{
    DEADLINE, builder, check_gone_are_delivered, count, create_private_aggregates, load, started,
    wait_left, wait_swept,
};

#[tokio::test]
async fn rows_of_a_long_transaction_and_of_its_savepoints_stay_until_they_are_delivered() {
    let builder = builder().postgres("max_prepared_transactions", "2");
    let (mut fixture, session) = started(builder).await;
    create_private_aggregates(&session).await;
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();
    wait_swept(&mut fixture).await;

    let long = fixture.session().await.unwrap();
    long.batch_execute(
        "BEGIN; SELECT testbed.event(100001); SAVEPOINT a; SELECT testbed.event(100002); \
         SAVEPOINT b; SELECT testbed.event(100003); RELEASE b",
    )
    .await
    .unwrap();
    let prepared = fixture.session().await.unwrap();
    prepared
        .batch_execute(
            "BEGIN; SAVEPOINT c; SELECT testbed.event(100004); RELEASE c; \
             PREPARE TRANSACTION 'retention'",
        )
        .await
        .unwrap();
    // What is delivered meanwhile stays, too: it is not known to be older than what is open.
    wait_committed(&running, 200).await.unwrap();
    for _ in 0..3 {
        wait_swept(&mut fixture).await;
        check_gone_are_delivered(&fixture, &session).await;
    }
    assert!(count(&session, "outbox").await >= 200);
    // Another savepoint, after many other transactions; then both end, in the other order.
    long.batch_execute("SAVEPOINT d; SELECT testbed.event(100005); RELEASE d").await.unwrap();
    prepared.batch_execute("COMMIT PREPARED 'retention'").await.unwrap();
    wait_swept(&mut fixture).await;
    check_gone_are_delivered(&fixture, &session).await;
    long.batch_execute("COMMIT").await.unwrap();
    for _ in 0..2 {
        check_gone_are_delivered(&fixture, &session).await;
        wait_swept(&mut fixture).await;
    }
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
    fixture.check().await.unwrap().clean().unwrap();
}
