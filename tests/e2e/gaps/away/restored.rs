//! The server that is there is an earlier state of the one that was, or another one: what Kafka has
//! did not happen there.

use std::path::PathBuf;

use e2e::{Fixture, FixtureBuilder, SHORT_DEADLINE, SLOT, text};
use testbed::postgres::ShutdownMode;
use testbed::wait::eventually;
use tokio_postgres::types::PgLsn;

use super::super::{copy_files, streaming_fixture, write};
use super::{
    AtRisk, committed, create_slot, expect_continues_after_acceptance, expect_covered, expect_stop,
    fixture_without_router, ids_in_kafka, ids_in_the_database, rounds::rounds, run, without,
};

/// Events that the server will not know any more.
pub(super) const FORGOTTEN: u64 = 200;

/// A server's files as they were when the first hundred events were confirmed; two hundred more
/// have come since, and are confirmed. Neither server nor router runs.
pub(crate) struct OlderCopy {
    pub(super) fixture: Fixture,
    files: PathBuf,
    /// All that was committed.
    pub(super) committed: AtRisk,
}

/// A copy of the stopped server's storage.
pub(super) async fn fixture_with_older_copy() -> OlderCopy {
    older_copy(streaming_fixture(Fixture::builder().track_commits()).await).await
}

/// The same, of a router that streams.
pub(crate) async fn older_copy(mut fixture: Fixture) -> OlderCopy {
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let data = fixture.postgres.data_dir();
    let files = data.with_extension("older");
    copy_files(&data, &files);
    fixture.postgres.start_again().await.unwrap();
    write_more_and_stop(fixture, files).await
}

/// A base backup of the running server, taken by SQL as the manual says, and its label. It has no
/// slots.
async fn fixture_with_base_backup() -> (OlderCopy, String) {
    // Nobody writes files while they are copied, and a restored server finds no archive.
    let quiet = |builder: FixtureBuilder| {
        builder.track_commits().postgres("autovacuum", "off").postgres("restore_command", "false")
    };
    let mut fixture = streaming_fixture(quiet(Fixture::builder())).await;
    fixture.kill_router().await.unwrap();
    let data = fixture.postgres.data_dir();
    let files = data.with_extension("older");
    let session = fixture.session().await.unwrap();
    session.batch_execute("SELECT pg_backup_start('away', true)").await.unwrap();
    copy_files(&data, &files);
    let stop = "SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)";
    let label: String = session.query_one(stop, &[]).await.unwrap().get(0);
    std::fs::remove_dir_all(files.join("pg_wal")).unwrap();
    copy_files(&data.join("pg_wal"), &files.join("pg_wal"));
    std::fs::remove_file(files.join("postmaster.pid")).unwrap();
    for slot in std::fs::read_dir(files.join("pg_replslot")).unwrap() {
        std::fs::remove_dir_all(slot.unwrap().path()).unwrap();
    }
    (write_more_and_stop(fixture, files).await, label)
}

async fn write_more_and_stop(mut fixture: Fixture, files: PathBuf) -> OlderCopy {
    fixture.restart().await.unwrap();
    write(&mut fixture, FORGOTTEN).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let committed = committed(&mut fixture).await;
    fixture.postgres.kill9().await.unwrap();
    OlderCopy { fixture, files, committed }
}

impl OlderCopy {
    pub(super) fn without_the_slot(self) -> Self {
        std::fs::remove_dir_all(self.files.join("pg_replslot").join(SLOT)).unwrap();
        self
    }

    /// Puts the older files in the place of the others.
    pub(crate) fn put_back(self) -> (Fixture, AtRisk) {
        let data = self.fixture.postgres.data_dir();
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&self.files, &data).unwrap();
        (self.fixture, self.committed)
    }
}

/// The router stops, names the interval of the events that this server does not have, and continues
/// after an acceptance.
pub(super) async fn expect_gap_of_lost_events(fixture: &mut Fixture, committed: AtRisk) {
    let there = ids_in_kafka(fixture).await;
    assert!(committed.keys().all(|id| there.contains(id)), "a confirmed event is not in Kafka");
    let forgotten = without(committed, &ids_in_the_database(fixture).await);
    assert!(u64::try_from(forgotten.len()).unwrap() >= FORGOTTEN, "{} forgotten", forgotten.len());
    let status = expect_stop(fixture, "P015").await;
    expect_covered(&status, &forgotten);
    expect_continues_after_acceptance(fixture, &forgotten).await;
}

