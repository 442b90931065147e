//! Faults that no setting gives to the server of the other tests: another release, another clock,
//! settings that PostgreSQL 18 has, standbys, and a pooler in between.
//!
//! All of them are real. The clock is wrong for the processes of one server (libfaketime), and the
//! release is 13.21: it gets no fixes any more, and it has the fault of its own.

use std::time::Duration;

use outbox_router::postgres::{ConnInfo, Options, ReplicationConnection};
use testbed::{
    kafka::{KafkaCluster, KafkaOptions},
    postgres::{
        DATABASE, LENIENT, PgBouncer, PostgresOptions, PostgresServer, SUPERUSER, ShutdownMode,
    },
    wait::eventually,
};

use super::{ledger::Ledger, pair::TOPIC, place::Place};

pub(super) const CODES: &[&str] = &["D001", "D005", "D006", "D007", "D012", "D014", "D015"];

const LIMIT: Duration = Duration::from_secs(30);

/// One Kafka for all of them, in which each is a pipeline of its own.
struct Shared {
    ledger: Ledger,
    kafka: KafkaCluster,
}

#[tokio::test]
pub(super) async fn each_fault_of_other_servers_is_named_by_its_code_alone() {
    let kafka = KafkaCluster::start(KafkaOptions::default()).await.expect("Kafka");
    kafka.create_topic(TOPIC, 1, &[]).await.expect("a topic");
    let shared = Shared { ledger: Ledger::default(), kafka };
    old_release(&shared).await;
    wrong_clock(&shared).await;
    let (mut server, place) = shared.start("newest", PostgresOptions::version(18)).await;
    place.expect_nothing("a server as setup leaves it", &[]).await;
    pooler(&server, &place).await;
    idle_timeout(&mut server, &place).await;
    standbys(&mut server, &place).await;
    shared.ledger.assert_proved(CODES);
}

impl Shared {
    async fn start(&self, name: &str, options: PostgresOptions) -> (PostgresServer, Place<'_>) {
        let options = options.set("max_slot_wal_keep_size", "10GB");
        let server = PostgresServer::start(options).await.expect("a server");
        let place = Place::new(&self.ledger, &server.address(), DATABASE, &self.kafka.bootstrap());
        let place = place.with(&[&format!("name={name}")]);
        place.set_up().await;
        (server, place)
    }
}

async fn old_release(shared: &Shared) {
    let (_server, place) = shared.start("old", PostgresOptions::release(13, 21)).await;
    let found = place.expect("D006", &[]).await;
    assert!(found.remedy("D006").contains("PostgreSQL 13.22"), "{found:?}");
    place.expect("D005", &["--skip", "D006"]).await;
}

async fn wrong_clock(shared: &Shared) {
    let ahead = PostgresOptions::version(15).clock_ahead(Duration::from_secs(3600));
    let (_server, place) = shared.start("clock", ahead).await;
    let found = place.expect("D007", &[]).await;
    let message = found.finding("D007").to_string();
    assert!(message.contains("s ahead of this machine's"), "{message}");
}

/// What does not know replication connections (PgBouncer before 1.23) is seen by ordinary sessions.
async fn pooler(server: &PostgresServer, place: &Place<'_>) {
    let pooler =
        PgBouncer::start_with(server.port(), "router", &[LENIENT]).await.expect("a pooler");
    let place = place.by(&format!("127.0.0.1:{}", pooler.port()), "");
    place.expect("D001", &["--only", "D001"]).await;
    let mut found = place.doctor(&[]).await.serious();
    assert!(found.remove("D001"), "{found:?}");
    // PgBouncer before 1.23 refuses the connection with which the router streams.
    found.remove("P002");
    assert!(found.is_empty(), "{found:?}");
}

async fn idle_timeout(server: &mut PostgresServer, place: &Place<'_>) {
    let setting = "idle_replication_slot_timeout";
    server.set(&[(setting, "1d")]).await.expect("set");
    place.expect("D012", &[]).await;
    server.set(&[(setting, "0")]).await.expect("set");
    place.expect_nothing("no timeout", &[]).await;
}

