//! The database was copied into another cluster, with what is held: nothing of it is taken for
//! events of this cluster before a person has adopted it.

use e2e::{SHORT_DEADLINE, text};
use serde_json::Value;

use super::table::RECHECK_DEADLINE;
use super::{
    KEYS, builder, committed_of, dead_letters, delivered_of, drop_letters, open_of, started,
    wait_closed, write, write_poison,
};

const KEY: i32 = 17;

/// The rows as another cluster has written them, whose WAL is far ahead of this one's.
const OF_ANOTHER_CLUSTER: &str = "\
    UPDATE outbox_router.held_version SET system_id = '7'; \
    UPDATE outbox_router.held \
      SET commit_lsn = ('FFFF/' || split_part(commit_lsn::text, '/', 2))::pg_lsn";

#[tokio::test]
async fn held_events_of_another_cluster_are_adopted_and_leave_before_new_ones_of_their_key() {
    let (mut fixture, session) = started(builder()).await;
    write(&session, KEYS * 2).await;
    write_poison(&session, KEY).await;
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (held, letters) = open_of(&session, KEY).await;
    assert_eq!(letters, 1);
    fixture.kill_router().await.unwrap();
    session.batch_execute(OF_ANOTHER_CLUSTER).await.unwrap();

    fixture.router.start_again().unwrap();
    let is_refused = |status: &Value| text(status, "/reason/code") == Some("P036");
    let status = fixture.router.wait_status("P036", SHORT_DEADLINE, is_refused).await.unwrap();
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("outbox-router dead-letters adopt --admin-url"), "{hint}");
    write(&session, KEYS * 2).await;

    let (code, told) = dead_letters(&fixture, &["adopt", "--yes"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(&format!("adopted {held} events; ")), "{told}");
    fixture.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open_of(&session, KEY).await, (held + 2, 1), "new events of the key wait, too");

    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    // Also in order.
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "{result}");
    assert_eq!(delivered_of(&fixture, KEY).await, committed_of(&fixture, KEY).await);
}
