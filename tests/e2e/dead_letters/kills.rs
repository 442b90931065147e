//! SIGKILL of the router while rows are poisoned, held, dropped and released.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use e2e::SHORT_DEADLINE;
use testbed::wait::eventually;
use tokio::time::sleep;

use super::{KEYS, builder, drop_letters, is_closed, started, states, write, write_poison};

/// Another part of `span` each time: kills must hit other moments in every run.
fn random_part_of(span: Duration) -> Duration {
    let parts = u32::try_from(RandomState::new().hash_one(0) % 1000).unwrap_or_default();
    span * parts / 1000
}

#[tokio::test]
async fn kills_at_any_moment_neither_lose_nor_reorder_what_is_held() {
    const ROUNDS: i32 = 12;
    let (mut fixture, session) = started(builder().set("limits.window_events", 300)).await;
    let writer = fixture.session().await.unwrap();
    for round in 0..ROUNDS {
        // Some keys are poisoned again while they are held.
        let load = async {
            write(&writer, 150).await;
            write_poison(&writer, 1 + (round * 3) % KEYS).await;
            write(&writer, 150).await;
            write_poison(&writer, 1 + (round * 3 + 1) % KEYS).await;
            write_poison(&writer, 1).await;
            write(&writer, 150).await;
        };
        let kill = async {
            sleep(random_part_of(Duration::from_millis(400))).await;
            if round % 2 == 1 {
                drop_letters(&session).await;
                // Into the release, which begins within a second.
                sleep(random_part_of(Duration::from_millis(1_500))).await;
            }
            fixture.kill_router().await.unwrap();
        };
        tokio::join!(load, kill);
        // One in three is killed again on its way to the stream, or just there.
        match round % 3 {
            0 => fixture.router.start_again().unwrap(),
            _ => fixture.restart().await.unwrap(),
        }
    }
    fixture.wait_streaming().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    // A poisoned row that is held behind another becomes a dead letter when its turn comes, so it
    // takes several rounds of decisions.
    eventually(SHORT_DEADLINE, "an empty table of held events", async || {
        drop_letters(&session).await;
        Ok(is_closed(&session).await.then_some(()))
    })
    .await
    .unwrap();
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    let result = fixture.check().await.unwrap().clean().unwrap();
    let states = states(&session).await;
    println!("{result}\n{states:?}");
    assert_eq!(states.get("dropped"), Some(&i64::from(ROUNDS * 3)), "every poisoned row, once");
    assert!(states.get("delivered").is_some_and(|count| *count > 100), "{states:?}");
}
