//! Preflight: what it lets through, and what it refuses with which code and remedy.

use outbox_router::codes::hint;
use outbox_router::monitor::{
    Baseline, MonitorSettings, Server, ServerEncoding,
    catalog::{self, Sought},
    server::{self, ServerSettings},
    slot,
};
use relay::{
    Case, Code, Failure, Lsn,
    source::{Expectations, Obstacle, PositionCheck, check_slot, preflight},
    witness::Witness,
};
use tokio_postgres::Client;

use crate::{
    fixture::{make_slot, set_up, settings},
    postgres::Postgres,
};

/// What the core does before a stream, over an ordinary connection.
async fn checked(
    client: &Client,
    name: &str,
    witness: Option<&Witness>,
) -> Result<Baseline, Obstacle> {
    let MonitorSettings { slot, publication, outboxes, .. } = &settings(name);
    let ServerSettings { version, encoding, .. } = server::settings(&mut &*client).await?;
    let history = server::identity(&mut &*client).await?;
    let reading = slot::read(&mut &*client, version, slot).await?;
    let wal_end = reading.current_wal_lsn;
    let server = Server { version, encoding, history, wal_end, note_writes: None };
    let expected = Expectations {
        slot,
        publication,
        outboxes,
        witness,
        position_check: PositionCheck::Compared,
    };
    check_slot(expected, &reading)?;
    let remembered = witness.map(|witness| &witness.catalog);
    let sought = Sought { publication, outboxes, remembered };
    let catalog = catalog::read(&mut &*client, version, sought).await?;
    preflight(expected, server, &reading, catalog)
}

pub(crate) async fn fit(client: &Client, name: &str, witness: Option<&Witness>) -> Baseline {
    checked(client, name, witness).await.unwrap()
}

async fn refused(client: &Client, name: &str, witness: Option<&Witness>) -> Failure {
    match checked(client, name, witness).await.unwrap_err() {
        Obstacle::Gaps(gaps) => gaps.first().expect("one").failure.clone(),
        Obstacle::Failed(failure) => failure,
        other @ (Obstacle::SlotInUse { .. } | Obstacle::OtherServer(_)) => panic!("{other:?}"),
    }
}

/// What a session leaves behind that began with this.
fn witness_of(baseline: Baseline) -> Witness {
    Witness {
        checked: Some(baseline.checked.clone()),
        catalog: baseline.catalog.clone(),
        ..Witness::at(baseline.confirmed())
    }
}

#[tokio::test]
async fn what_setup_creates_passes_the_preflight() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let baseline = fit(&client, "x", None).await;
    assert_eq!(baseline.server.encoding, ServerEncoding::Known("UTF8".to_owned()));
    assert!((15_00_00..16_00_00).contains(&baseline.server.version));
    assert!(
        baseline.confirmed() > Lsn::from_u64(0) && baseline.confirmed() <= baseline.checked.lsn
    );
    // And again, with what is remembered.
    fit(&client, "x", Some(&witness_of(baseline))).await;
}

#[tokio::test]
async fn a_role_that_may_only_replicate_is_enough() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    client.batch_execute("create role r login replication; create role s login").await.unwrap();
    let least = postgres.try_connect("r", "postgres").await.unwrap();
    fit(&least, "x", None).await;
    let less = postgres.try_connect("s", "postgres").await.unwrap();
    let failure = refused(&less, "x", None).await;
    assert_eq!(failure.code, Code::RoleLacksReplication);
    assert!(hint(&failure).unwrap().contains("alter role \"s\" replication"));
}

#[tokio::test]
async fn a_slot_that_was_never_created_is_reported_with_setup_as_the_remedy() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    let failure = refused(&client, "x", None).await;
    assert_eq!(failure.code, Code::SlotMissing);
    assert!(hint(&failure).unwrap().contains("outbox-router setup --apply"));
    make_slot(&client, "x").await;
    let failure = refused(&client, "x", None).await;
    assert_eq!(failure.code, Code::PublicationMissing);
    assert!(hint(&failure).unwrap().contains("outbox-router setup --apply"));
}

