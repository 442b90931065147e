//! `cleanup` on a server that lacks a part of what Kafka has. Its slot was made again behind the
//! witness, and after rows which it will never send: by the positions alone they look delivered.

use e2e::Fixture;
use testbed::postgres::{DATABASE, SUPERUSER};
use tokio_postgres::types::PgLsn;

use super::super::{count, streaming_fixture, write};
use super::restored::{older_copy, position_of_the_witness};
use super::{LOST, create_slot, expect_stop, run};

/// A command as the superuser. Its exit code, and what it wrote.
async fn typed(fixture: &Fixture, words: &[&str]) -> (Option<i32>, String) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [words, &["--yes", "--admin-url", &url]].concat();
    let output = fixture.router.command(&line).await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

const CLEANUP: [&str; 7] =
    ["cleanup", "--set", "retention.mode=delete", "--set", "retention.keep=0s", "--wait", "10s"];

async fn rows(fixture: &Fixture) -> i64 {
    count(&fixture.session().await.unwrap(), "outbox").await
}

async fn expect_nothing_removed(fixture: &Fixture, rows_before: i64, why: &str) {
    let (code, said) = typed(fixture, &CLEANUP).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(why), "{why} is not named: {said}");
    assert_eq!(rows(fixture).await, rows_before, "{said}");
}

/// Until the server's WAL is longer than it was before the restore.
async fn write_other_wal_past(fixture: &Fixture, witness: PgLsn) {
    while fixture.postgres.current_wal_lsn().await.unwrap() <= witness {
        run(fixture, "SELECT pg_logical_emit_message(false, 'testbed', repeat('x', 100000))").await;
    }
}

/// How a server comes to lack what Kafka has.
enum Lacking {
    Promoted,
    Restored,
}

async fn expect_nothing_removed_until_recovered(server: Lacking) {
    let mut fixture = streaming_fixture(Fixture::builder().track_commits()).await;
    run(&fixture, "CREATE INDEX ON outbox (created_at)").await;
    fixture.accept().await.unwrap();
    let (mut fixture, _) = older_copy(fixture).await.without_the_slot().put_back();
    let why = match server {
        Lacking::Promoted => {
            fixture.postgres.start_promoted().await.unwrap();
            "or from before a promotion"
        }
        Lacking::Restored => {
            fixture.postgres.start_again().await.unwrap();
            "restored to an earlier state"
        }
    };
    write(&mut fixture, LOST).await;
    run(&fixture, &create_slot()).await;
    let slot = fixture.confirmed().await.unwrap();
    let witness = position_of_the_witness(&fixture).await;
    assert!(slot < witness, "the slot is at {slot}, and not behind the witness, {witness}");
    let before = rows(&fixture).await;
    // No router has seen it yet, and no witness has the gap.
    expect_nothing_removed(&fixture, before, why).await;
    write_other_wal_past(&fixture, witness).await;
    expect_nothing_removed(&fixture, before, why).await;
    expect_stop(&mut fixture, "P015").await;
    expect_nothing_removed(&fixture, before, "P015").await;

    // They can still be found in the table. Writers have updated some that are delivered.
    let recover = ["recover", "--since", "2000-01-01", "--ids-unique"];
    let (code, said) = typed(&fixture, &recover).await;
    assert_eq!(code, Some(0), "{said}");
    fixture.wait_streaming().await.unwrap();
    let session = fixture.session().await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0, "{said}");
    let (code, said) = typed(&fixture, &CLEANUP).await;
    assert_eq!((code, rows(&fixture).await), (Some(0), 0), "{said}");
}

#[tokio::test]
async fn nothing_is_removed_on_a_promoted_server_that_lacks_what_kafka_has() {
    expect_nothing_removed_until_recovered(Lacking::Promoted).await;
}

#[tokio::test]
async fn nothing_is_removed_on_a_restored_server_of_the_same_timeline() {
    expect_nothing_removed_until_recovered(Lacking::Restored).await;
}
