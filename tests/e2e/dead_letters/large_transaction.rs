//! Poisoned rows in transactions that are many times as large as the window.

use e2e::memory_limit;
use testbed::process::peak_data_bytes;

use super::bulk::{create_functions, write_poison};
use super::{
    LONG_DEADLINE, builder, decide_about_all, open, open_of, remove_cause, started, states,
    wait_closed,
};

#[tokio::test]
async fn a_poisoned_row_at_the_head_at_the_end_and_alone_holds_its_key_in_bounded_memory() {
    const WINDOW_BYTES: u64 = 2 << 20;
    const KEYS: i32 = 100;
    const EACH: i64 = 1_000;
    const PADDING: i32 = 600;
    let [at_head, at_end, alone] = [1, 2, 3];
    let builder = builder()
        .set("limits.window_events", 1_000)
        .set("limits.window_bytes", "2MiB")
        .set("limits.row_bytes", "1MiB");
    let (mut fixture, session) = started(builder).await;
    create_functions(&session).await;
    let events = format!("SELECT testbed.events(0, {KEYS}, {EACH}, {PADDING});");
    let head = format!("BEGIN; SELECT testbed.poison({at_head}); {events} COMMIT");
    session.batch_execute(&head).await.unwrap();
    let end = format!("BEGIN; {events} SELECT testbed.poison({at_end}); COMMIT");
    session.batch_execute(&end).await.unwrap();
    write_poison(&session, alone).await;
    let after = format!("SELECT testbed.events(0, {KEYS}, 1, {PADDING})");
    session.batch_execute(&after).await.unwrap();

    fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
    // Of the first, everything that follows in its own transaction, too.
    assert_eq!(open_of(&session, at_head).await, (1 + 2 * EACH + 1, 1));
    assert_eq!(open_of(&session, at_end).await, (2, 1));
    assert_eq!(open_of(&session, alone).await, (2, 1));
    let held = 2 * EACH + 6;
    assert_eq!(open(&session).await, (held, 3));
    let result = fixture.check().await.unwrap();
    println!("while three keys are held: {result}");
    assert_eq!(result.sent, 200_103);
    assert_eq!(i64::try_from(result.lost.count()).unwrap(), held, "{:?}", result.examples());
    assert_eq!(result.examples().len(), result.lost.examples().len(), "{:?}", result.examples());
    let limit = memory_limit(WINDOW_BYTES);
    let mut peak = peak_data_bytes(fixture.router.process().unwrap().pid()).unwrap();
    assert!(peak <= limit, "{peak} B resident, more than {limit} B");

    remove_cause(&mut fixture).await;
    decide_about_all(&fixture, "requeue").await;
    wait_closed(&session).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    peak = peak.max(peak_data_bytes(fixture.router.process().unwrap().pid()).unwrap());
    println!("after the release: {result}; {peak} B resident at most");
    assert_eq!(result.duplicates, 0);
    assert!(peak <= limit, "{peak} B resident, more than {limit} B");
    assert_eq!(states(&session).await, [("delivered".to_owned(), held)].into());
}
