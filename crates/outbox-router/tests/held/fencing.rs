//! What an earlier connection still does must not come after a session has read the table.

use std::time::Duration;

use relay::{
    Code, Lsn,
    held::{HeldAnswer, HeldRequest, OpenCount},
};
use testbed::wait::eventually;

use super::fixture::{Fixture, event, id, letter};

/// The sessions that wait for a lock.
const WAITING: &str = "select count(*) from pg_stat_activity \
                       where usename = 'router' and wait_event_type = 'Lock'";

/// A router was killed, or gave a request up, and the server still carries it out.
#[tokio::test]
async fn a_request_that_was_given_up_has_ended_when_the_next_session_reads() {
    let fixture = Fixture::with_table().await;
    let mut former = fixture.store();
    former.load().await.unwrap();
    let blocker = fixture.session().await;
    blocker.batch_execute("begin; lock table outbox_router.held in exclusive mode").await.unwrap();
    let given_up = former.insert(vec![letter(id(1, 0), "a")]);
    let waits = async {
        eventually(Duration::from_secs(20), "the insert that waits", async || {
            let row = fixture.session().await.query_one(WAITING, &[]).await?;
            Ok((row.get::<_, i64>(0) == 1).then_some(()))
        })
        .await
        .unwrap();
    };
    tokio::select! {
        biased;
        answer = given_up => panic!("the table is locked, and it is {answer:?}"),
        () = waits => {}
    }
    drop(former);
    // The next session ends the former's backend, and waits for nobody else.
    let mut store = fixture.store();
    let HeldAnswer::Loaded(loaded) = store.load().await.unwrap() else { panic!("no table") };
    assert!(loaded.known.is_empty());
    blocker.batch_execute("commit").await.unwrap();
    let HeldAnswer::Loaded(loaded) = store.load().await.unwrap() else { panic!("no table") };
    assert!(loaded.known.is_empty(), "what was given up is not written any more");
}

/// A router that was frozen comes back: another one has the slot, and has read the table.
#[tokio::test]
async fn a_router_that_has_lost_its_slot_writes_nothing_more() {
    let fixture = Fixture::with_table().await;
    let (mut frozen, mut holder) = (fixture.store(), fixture.store());
    frozen.load().await.unwrap();
    frozen.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
    holder.load().await.unwrap();
    // Its connection is gone, whether or not it sees that before it asks; then it gets no lock.
    let failure = frozen.insert(vec![event(id(1, 1), "a")]).await.unwrap_err();
    assert_eq!(failure.code, Code::ServerUnreachable, "{failure}");
    let failure = frozen.insert(vec![event(id(1, 1), "a")]).await.unwrap_err();
    assert!(failure.message.contains("another session still works"), "{failure}");
    // The holder is not disturbed.
    assert_eq!(holder.ask(HeldRequest::ReadDecided).await.unwrap(), HeldAnswer::Decided(vec![]));
    let HeldAnswer::Loaded(loaded) = holder.load().await.unwrap() else { panic!("no table") };
    assert_eq!(loaded.known.len(), 1);
}

/// A router that has lost the slot may know events of a history that is gone.
#[tokio::test]
async fn nothing_is_carried_out_for_a_stream_that_does_not_hold_the_slot() {
    let fixture = Fixture::with_table().await;
    fixture.run("select pg_create_physical_replication_slot('s')").await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    store.walsender = Some(4711);
    let insert = HeldRequest::Insert([letter(id(1, 0), "a")].into());
    assert_eq!(store.fails(insert.clone()).await.code, Code::SlotInUse);
    assert_eq!(
        store.fails(HeldRequest::Load { since: Lsn::ZERO, open: OpenCount::Recorded }).await.code,
        Code::SlotInUse
    );
    let HeldAnswer::Loaded(loaded) = fixture.store().load().await.unwrap() else {
        panic!("no table")
    };
    assert!(loaded.keys.is_empty(), "nothing was written");
}
