//! The copy of the slot is gone however `compare` ends.

use e2e::{Fixture, SHORT_DEADLINE};
use serde_json::Value;
use testbed::process::{Signal, signal};
use testbed::wait::eventually;

use super::{COMMAND, sent};

/// The copy of the compared slot, once `compare` has told its walsender how far it is: from then on
/// it waits for Ctrl-C too.
const READ_COPY: &str = "SELECT r.pid FROM pg_replication_slots s \
    JOIN pg_stat_replication r ON r.pid = s.active_pid \
    WHERE s.slot_name LIKE 'compared_copy_%' AND r.write_lsn IS NOT NULL";

/// Only the compared slot and the router's are left. The server drops a temporary slot when it
/// notices that its session has ended, which may be after the end of `compare`.
pub(super) async fn copy_is_dropped(fixture: &Fixture) {
    let session = fixture.session().await.unwrap();
    let dropped = eventually(SHORT_DEADLINE, "the copy to be dropped", async || {
        let slots = session.query("SELECT FROM pg_replication_slots", &[]).await?;
        Ok((slots.len() == 2).then_some(()))
    });
    dropped.await.unwrap();
}

/// A `compare` that waits for further events, and the walsender of its copy.
async fn waiting(fixture: &Fixture) -> (tokio::process::Child, i32) {
    let arguments = [&COMMAND[..], &["--records", "1000000", "--wait", "600s"]].concat();
    let compare = fixture.router.start_command(&arguments).unwrap();
    let session = fixture.session().await.unwrap();
    let read = eventually(SHORT_DEADLINE, "the copy to be read", async || {
        let rows = session.query(READ_COPY, &[]).await?;
        Ok(rows.first().map(|row| row.get::<_, i32>(0)))
    });
    let walsender = read.await.unwrap();
    (compare, walsender)
}

#[tokio::test]
async fn ctrl_c_prints_what_was_read_and_the_copy_is_dropped() {
    let fixture = sent(10).await;
    let (compare, _) = waiting(&fixture).await;
    signal(&compare, Signal::INT).unwrap();
    let output = compare.wait_with_output().await.unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["ended"], &found["is_same"]), (&"interrupted".into(), &false.into()));
    copy_is_dropped(&fixture).await;
}

#[tokio::test]
async fn an_error_while_the_copy_is_read_drops_it() {
    let fixture = sent(10).await;
    let (compare, walsender) = waiting(&fixture).await;
    let session = fixture.session().await.unwrap();
    session.execute("SELECT pg_terminate_backend($1)", &[&walsender]).await.unwrap();
    let output = compare.wait_with_output().await.unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(says.contains("administrator command"), "{says}");
    copy_is_dropped(&fixture).await;
}
