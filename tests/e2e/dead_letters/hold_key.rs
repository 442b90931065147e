//! `dead_letters.hold_key = false`: the order within a key is given up for its flow.

use e2e::SHORT_DEADLINE;

use super::bulk::{create_functions, write_poison, write_transactions};
use super::{builder, decide_about_all, open, remove_cause, started, states, wait_closed};

#[tokio::test]
async fn where_keys_are_not_held_what_follows_a_poisoned_row_is_delivered_before_it() {
    let (mut fixture, session) = started(builder().set("dead_letters.hold_key", false)).await;
    create_functions(&session).await;
    write_transactions(&session, 2, 10, 10).await;
    write_poison(&session, 7).await;
    write_poison(&session, 7).await;
    write_poison(&session, 8).await;
    write_transactions(&session, 10, 10, 10).await;

    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open(&session).await, (3, 3), "the poisoned rows alone");
    let result = fixture.check().await.unwrap();
    println!("while three rows are held: {result}");
    assert_eq!((result.sent, result.lost.count()), (1_203, 3), "{:?}", result.examples());
    assert_eq!(result.examples().len(), 3, "{:?}", result.examples());

    // They come last, each after every later event of its key.
    remove_cause(&mut fixture).await;
    decide_about_all(&fixture, "requeue").await;
    wait_closed(&session).await;
    let result = fixture.check().await.unwrap();
    println!("after the release: {result}");
    assert_eq!((result.in_kafka, result.duplicates), (result.sent, 0), "{:?}", result.examples());
    assert_eq!(result.order.count(), 3, "{:?}", result.examples());
    assert_eq!(states(&session).await, [("delivered".to_owned(), 3)].into());
}