/// Where the witness in Kafka says that everything is acknowledged.
pub(super) async fn position_of_the_witness(fixture: &Fixture) -> PgLsn {
    let output = fixture.router.command(&["status"]).await.unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let known = output.lines().find_map(|line| {
        line.strip_prefix("witness")?.trim().strip_prefix("everything before ")?.split(' ').next()
    });
    known.unwrap_or_else(|| panic!("there is no witness: {output}")).parse().unwrap()
}

/// Writes until the server's WAL is longer than it was before the restore: its length alone no
/// longer shows the restore.
pub(crate) async fn write_past_what_kafka_has(fixture: &mut Fixture) {
    let known = position_of_the_witness(fixture).await;
    while fixture.postgres.current_wal_lsn().await.unwrap() <= known {
        write(fixture, 100).await;
    }
}

#[tokio::test]
async fn a_restored_base_backup_with_a_recreated_slot_is_a_gap() {
    rounds("restored from a base backup", async || {
        let (backup, label) = fixture_with_base_backup().await;
        let (mut fixture, committed) = backup.put_back();
        fixture.postgres.write_file("backup_label", label.as_bytes()).unwrap();
        fixture.postgres.write_file("recovery.signal", b"").unwrap();
        fixture.postgres.start_again().await.unwrap();
        // It takes connections before it is done.
        let session = fixture.session().await.unwrap();
        eventually(SHORT_DEADLINE, "the end of the recovery", async || {
            let recovers: bool = session.query_one("SELECT pg_is_in_recovery()", &[]).await?.get(0);
            Ok((!recovers).then_some(()))
        })
        .await
        .unwrap();
        run(&fixture, &create_slot()).await;
        expect_gap_of_lost_events(&mut fixture, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_restored_storage_snapshot_on_the_same_timeline_is_a_gap() {
    rounds("storage snapshot", async || {
        let (mut fixture, committed) = fixture_with_older_copy().await.put_back();
        fixture.postgres.start_again().await.unwrap();
        expect_gap_of_lost_events(&mut fixture, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_restored_storage_snapshot_that_has_written_a_little_is_a_gap() {
    rounds("storage snapshot, written a little", async || {
        let (mut fixture, committed) = fixture_with_older_copy().await.put_back();
        fixture.postgres.start_again().await.unwrap();
        // Less than what it has forgotten, at the same positions.
        write(&mut fixture, 20).await;
        expect_gap_of_lost_events(&mut fixture, committed).await;
    })
    .await;
}

#[tokio::test]
async fn a_restored_storage_snapshot_that_has_written_past_the_witness_is_a_gap() {
    rounds("storage snapshot, written past", async || {
        let (mut fixture, committed) = fixture_with_older_copy().await.put_back();
        fixture.postgres.start_again().await.unwrap();
        write_past_what_kafka_has(&mut fixture).await;
        expect_gap_of_lost_events(&mut fixture, committed).await;
    })
    .await;
}

#[tokio::test]
async fn another_database_cluster_at_the_same_address_is_a_gap() {
    rounds("another database cluster", async || {
        let (mut fixture, _) = fixture_without_router().await;
        let committed = committed(&mut fixture).await;
        // The same names, made by the same hands, and another server.
        let mut other = Fixture::builder().another_identity().prepare().await.unwrap();
        std::mem::swap(&mut fixture.postgres, &mut other.postgres);
        fixture
            .config
            .set("postgres.url", fixture.postgres.url(e2e::ROLE, testbed::postgres::DATABASE));
        fixture.rewrite_config().unwrap();
        let status = expect_stop(&mut fixture, "P015").await;
        let message = text(&status, "/reason/message").unwrap();
        assert!(message.contains("another database cluster"), "{message}");
        let hint = text(&status, "/reason/hint").unwrap();
        assert!(hint.contains("another name"), "{hint}");
        assert_eq!(
            ids_in_the_database(&fixture).await.len(),
            0,
            "the other cluster has events of the outbox"
        );
        expect_covered(&status, &committed);
        expect_continues_after_acceptance(&mut fixture, &committed).await;
    })
    .await;
}
