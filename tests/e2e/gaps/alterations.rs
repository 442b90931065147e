//! Alterations of publication, schemas and partitions while no router ran, after which the catalog
//! is as before. Rows that were written meanwhile are missing, and only OIDs and `xmin` show it. An
//! alteration that leaves no row out must not stop the router.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::wait::eventually;

use super::{expect_reported, has_interval, wait_for_monitor, write};

/// A fixture whose publication and table were altered before the first router. Its events are
/// confirmed, and no router runs.
async fn fixture_without_router(before: &[&str]) -> Fixture {
    let mut fixture = Fixture::builder().set("monitor.interval", "1s").prepare().await.unwrap();
    run(&fixture, before).await;
    fixture.restart().await.unwrap();
    write(&mut fixture, 100).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
    fixture.kill_router().await.unwrap();
    fixture
}

/// Each in a transaction of its own.
async fn run(fixture: &Fixture, statements: &[&str]) {
    let session = fixture.session().await.unwrap();
    for statement in statements {
        session.batch_execute(statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
}

/// The next router stops with the interval, and continues when a person has accepted it.
async fn expect_gap(fixture: &mut Fixture, code: &str, expected: &str) {
    fixture.router.start_again().unwrap();
    let has_failed = |status: &Value| text(status, "/state") == Some("failed");
    let status = fixture.router.wait_status(code, SHORT_DEADLINE, has_failed).await.unwrap();
    assert_eq!(text(&status, "/reason/code"), Some(code), "{status}");
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains(expected) && has_interval(&status), "{status}");
    assert!(text(&status, "/reason/hint").unwrap().contains("outbox-router accept"), "{status}");
    expect_reported(fixture, &[code]).await;
    fixture.accept().await.unwrap();
    write(fixture, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let now = fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    assert_eq!(now.pointer("/monitor/findings/0"), None, "{now}");
}

/// No event is missing, the router streams, and it reports nothing.
async fn expect_no_gap(fixture: &mut Fixture) {
    write(fixture, 20).await;
    fixture.restart().await.unwrap();
    write(fixture, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
    // Rows that are gone are nothing to compare with any more.
    fixture.kill_router().await.unwrap();
    run(fixture, &["TRUNCATE outbox"]).await;
    fixture.restart().await.unwrap();
    wait_for_monitor(fixture, 2.0).await;
    let status = fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    assert_eq!(status.pointer("/monitor/findings/0"), None, "{status}");
    let log = fixture.router.log();
    let reported = log.lines().find(|line| line.contains(" ERROR ") || line.contains("P02"));
    assert_eq!(reported, None);
}

const INSERT: &str = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
                      VALUES ('order', 'order-1', 'Lost')";

const BY_SCHEMA: [&str; 2] = [
    "ALTER PUBLICATION outbox_router DROP TABLE outbox",
    "ALTER PUBLICATION outbox_router ADD TABLES IN SCHEMA public",
];

#[tokio::test]
async fn a_schema_taken_out_of_the_publication_and_put_back_is_a_gap() {
    let mut fixture = fixture_without_router(&BY_SCHEMA).await;
    let out_and_back = [
        "ALTER PUBLICATION outbox_router DROP TABLES IN SCHEMA public",
        INSERT,
        "ALTER PUBLICATION outbox_router ADD TABLES IN SCHEMA public",
    ];
    run(&fixture, &out_and_back).await;
    expect_gap(&mut fixture, "P021", "the schema of table public.outbox was taken out").await;
}

#[tokio::test]
async fn a_table_moved_out_of_a_published_schema_and_back_is_a_gap() {
    let mut fixture = fixture_without_router(&BY_SCHEMA).await;
    let out_and_back = [
        "CREATE SCHEMA elsewhere",
        "ALTER TABLE outbox SET SCHEMA elsewhere",
        "INSERT INTO elsewhere.outbox (aggregate_type, aggregate_id, event_type) \
         VALUES ('order', 'order-1', 'Lost')",
        "ALTER TABLE elsewhere.outbox SET SCHEMA public",
    ];
    run(&fixture, &out_and_back).await;
    expect_gap(&mut fixture, "P021", "was moved out of that and back").await;
}

#[tokio::test]
async fn a_row_filter_set_and_removed_is_a_gap() {
    let mut fixture = fixture_without_router(&[]).await;
    let filtered = [
        "ALTER PUBLICATION outbox_router SET TABLE outbox WHERE (aggregate_id <> 'order-1')",
        INSERT,
        "ALTER PUBLICATION outbox_router SET TABLE outbox",
    ];
    run(&fixture, &filtered).await;
    expect_gap(&mut fixture, "P021", "another filter or column list").await;
}

/// What is done to tables on ordinary days.
const ORDINARY: [&str; 13] = [
    "VACUUM FULL outbox",
    "ANALYZE outbox",
    "GRANT SELECT ON outbox TO PUBLIC",
    "CREATE INDEX later ON outbox (aggregate_id)",
    "ALTER TABLE outbox ADD COLUMN note text",
    "ALTER SCHEMA public RENAME TO passing",
    "ALTER SCHEMA passing RENAME TO public",
    "CREATE ROLE other",
    "GRANT CREATE ON SCHEMA public TO other",
    "COMMENT ON TABLE outbox IS 'events'",
    "REINDEX TABLE outbox",
    "VACUUM FREEZE",
    "VACUUM FULL",
];

#[tokio::test]
async fn maintenance_of_a_table_in_a_published_schema_is_no_gap() {
    let mut fixture = fixture_without_router(&BY_SCHEMA).await;
    run(&fixture, &ORDINARY).await;
    run(&fixture, &["ALTER TABLE outbox SET LOGGED", "CLUSTER outbox USING later"]).await;
    expect_no_gap(&mut fixture).await;
}

/// Another table may have borne the name meanwhile, and may have been given rows.
#[tokio::test]
async fn a_table_renamed_and_renamed_back_is_reported_once_and_is_no_gap() {
    let mut fixture = fixture_without_router(&[]).await;
    let renamed = ["ALTER TABLE outbox RENAME TO passing", "ALTER TABLE passing RENAME TO outbox"];
    run(&fixture, &renamed).await;
    expect_reported_once(&mut fixture, "P029", "was renamed and renamed back").await;
}

const ALL_TABLES: [&str; 2] = [
    "DROP PUBLICATION outbox_router",
    "CREATE PUBLICATION outbox_router FOR ALL TABLES WITH (publish = 'insert')",
];

#[tokio::test]
async fn a_table_set_unlogged_and_logged_again_is_a_gap() {
    let mut fixture = fixture_without_router(&ALL_TABLES).await;
    let unlogged = ["ALTER TABLE outbox SET UNLOGGED", INSERT, "ALTER TABLE outbox SET LOGGED"];
    run(&fixture, &unlogged).await;
    run(&fixture, &["VACUUM FULL outbox"]).await;
    expect_gap(&mut fixture, "P021", "table public.outbox was unlogged for a while").await;
}

#[tokio::test]
async fn a_table_rewritten_for_a_new_column_is_reported_once_and_is_no_gap() {
    let mut fixture = fixture_without_router(&ALL_TABLES).await;
    run(&fixture, &["ALTER TABLE outbox ADD COLUMN chance text DEFAULT random()::text"]).await;
    expect_reported_once(&mut fixture, "P021", "was rewritten by alter table").await;
}

/// A partitioned outbox of two levels.
const PARTITIONED: [&str; 8] = [
    "ALTER PUBLICATION outbox_router DROP TABLE outbox",
    "ALTER TABLE outbox RENAME TO former",
    "CREATE TABLE outbox (LIKE former INCLUDING DEFAULTS) PARTITION BY HASH (aggregate_id)",
    "CREATE TABLE part_0 PARTITION OF outbox FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE part_1 PARTITION OF outbox FOR VALUES WITH (MODULUS 2, REMAINDER 1) \
     PARTITION BY LIST (event_type)",
    "CREATE TABLE part_1_other PARTITION OF part_1 DEFAULT",
    "DROP TABLE former",
    "ALTER PUBLICATION outbox_router ADD TABLE outbox",
];

#[tokio::test]
async fn a_partition_detached_and_attached_again_is_a_gap() {
    let mut fixture = fixture_without_router(&PARTITIONED).await;
    let out_and_back = [
        "ALTER TABLE part_1 DETACH PARTITION part_1_other",
        "INSERT INTO part_1_other (aggregate_type, aggregate_id, event_type) \
         SELECT aggregate_type, aggregate_id, 'Lost' FROM part_1_other LIMIT 1",
        "ALTER TABLE part_1 ATTACH PARTITION part_1_other DEFAULT",
    ];
    run(&fixture, &out_and_back).await;
    let expected = "partition public.part_1_other of table public.outbox was detached";
    expect_gap(&mut fixture, "P021", expected).await;
}

#[tokio::test]
async fn a_partition_set_unlogged_for_a_while_or_still_unlogged_is_a_gap() {
    let mut fixture = fixture_without_router(&PARTITIONED).await;
    let unlogged =
        ["ALTER TABLE part_1_other SET UNLOGGED", INSERT, "ALTER TABLE part_1_other SET LOGGED"];
    run(&fixture, &unlogged).await;
    let expected = "partition public.part_1_other of table public.outbox was unlogged";
    expect_gap(&mut fixture, "P021", expected).await;

    fixture.kill_router().await.unwrap();
    run(&fixture, &["ALTER TABLE part_0 SET UNLOGGED"]).await;
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    let expected = "partition public.part_0 of table public.outbox is unlogged";
    assert!(text(&status, "/reason/message").unwrap().contains(expected), "{status}");
}

#[tokio::test]
async fn adding_and_dropping_partitions_and_their_maintenance_are_no_gap() {
    let mut fixture = fixture_without_router(&PARTITIONED).await;
    let come_and_go = [
        "CREATE TABLE part_1_rare PARTITION OF part_1 FOR VALUES IN ('Rare')",
        "CREATE TABLE part_1_never PARTITION OF part_1 FOR VALUES IN ('Never')",
        "ALTER TABLE part_1 DETACH PARTITION part_1_never",
        "CREATE TABLE made_before (LIKE outbox INCLUDING DEFAULTS)",
        "ALTER TABLE part_1 ATTACH PARTITION made_before FOR VALUES IN ('Before')",
    ];
    run(&fixture, &come_and_go).await;
    run(&fixture, &["VACUUM FULL part_0", "ALTER TABLE part_0 RENAME TO part_zero"]).await;
    run(&fixture, &ORDINARY).await;
    run(&fixture, &["DROP TABLE part_1_rare"]).await;
    expect_no_gap(&mut fixture).await;
}

#[tokio::test]
async fn rows_that_were_published_by_their_partitions_are_delivered() {
    let mut fixture = fixture_without_router(&PARTITIONED).await;
    run(&fixture, &["ALTER PUBLICATION outbox_router SET (publish_via_partition_root = false)"])
        .await;
    write(&mut fixture, 20).await;
    run(&fixture, &["ALTER PUBLICATION outbox_router SET (publish_via_partition_root = true)"])
        .await;
    write(&mut fixture, 20).await;
    expect_gap(&mut fixture, "P032", "was altered and looks as before").await;
    fixture.check().await.unwrap().clean().unwrap();
}

/// The router streams, and reports once what it found.
async fn expect_reported_once(fixture: &mut Fixture, code: &str, expected: &str) {
    fixture.restart().await.unwrap();
    let announced = |log: &str| {
        let lines = log.lines().filter(|line| line.contains(expected) && line.contains("WARN"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let line = eventually(SHORT_DEADLINE, "a warning in the log", async || {
        Ok(announced(&fixture.router.log()).into_iter().next())
    });
    let line = line.await.unwrap();
    assert!(line.contains(code) && line.contains("rows committed after"), "{line}");
    wait_for_monitor(fixture, 2.0).await;
    let status = fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    let shown = text(&status, "/monitor/alterations/0/message").unwrap();
    assert!(shown.contains(expected), "{status}");
    assert_eq!(announced(&fixture.router.log()).len(), 1, "{}", fixture.router.log());
    write(fixture, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    // The next process has nothing to say of it.
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    wait_for_monitor(fixture, 2.0).await;
    assert_eq!(announced(&fixture.router.log()).len(), 1, "{}", fixture.router.log());
}

#[tokio::test]
async fn an_alteration_while_no_router_ran_whose_change_is_visible_is_reported_once() {
    let mut fixture = fixture_without_router(&[]).await;
    let altered = [
        format!("ALTER PUBLICATION {PUBLICATION} SET (publish = 'update')"),
        format!("ALTER PUBLICATION {PUBLICATION} SET (publish = 'insert, update')"),
    ];
    run(&fixture, &altered.each_ref().map(String::as_str)).await;
    expect_reported_once(&mut fixture, "P032", "was altered between two readings").await;
}
