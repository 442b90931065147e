//! Faults of the server, the role, the slot, the publication, and the router that runs.

use std::time::Duration;

use outbox_router::polling::sql::setup::lease_statements;
use testbed::router::{RouterConfig, RouterProcess};

use super::{
    found::doctor,
    pair::{Database, Pair},
    place::STATE,
};

/// What is planted here.
pub(super) const CODES: &[&str] = &[
    "D002", "D003", "D004", "D010", "D011", "D013", "D016", "D017", "D018", "D020", "D021", "D045",
    "P003", "P004", "P005", "P010", "P013", "P014", "P020", "P021", "P022", "P023", "P024", "P030",
    "P043",
];

/// One test, because the servers take longer to start than all faults to plant.
#[tokio::test]
pub(super) async fn each_fault_of_postgres_is_named_by_its_code_alone() {
    let pair = Pair::start().await;

    let well = pair.database("well").await;
    let found = well.doctor(&[]).await;
    pair.ledger.expect_nothing("a pair as setup leaves it", &found);
    assert_eq!(found.part("not_run"), 0, "{:#}", found.report);
    drop(well);

    slots(&pair).await;
    publications(&pair).await;
    polled_last(&pair).await;
    roles(&pair).await;
    running(&pair).await;
    limits(&pair).await;
    pair.ledger.assert_proved(CODES);
}

async fn slots(pair: &Pair) {
    let drop_slot = |name: &str| format!("select pg_drop_replication_slot('{name}')");

    let dropped = pair.database("slot_dropped").await;
    dropped.sql(&drop_slot("slot_dropped"));
    dropped.expect("P010", &[]).await;

    let again = pair.database("slot_again").await;
    again.sql(&drop_slot("slot_again"));
    again.sql("create table other ()");
    again.sql("select pg_create_logical_replication_slot('slot_again', 'pgoutput')");
    again.expect("P014", &[]).await;
    drop(again);

    let interrupted = pair.database("slot_backfill").await;
    interrupted.sql(
        "create schema outbox_router; create table outbox_router.republication (id bigint, \
           pipeline text, slot text, command text, selection text, decided_by text, \
           begun_at timestamptz, position text, settled bigint, finished_at timestamptz, \
           outcome text); \
         insert into outbox_router.republication values (7, 'outbox-router', 'slot_backfill', \
           'backfill', '{\"tables\":[\"public.outbox\"],\"where\":null}', 'ann', now(), null, 5); \
         grant usage on schema outbox_router to public",
    );
    let found = interrupted.doctor(&[]).await;
    assert_eq!(found.part("not_run"), 1, "what cannot be read is said: {:#}", found.report);
    interrupted.sql("grant select on outbox_router.republication to public");
    let found = interrupted.expect("P013", &[]).await;
    let replay = "outbox-router replay --table public.outbox --all --admin-url";
    assert!(found.remedy("P013").contains(replay), "{found:?}");
    interrupted.sql("update outbox_router.republication set finished_at = now()");
    pair.ledger.expect_nothing("the run is ended", &interrupted.doctor(&[]).await);
    drop(interrupted);

    // All that are left are taken by others, so the missing one cannot be made again.
    let full = pair.database("slots_full").await;
    full.sql(&drop_slot("slots_full"));
    full.sql(
        "select pg_create_physical_replication_slot('taken_' || number) \
         from pg_settings, generate_series(1, setting::int) number \
         where name = 'max_replication_slots'",
    );
    let found = full.doctor(&[]).await;
    pair.ledger.expect_all(&["P005", "P010"], "no slot is free", &found);
    full.sql(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots \
         where slot_name like 'taken_%'",
    );
    full.expect("P010", &[]).await;
    drop(full);

    let others = pair.database("slot_others").await;
    others.sql("select pg_create_physical_replication_slot('left_over', true)");
    let found = others.expect("D016", &[]).await;
    let statement = "if nothing needs it any more: select pg_drop_replication_slot('left_over')";
    assert!(found.remedy("D016").starts_with(statement), "{}", found.remedy("D016"));
    others.sql(&drop_slot("left_over"));
    pair.ledger.expect_nothing("the other slot is dropped", &others.doctor(&[]).await);
    drop(others);

    // A slot that was advanced past the witness would be another fault.
    let pinned = pair.database("slot_pinned").await;
    let batch = pair.server.open_transaction("batch");
    for _ in 0..6 {
        pinned.sql("select pg_switch_wal(); select pg_logical_emit_message(false, 'x', 'x')");
    }
    pinned.sql("select pg_replication_slot_advance('slot_pinned', pg_current_wal_lsn())");
    let without_witness = ["--set", "kafka.state_topic=", "--skip", "D042"];
    let found = pinned.expect("D017", &without_witness).await;
    assert!(found.remedy("D017").starts_with("select pg_terminate_backend("), "{found:?}");
    pair.server.end_transaction("batch");
    drop((batch, pinned));

    let read = pair.database_with_existing("postgres", &[]).await;
    let reader = pair.server.read_slot("postgres", "outbox_router");
    read.expect("D018", &[]).await;
    drop(reader);
    pair.server.wait_until("select not active from pg_replication_slots");
}

