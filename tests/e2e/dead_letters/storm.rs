//! Many rows of one key that cannot be delivered, as after a release that writes them wrongly: a
//! person gives up all of them at once.

use testbed::wait::eventually;

use super::{
    KEYS, LONG_DEADLINE, builder, committed_of, dead_letters, delivered_of, open, started, states,
    wait_closed, wait_open, write,
};

#[tokio::test]
async fn a_storm_of_one_key_is_dropped_at_once_and_the_key_goes_on() {
    const KEY: i32 = 7;
    const STORM: i64 = 300;
    let (fixture, session) = started(builder()).await;
    write(&session, 2 * KEYS).await;
    let before = committed_of(&fixture, KEY).await;
    let storm = format!(
        "DO $$ BEGIN FOR n IN 1..{STORM} LOOP \
           INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
           VALUES ('order', 'order-{KEY}', 'Poison', '{{}}', '[7]'); \
           PERFORM testbed.event({KEY}); COMMIT; \
         END LOOP; END $$"
    );
    session.batch_execute(&storm).await.unwrap();
    // Only the first is a dead letter: the others are looked at when their turn comes.
    wait_open(&session, (2 * STORM, 1)).await;

    let drop = ["drop", "--code", "R009", "--with-behind", "--yes", "--reason", "a bad release"];
    let (code, told) = dead_letters(&fixture, &drop).await;
    assert_eq!(code, Some(0), "{told}");
    let done = format!("dropped 1 dead letter, and {} events held behind\n", 2 * STORM - 1);
    assert!(told.contains(&done), "{told}");
    wait_closed(&session).await;
    assert_eq!(states(&session).await, [("dropped".to_owned(), 2 * STORM)].into());

    write(&session, 2 * KEYS).await;
    let given_up = usize::try_from(STORM).unwrap();
    eventually(LONG_DEADLINE, "the key's later events", async || {
        let expected = committed_of(&fixture, KEY).await - given_up;
        Ok((delivered_of(&fixture, KEY).await == expected && expected > before).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(open(&session).await, (0, 0));
}
