//! Faults of the server, the role, the slot, the publication and the table.

use super::pair::{Pair, doctor};

/// One test, because the servers take longer to start than all faults to plant.
#[tokio::test]
async fn each_fault_of_postgres_is_named_by_its_code_alone() {
    let pair = Pair::start().await;

    let well = pair.database("well").await;
    let found = well.doctor(&[]).await;
    pair.expect_nothing("a pair as setup leaves it", &found);
    assert_eq!(found.part("not_run"), 0, "{:#}", found.report);
    drop(well);

    slots(&pair).await;
    publications(&pair).await;
    tables(&pair).await;
    roles(&pair).await;
    limits(&pair).await;
    pair.assert_named(25);
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

    let others = pair.database("slot_others").await;
    others.sql("select pg_create_physical_replication_slot('left_over', true)");
    let found = others.expect("D016", &[]).await;
    let statement = "if nothing needs it any more: select pg_drop_replication_slot('left_over')";
    assert_eq!(found.remedy("D016"), statement);
    others.sql(&drop_slot("left_over"));
    pair.expect_nothing("the other slot is dropped", &others.doctor(&[]).await);
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
    ] {
        let database = pair.database(name).await;
        database.sql(fault);
        database.expect(code, &[]).await;
    }
    let all = pair.empty_database("pub_all");
    all.sql("create publication outbox_router for all tables with (publish = 'insert')");
    drop(all);
    let all = pair.database_with_existing("pub_all", &["outbox.0.table=public.outbox"]).await;
    all.expect("D020", &[]).await;
}

async fn tables(pair: &Pair) {
    for (name, fault, code) in [
        ("tab_columns", "alter table outbox rename column payload to body", "R007"),
        ("tab_rule", "create rule away as on insert to outbox do instead nothing", "D025"),
        ("tab_index", "alter table outbox drop constraint outbox_pkey", "D022"),
        ("tab_null", "alter table outbox alter column aggregate_id drop not null", "D026"),
    ] {
        let database = pair.database(name).await;
        database.sql(fault);
        database.expect(code, &[]).await;
    }

    // The statement of the remedy mends it.
    let mended = pair.database("tab_mended").await;
    mended.sql("alter table outbox alter column aggregate_id drop not null");
    let found = mended.doctor(&["--only", "D026"]).await;
    let remedy = found.remedy("D026");
    mended.sql(remedy.split_once(": ").expect("a statement").1);
    pair.expect_nothing("the statement is run", &mended.doctor(&[]).await);
    drop(mended);

    let absent = pair.database("tab_absent").await;
    absent.expect("P028", &["--set", "outbox.0.table=public.absent"]).await;
    drop(absent);

    let held = pair.database("tab_held").await;
    let letters = ["--set", "on_error.bad_row=dead_letter", "--set", "dead_letters.topic="];
    held.expect("P036", &letters).await;
    drop(held);

    let retained = pair.database("tab_retained").await;
    let delete = ["--set", "retention.mode=delete", "--set", "outbox.0.table=public.outbox"];
    let found = retained.expect("P038", &delete).await;
    assert!(found.remedy("P038").contains("grant select, delete on"), "{found:?}");
    drop(retained);

    let empty = pair.empty_database("tab_empty");
    empty.sql(
        "create table outbox (id uuid not null, aggregate_type text not null, \
         aggregate_id text not null, event_type text not null, payload jsonb, headers jsonb, \
         created_at timestamptz not null default now(), primary key (id, created_at)) \
         partition by range (created_at)",
    );
    drop(empty);
    pair.database_with_existing("tab_empty", &[]).await.expect("D027", &[]).await;
}

async fn roles(pair: &Pair) {
    let database = pair.database("roles").await;
    let found = database.doctor_as("postgres", &[]).await;
    pair.expect("D003", "a superuser", &found);

    database.sql("alter role router noreplication");
    let found = database.doctor(&[]).await;
    pair.expect("P003", "a role without REPLICATION", &found);
    database.sql("alter role router replication");

    for (view, severity) in [("pg_replication_slots", "error"), ("pg_prepared_xacts", "warning")] {
        database.sql(&format!("revoke select on pg_catalog.{view} from public"));
        let found = database.doctor(&[]).await;
        pair.expect("D002", view, &found);
        assert_eq!(found.severity("D002"), severity);
        let grant = format!("grant select on pg_catalog.{view} to \"router\"");
        assert_eq!(found.remedy("D002"), grant);
        assert_ne!(found.part("not_run"), 0, "what needs the view is not judged");
        database.sql(&grant);
        pair.expect_nothing("the grant is run", &database.doctor(&[]).await);
    }

    database.sql("alter table outbox owner to router");
    let found = database.doctor(&[]).await;
    pair.expect_nothing("the role owns the table", &found);
    assert_eq!(found.severity("D004"), "note");
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
    pair.expect("P004", "wal_level", &doctor(None, &line).await);

    let database = pair.database("limits").await;
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