async fn publications(pair: &Pair) {
    for (name, fault, code) in [
        ("pub_dropped", "drop publication outbox_router", "P020"),
        ("pub_table", "alter publication outbox_router drop table outbox", "P021"),
        ("pub_insert", "alter publication outbox_router set (publish = 'update')", "P022"),
        (
            "pub_filter",
            "alter publication outbox_router set table outbox where (event_type <> 'x')",
            "P023",
        ),
        ("pub_column", "alter publication outbox_router set table outbox (id)", "P024"),
        ("pub_child", "create table child () inherits (outbox)", "P030"),
        (
            "pub_updates",
            "alter publication outbox_router set (publish = 'insert, update, truncate')",
            "D021",
        ),
    ] {
        let database = pair.database(name).await;
        database.sql(fault);
        database.expect(code, &[]).await;
    }
    let polled = pair.database("pub_polled").await;
    for statement in lease_statements(Some("router")) {
        polled.sql(&statement.sql);
    }
    polled.sql(
        "insert into outbox_router.lease (relation, shard, holder, expires_at) \
         values ('outbox'::regclass, 0, gen_random_uuid(), now() - interval '1 s')",
    );
    pair.ledger.expect_nothing("a lease that has ended", &polled.doctor(&[]).await);
    polled.sql("update outbox_router.lease set expires_at = now() + interval '1 h'");
    polled.expect("P043", &[]).await;
    drop(polled);
    let all = pair.empty_database("pub_all");
    all.sql("create publication outbox_router for all tables with (publish = 'insert')");
    drop(all);
    let all = pair.database_with_existing("pub_all", &["outbox.0.table=public.outbox"]).await;
    all.expect("D020", &[]).await;
}

/// Somebody has set `postgres.source` to "stream" in place of `switch stream`.
async fn polled_last(pair: &Pair) {
    drop(pair.empty_database("polled_last"));
    let table = ["outbox.0.table=public.outbox"];
    let polled = pair.database_with_existing("polled_last", &table).await;
    for statement in lease_statements(Some("router")) {
        polled.sql(&statement.sql);
    }
    polled.sql("insert into outbox_router.lease (relation, shard) values ('outbox'::regclass, 0)");
    polled.expect_nothing("the slot is there", &[]).await;
    polled.sql("select pg_drop_replication_slot('polled_last')");
    // The publication shows that there was a stream, of the other table at least.
    polled.sql("create table other (like outbox including all)");
    polled.sql("alter publication outbox_router add table other");
    polled.expect("P010", &["--set", "outbox.1.table=public.other"]).await;
    polled.sql("drop table other");
    polled.expect("P043", &[]).await;
    polled.sql("drop publication outbox_router");
    let found = polled.expect("P043", &[]).await;
    assert!(found.remedy("P043").contains("outbox-router switch stream"), "{found:?}");
    // As every role that polls; the switch gives it the right.
    polled.sql("alter role router noreplication");
    polled.expect("P043", &[]).await;
    polled.sql("alter role router replication");
    // Under another name there is no witness.
    let found = polled.expect("P043", &["--set", "name=other"]).await;
    assert!(found.finding("P043").to_string().contains("was polled last"), "{found:?}");
    polled.sql(
        "insert into outbox_router.worker values ('outbox'::regclass, gen_random_uuid(), \
           'outbox-router', now() + interval '1 hour', 1)",
    );
    let found = polled.expect("P043", &[]).await;
    assert!(found.finding("P043").to_string().contains("is polled by 1 of"), "{found:?}");
}

async fn roles(pair: &Pair) {
    let database = pair.database("roles").await;
    let found = database.doctor_as("postgres", &[]).await;
    pair.ledger.expect("D003", "a superuser", &found);

    database.sql("alter role router noreplication");
    let found = database.doctor(&[]).await;
    pair.ledger.expect("P003", "a role without REPLICATION", &found);
    database.sql("alter role router replication");

    for (view, severity) in [("pg_replication_slots", "error"), ("pg_prepared_xacts", "warning")] {
        database.sql(&format!("revoke select on pg_catalog.{view} from public"));
        let found = database.doctor(&[]).await;
        pair.ledger.expect("D002", view, &found);
        assert_eq!(found.severity("D002"), severity);
        let grant = format!("grant select on pg_catalog.{view} to \"router\"");
        assert_eq!(found.remedy("D002"), grant);
        assert_ne!(found.part("not_run"), 0, "what needs the view is not judged");
        database.sql(&grant);
        pair.ledger.expect_nothing("the grant is run", &database.doctor(&[]).await);
    }

    database.sql("alter table outbox owner to router");
    let found = database.expect("D004", &[]).await;
    assert_eq!(found.severity("D004"), "note");
}