#[tokio::test]
async fn slots_created_for_something_else_are_refused() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    client.batch_execute("create database other").await.unwrap();
    let other = postgres.try_connect("postgres", "other").await.unwrap();
    for (name, there, sql) in [
        (
            "plugin",
            &client,
            "select pg_create_logical_replication_slot('s_plugin', 'test_decoding')",
        ),
        ("physical", &client, "select pg_create_physical_replication_slot('s_physical')"),
        ("other", &other, "select pg_create_logical_replication_slot('s_other', 'pgoutput')"),
        (
            "prepared",
            &client,
            "select pg_create_logical_replication_slot('s_prepared', 'pgoutput', false, true)",
        ),
    ] {
        there.batch_execute(sql).await.unwrap();
        let failure = refused(&client, name, None).await;
        assert_eq!(failure.code, Code::SlotUnsuitable, "{name}: {failure}");
    }
}

#[tokio::test]
async fn a_slot_in_use_is_reported_with_its_walsender() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let _streamer = postgres.stream("s_x", "p_x");
    let mut obstacle = None;
    for _ in 0..300 {
        obstacle = checked(&client, "x", None).await.err();
        if obstacle.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let query = "select active_pid from pg_replication_slots where slot_name = 's_x'";
    let pid: i32 = client.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(obstacle, Some(Obstacle::SlotInUse { pid }));
}

#[tokio::test]
async fn a_slot_recreated_between_two_sessions_is_not_taken_for_the_old_one() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let baseline = fit(&client, "x", None).await;
    let confirmed = baseline.confirmed();
    let known = witness_of(baseline);
    client.batch_execute("select pg_drop_replication_slot('s_x')").await.unwrap();
    let failure = refused(&client, "x", Some(&known)).await;
    assert_eq!((failure.code, failure.lsn), (Code::SlotMissing, Some(confirmed)));
    make_slot(&client, "x").await;
    let failure = refused(&client, "x", Some(&known)).await;
    assert_eq!((failure.code, failure.lsn), (Code::SlotMoved, Some(confirmed)), "{failure}");
    assert!(failure.message.contains("may be missing"), "{failure}");
}

/// A program that reads the slot with the option gives it two_phase, on every version.
#[tokio::test]
async fn a_slot_that_was_given_two_phase_is_the_same_one_and_is_named_so() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let known = witness_of(fit(&client, "x", None).await);
    let peek = "select from pg_logical_slot_peek_binary_changes('s_x', null, null, \
                'proto_version', '3', 'two_phase', 'on', 'publication_names', 'p_x')";
    client.batch_execute(peek).await.unwrap();
    let failure = refused(&client, "x", Some(&known)).await;
    assert_eq!(failure.case, Some(Case::SlotTwoPhase), "{failure}");
    assert!(hint(&failure).unwrap().contains("ALTER_REPLICATION_SLOT s_x (TWO_PHASE false)"));
    client.batch_execute("select pg_drop_replication_slot('s_x')").await.unwrap();
    let make = "select pg_create_logical_replication_slot('s_x', 'pgoutput', false, true)";
    client.batch_execute(make).await.unwrap();
    let failure = refused(&client, "x", Some(&known)).await;
    assert_eq!(failure.case, Some(Case::SlotMadeUnsuitable), "{failure}");
}

#[tokio::test]
async fn a_publication_recreated_between_two_sessions_is_another_one() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let baseline = fit(&client, "x", None).await;
    let known = witness_of(baseline);
    client
        .batch_execute("drop publication p_x; create publication p_x for table outbox_x")
        .await
        .unwrap();
    assert_eq!(refused(&client, "x", Some(&known)).await.code, Code::PublicationReplaced);
}

#[tokio::test]
async fn an_sql_ascii_database_is_recognised() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    client
        .batch_execute("create database bytes encoding 'SQL_ASCII' template template0")
        .await
        .unwrap();
    let bytes = postgres.try_connect("postgres", "bytes").await.unwrap();
    set_up(&bytes, "x").await;
    assert_eq!(fit(&bytes, "x", None).await.server.encoding, ServerEncoding::SqlAscii);
}

#[tokio::test]
async fn a_server_that_does_not_log_for_decoding_is_refused_with_the_statement() {
    let postgres = Postgres::start(&["wal_level=replica"]).await;
    let client = postgres.client().await;
    let failure = refused(&client, "x", None).await;
    assert_eq!(failure.code, Code::WalLevel);
    assert!(hint(&failure).unwrap().contains("alter system set wal_level = logical"));
}
