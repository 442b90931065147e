//! `cleanup` beside a router that does not remove rows itself.

use e2e::{Fixture, SHORT_DEADLINE, wait_committed};

use super::{DEADLINE, NEEDED, check_gone_are_delivered, cleanup, count, load};

const ARCHIVE: [&str; 8] = [
    "--set",
    "retention.mode=archive",
    "--set",
    "retention.keep=0s",
    "--set",
    "retention.batch=10",
    "--set",
    "retention.pause=5ms",
];

#[tokio::test]
async fn two_cleanups_at_once_remove_every_row_once() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(NEEDED).await.unwrap();
    session.batch_execute("CREATE TABLE outbox_archive (LIKE outbox)").await.unwrap();
    fixture.start_accepted().await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 500).await.unwrap();
    let (mut done, mut refused) = (0, 0);
    for _ in 0..3 {
        let (first, second) =
            tokio::join!(cleanup(&fixture, &ARCHIVE), cleanup(&fixture, &ARCHIVE));
        for (code, text) in [first, second] {
            match code {
                Some(0) => done += 1,
                Some(1) if text.contains("another session removes rows of this") => refused += 1,
                _ => panic!("{code:?}: {text}"),
            }
        }
        check_gone_are_delivered(&fixture, &session).await;
    }
    assert!(done >= 3, "{done} done, {refused} refused");
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (code, text) = cleanup(&fixture, &ARCHIVE).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(" 0 kept: 0 younger than 0ms, 0 not delivered yet, 0 held"), "{text}");
    assert_eq!(count(&session, "outbox").await, 0);
    let committed = count(&session, "testbed.committed").await;
    assert_eq!(count(&session, "outbox_archive").await, committed);
    assert_eq!(count(&session, "(SELECT DISTINCT id FROM outbox_archive) d").await, committed);
    fixture.check().await.unwrap().clean().unwrap();
}

#[tokio::test]
async fn a_cleanup_after_the_router_has_stopped_removes_what_it_has_delivered() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(NEEDED).await.unwrap();
    fixture.start_accepted().await.unwrap();
    let delete = ["--set", "retention.mode=delete", "--set", "retention.keep=0s"];
    let running = fixture.load(load());
    wait_committed(&running, 200).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    // A router that is stopped delivers what it has read, and leaves the rest in the slot.
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.router.sigterm().unwrap();
    let exit = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    assert_eq!(exit.code(), Some(0));
    let (code, text) = cleanup(&fixture, &delete).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(count(&session, "outbox").await, 0);
    check_gone_are_delivered(&fixture, &session).await;
    session
        .batch_execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
             SELECT type, id, 'Late' FROM testbed.aggregate WHERE n = 1",
        )
        .await
        .unwrap();
    let before = count(&session, "outbox").await;
    let (code, text) = cleanup(&fixture, &delete).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("has committed rows that are not delivered, and no router"), "{text}");
    assert_eq!(count(&session, "outbox").await, before);
}