/// A row without a legal topic stops the router, and neither server shows that.
async fn running(pair: &Pair) {
    let database = pair.database("running").await;
    let mut config = RouterConfig::default();
    config.set("postgres.url", database.url("router")).set("postgres.slot", "running");
    config.set("kafka.bootstrap_servers", pair.kafka.bootstrap()).set("kafka.state_topic", STATE);
    config.set_outbox("table", "public.outbox");
    let mut router = RouterProcess::with_config(&config.to_string())
        .expect("a file")
        .program(env!("CARGO_BIN_EXE_outbox-router"));
    router.start_again().expect("a router");
    let limit = Duration::from_secs(30);
    router.wait_state("streaming", limit).await.expect("it streams");
    let listen = format!("admin.listen={}", router.admin());
    let ask = ["--set", &listen];
    database.expect_nothing("the router streams", &ask).await;
    database.sql(
        "insert into outbox (aggregate_type, aggregate_id, event_type) values ('no topic', '1', 'x')",
    );
    router.wait_state("failed", limit).await.expect("it cannot go on");
    let found = database.expect("D045", &ask).await;
    assert!(found.finding("D045").to_string().contains("R003"), "{found:?}");
    router.kill9().await.expect("killed");
    pair.server.wait_until("select not active from pg_replication_slots");
}

/// The slot has more WAL behind it than the limit allows, and no checkpoint has come yet.
async fn unreserved(pair: &Pair, database: &Database<'_>) {
    pair.server.sql("alter system set max_slot_wal_keep_size = '1MB'");
    pair.server.sql("select pg_reload_conf()");
    for _ in 0..3 {
        database.sql("select pg_switch_wal(); select pg_logical_emit_message(false, 'x', 'x')");
    }
    pair.server.wait_until("select wal_status = 'unreserved' from pg_replication_slots");
    let alarm = ["--set", "monitor.bytes_behind.critical=512KiB"];
    let alarm = [&alarm[..], &["--set", "monitor.bytes_behind.warning=256KiB"]].concat();
    database.expect("D013", &alarm).await;
    pair.server.sql("alter system set max_slot_wal_keep_size = '10GB'");
    pair.server.sql("select pg_reload_conf()");
    pair.server.wait_until("select wal_status <> 'unreserved' from pg_replication_slots");
    database.expect_nothing("the limit is raised", &[]).await;
}

/// What needs a restart of the server, and what does not.
async fn limits(pair: &Pair) {
    let replica = crate::server::Server::with_settings("wal_level = replica");
    let url = format!("postgres.url={}", replica.url("postgres"));
    let bootstrap = format!("kafka.bootstrap_servers={}", pair.kafka.bootstrap());
    let skipped = "D003,D010,D042,P010,P020";
    let line = ["doctor", "--json", "--set", &url, "--set", &bootstrap, "--skip", skipped];
    let line = line.iter().chain(&["--set", "kafka.state_topic="]);
    let line: Vec<String> = line.map(|&word| word.to_owned()).collect();
    pair.ledger.expect("P004", "wal_level", &doctor(None, &line).await);

    let database = pair.database("limits").await;
    unreserved(pair, &database).await;
    for (value, code) in [("'-1'", "D010"), ("'1GB'", "D011")] {
        pair.server.sql(&format!("alter system set max_slot_wal_keep_size = {value}"));
        pair.server.sql("select pg_reload_conf()");
        let shown = "select setting <> '10240' from pg_settings \
                     where name = 'max_slot_wal_keep_size'";
        pair.server.wait_until(shown);
        database.expect(code, &[]).await;
        let denied = database.doctor(&["--deny-warnings"]).await;
        assert_eq!(denied.exit, outbox_router::cli::Exit::Failure);
        let skipped = database.doctor(&["--deny-warnings", "--skip", code]).await;
        assert!(skipped.serious().is_empty() && skipped.exit == outbox_router::cli::Exit::Done);
        let only = database.doctor(&["--only", code]).await;
        assert_eq!(only.part("findings").as_array().expect("findings").len(), 1);
        assert_eq!(only.part("checks").as_array().expect("checks").len(), 1);
    }
}