/// A real standby, which follows or does not.
async fn standbys(server: &mut PostgresServer, place: &Place<'_>) {
    alter_slot(place, "ALTER_REPLICATION_SLOT outbox_router (FAILOVER false)").await;
    let found = place.expect("D014", &[]).await;
    assert_eq!(found.severity("D014"), "note", "no standby is there");
    run(server, "select pg_create_physical_replication_slot('standby')").await;
    let found = place.expect("D014", &[]).await;
    assert_eq!(found.severity("D014"), "warning");
    let remedy = found.remedy("D014");
    let statement = remedy.split_once("-c '").and_then(|(_, rest)| rest.split_once("',"));
    alter_slot(place, statement.expect("a statement").0).await;
    place.expect_nothing("the statement is run", &[]).await;

    server.set(&[("synchronized_standby_slots", "standby")]).await.expect("set");
    let found = place.expect("D015", &[]).await;
    assert!(found.finding("D015").to_string().contains("is read by no standby"), "{found:?}");
    let mut standby = standby_of(server).await;
    let follows = "select active from pg_replication_slots where slot_name = 'standby'";
    wait_until(server, follows).await;
    place.expect_nothing("the standby follows", &[]).await;

    standby.stop(ShutdownMode::Fast, LIMIT).await.expect("stopped");
    wait_until(server, "select not active from pg_replication_slots where slot_name = 'standby'")
        .await;
    let found = place.doctor(&[]).await;
    place.ledger.expect_all(&["D015", "D016"], "the standby is down", &found);
    run(server, "select pg_drop_replication_slot('standby')").await;
    let found = place.expect("D015", &[]).await;
    assert!(found.finding("D015").to_string().contains("does not exist"), "{found:?}");
    let statement = found.remedy("D015").split_once("or: ").expect("statements").1;
    for statement in statement.split(';') {
        run(server, statement).await;
    }
    wait_until(server, "select current_setting('synchronized_standby_slots') = ''").await;
    place.expect_nothing("the statements are run", &[]).await;
}

/// Copies the stopped server, without its slots.
async fn standby_of(server: &mut PostgresServer) -> PostgresServer {
    server.stop(ShutdownMode::Fast, LIMIT).await.expect("stopped");
    let primary = format!("host=127.0.0.1 port={} user={SUPERUSER}", server.port());
    let settings = [
        ("primary_conninfo", primary.as_str()),
        ("primary_slot_name", "standby"),
        ("hot_standby_feedback", "on"),
        ("synchronized_standby_slots", ""),
    ];
    let mut standby = server.copied(&settings).await.expect("copied");
    for slot in std::fs::read_dir(standby.data_dir().join("pg_replslot")).expect("slots") {
        std::fs::remove_dir_all(slot.expect("a slot").path()).expect("removed");
    }
    standby.write_file("standby.signal", b"").expect("written");
    server.start_again().await.expect("started");
    standby.start_again().await.expect("a standby");
    standby
}

async fn run(server: &PostgresServer, sql: &str) {
    let session = server.connect().await.expect("a session");
    session.batch_execute(sql).await.expect(sql);
}

async fn wait_until(server: &PostgresServer, condition: &str) {
    eventually(LIMIT, condition, async || {
        let session = server.connect().await?;
        let is_true: bool = session.query_one(condition, &[]).await?.get(0);
        Ok(is_true.then_some(()))
    })
    .await
    .expect("it becomes true");
}

/// Runs a replication command, as `psql 'dbname=… replication=database' -c` does.
async fn alter_slot(place: &Place<'_>, command: &str) {
    let info = ConnInfo::resolve(Some(&place.url("postgres")), &|_| None).expect("a string");
    let mut connection =
        ReplicationConnection::connect(&info, &Options::default()).await.expect("a connection");
    connection.query("altering the slot", command).await.expect(command);
}
