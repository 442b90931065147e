//! Everything that makes rows go missing is told to the streaming task by its code, with the
//! interval at risk.

use outbox_router::codes::hint;
use outbox_router::monitor::{MonitorReport, ObservedSlot};
use relay::{Code, Outboxes, State};

use crate::{
    fixture::{COLUMNS, MonitorFixture, make_slot, set_up, settings},
    postgres::Postgres,
    preflight::fit,
};

/// What somebody does to a healthy set-up called `x`, and what it is found to be.
const CASES: [(&str, Code); 12] = [
    ("drop publication p_x", Code::PublicationMissing),
    (
        "begin; drop publication p_x; create publication p_x for table outbox_x \
         with (publish = 'insert', publish_via_partition_root = true); commit",
        Code::PublicationReplaced,
    ),
    ("alter publication p_x drop table outbox_x", Code::PublicationLacksTable),
    (
        "begin; alter publication p_x drop table outbox_x; \
         alter publication p_x add table outbox_x; commit",
        Code::PublicationLacksTable,
    ),
    ("alter publication p_x set (publish = 'update')", Code::PublicationLacksInsert),
    (
        "alter publication p_x set table outbox_x where (aggregate_id <> 'secret')",
        Code::PublicationFiltersRows,
    ),
    (
        "alter publication p_x set table outbox_x (id, aggregate_type, aggregate_id, event_type)",
        Code::PublicationLacksColumn,
    ),
    (
        "begin; alter table outbox_x rename to outbox_x_old; \
         create table outbox_x (like outbox_x_old including all); commit",
        Code::TableReplaced,
    ),
    ("create table child_x () inherits (outbox_x)", Code::TableInherited),
    (
        "alter publication p_x set (publish = 'update'); \
         alter publication p_x set (publish = 'insert')",
        Code::PublicationAltered,
    ),
    (
        "begin; alter publication p_x rename to p_x_other; \
         alter publication p_x_other rename to p_x; commit",
        Code::PublicationAltered,
    ),
    ("select pg_drop_replication_slot('s_x')", Code::SlotMissing),
];

#[tokio::test]
async fn each_way_to_lose_rows_is_reported_by_its_code_with_the_interval_at_risk() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    for (n, (sql, code)) in CASES.into_iter().enumerate() {
        let name = format!("case{n}");
        set_up(&client, &name).await;
        let mut fixture = MonitorFixture::start(&postgres, settings(&name), State::Streaming);
        let well = fixture.until_good_reading().await;
        client.batch_execute(&sql.replace("_x", &format!("_{name}"))).await.unwrap();
        let gap = fixture.gap().await;
        let (failure, interval) = (&gap.failure, gap.interval.clone());
        assert_eq!(failure.code, code, "{sql}: {failure}");
        assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
        let report = fixture.until("the gap", |report| report.gap.is_some()).await;
        assert_eq!(report.gap.as_ref(), Some(&gap));
        let from = interval.from.unwrap();
        assert!(from.at.is_some() && failure.message.contains(&from.to_string()), "{failure}");
        assert!(failure.message.contains(&interval.to.to_string()), "{failure}");
        let slot = well.slot.health().unwrap();
        assert!(from.lsn >= slot.confirmed_flush_lsn.unwrap() && from.lsn <= interval.to.lsn);
        drop(fixture);
        client
            .batch_execute(&format!(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots \
                 where slot_name = 's_{name}'"
            ))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_renamed_outbox_is_found_and_followed_and_is_no_gap() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    client.batch_execute("alter table outbox_x rename to elsewhere").await.unwrap();
    let report = fixture.until("a finding", |report| !report.findings.is_empty()).await;
    let codes: Vec<Code> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::TableRenamed]);
    fixture.rounds(3).await;
    assert_eq!(fixture.report.borrow().findings, report.findings, "it is remembered");
    fixture.assert_no_event();
    // What befalls it under its new name is seen.
    client.batch_execute("alter publication p_x drop table elsewhere").await.unwrap();
    let failure = fixture.gap().await.failure;
    assert_eq!(failure.code, Code::PublicationLacksTable);
    assert!(hint(&failure).unwrap().contains("add table only \"public\".\"elsewhere\""));
}

#[tokio::test]
async fn a_table_that_takes_the_name_of_a_renamed_outbox_is_a_gap() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    client.batch_execute("alter table outbox_x rename to elsewhere").await.unwrap();
    fixture.until("a finding", |report| !report.findings.is_empty()).await;
    client.batch_execute("create table outbox_x (like elsewhere including all)").await.unwrap();
    assert_eq!(fixture.gap().await.failure.code, Code::TableReplaced);
}

#[tokio::test]
async fn a_partitioned_outbox_must_stay_published_by_its_root() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    client
        .batch_execute(&format!(
            "create table outbox_part ({}) partition by range (created_at); \
             create table outbox_leaf partition of outbox_part default; \
             create publication p_part for table outbox_part \
               with (publish = 'insert', publish_via_partition_root = true)",
            COLUMNS.replace(" primary key", "")
        ))
        .await
        .unwrap();
    make_slot(&client, "part").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("part"), State::Streaming);
    fixture.until_good_reading().await;
    let sql = "alter publication p_part set (publish_via_partition_root = false)";
    client.batch_execute(sql).await.unwrap();
    assert_eq!(fixture.gap().await.failure.code, Code::PublicationByLeaf);
}

#[tokio::test]
async fn without_configured_tables_those_first_seen_must_stay() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "one").await;
    client
        .batch_execute(&format!(
            "create table second ({COLUMNS}); alter publication p_one add table second"
        ))
        .await
        .unwrap();
    let settings = outbox_router::monitor::MonitorSettings {
        outboxes: Outboxes::default(),
        ..settings("one")
    };
    let mut fixture = MonitorFixture::start(&postgres, settings, State::Streaming);
    fixture.until_good_reading().await;
    // Dropped altogether: it takes no more rows, so none is missing.
    client.batch_execute("drop table second").await.unwrap();
    fixture.rounds(3).await;
    assert!(fixture.report.borrow().findings.is_empty());
    client.batch_execute("alter publication p_one drop table outbox_one").await.unwrap();
    assert_eq!(fixture.gap().await.failure.code, Code::PublicationLacksTable);
}

#[tokio::test]
async fn all_tables_and_tables_in_schema_are_read_as_the_server_publishes_them() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    for (name, clause) in [("all", "for all tables"), ("schema", "for tables in schema public")] {
        client
            .batch_execute(&format!(
                "create table outbox_{name} ({COLUMNS}); create publication p_{name} {clause}"
            ))
            .await
            .unwrap();
        make_slot(&client, name).await;
        let mut fixture = MonitorFixture::start(&postgres, settings(name), State::Streaming);
        fixture.until_good_reading().await;
    }
}

#[tokio::test]
async fn a_slot_whose_wal_was_removed_is_lost() {
    let postgres = Postgres::start(&["max_slot_wal_keep_size=1MB", "min_wal_size=32MB"]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Blocked);
    fixture.until_good_reading().await;
    for _ in 0..3 {
        client
            .batch_execute("create table t (); drop table t; select pg_switch_wal()")
            .await
            .unwrap();
    }
    client.batch_execute("checkpoint").await.unwrap();
    let failure = fixture.gap().await.failure;
    assert_eq!(failure.code, Code::SlotLost, "{failure}");
    let report = fixture.report.borrow().clone();
    assert_eq!(report.slot.health().unwrap().retained_bytes(), None);
}

#[tokio::test]
async fn a_router_that_is_still_being_set_up_has_no_gap() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Starting);
    let report = fixture.until("a finding", |report| !report.findings.is_empty()).await;
    assert_eq!(report.findings[0].code, Code::SlotMissing);
    assert!(hint(&report.findings[0]).unwrap().contains("outbox-router setup --apply"));
    fixture.rounds(3).await;
    fixture.assert_no_event();
    set_up(&client, "x").await;
    let report = fixture.until_good_reading().await;
    assert_eq!(report.gap, None);
}

#[tokio::test]
async fn after_a_gap_was_accepted_the_next_session_is_what_counts() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    let again = "begin; drop publication p_x; create publication p_x for table outbox_x \
                 with (publish = 'insert', publish_via_partition_root = true); commit";
    client.batch_execute(again).await.unwrap();
    assert_eq!(fixture.gap().await.failure.code, Code::PublicationReplaced);
    let baseline = fit(&client, "x", None).await;
    fixture.set_relay(|relay| relay.baseline = Some(std::sync::Arc::new(baseline)));
    let report = fixture.until_good_reading().await;
    assert_eq!(report.gap, None);
    fixture.assert_no_event();
    client.batch_execute(again).await.unwrap();
    assert_eq!(fixture.gap().await.failure.code, Code::PublicationReplaced, "told again");
}

#[tokio::test]
async fn a_monitor_that_reaches_another_server_reports_that_and_nothing_else() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut baseline = fit(&client, "x", None).await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    baseline.server.history.timeline = 7;
    fixture.set_relay(|relay| relay.baseline = Some(std::sync::Arc::new(baseline)));
    let elsewhere = |finding: &relay::Failure| finding.code == Code::MonitorElsewhere;
    let found = fixture.until("the finding", |report| report.findings.iter().any(elsewhere)).await;
    client.batch_execute("drop publication p_x").await.unwrap();
    fixture.rounds(3).await;
    fixture.assert_no_event();
    // What is known of the slot grows old, and is not mixed with what the other server shows.
    let report = fixture.report.borrow().clone();
    assert!(report.ticked_at > found.ticked_at);
    assert_eq!(report.slot, ObservedSlot::Unknown);
    let read = report.watch.last.as_ref().map(|last| last.read);
    assert!(read.is_some() && report.polled_at == read, "{report:?}");
    assert_eq!((report.polled_at, report.watch), (found.polled_at, found.watch));
}

/// As after a promotion that is a gap: the baseline is that of the last session, on the server of
/// before.
#[tokio::test]
async fn without_a_stream_the_server_that_answers_is_no_other_one_and_no_gap_of_the_former() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut baseline = fit(&client, "x", None).await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    baseline.server.history.timeline = 7;
    fixture.set_relay(|relay| {
        relay.baseline = Some(std::sync::Arc::new(baseline));
        (relay.condition.state, relay.has_session) = (State::Failed, false);
    });
    fixture.rounds(2).await;
    let before = fixture.report.borrow().polled_at.unwrap();
    let again = "drop publication p_x; create publication p_x for table outbox_x \
                 with (publish = 'insert', publish_via_partition_root = true)";
    client.batch_execute(again).await.unwrap();
    fixture.rounds(3).await;
    fixture.assert_no_event();
    let report = fixture.report.borrow().clone();
    assert_eq!(report.findings, []);
    assert!(report.slot.health().is_some() && report.polled_at.unwrap().at > before.at);

    client.query_one("select pg_drop_replication_slot('s_x')", &[]).await.unwrap();
    let missing = |report: &MonitorReport| {
        report.findings.iter().any(|finding| finding.code == Code::SlotMissing)
    };
    fixture.until("what is wrong here", missing).await;
    fixture.rounds(2).await;
    fixture.assert_no_event();
}

#[tokio::test]
async fn a_monitor_without_a_good_reading_still_reports_a_gap_to_a_streaming_relay() {
    let postgres = Postgres::start(&[]).await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    assert_eq!(fixture.gap().await.failure.code, Code::SlotMissing);
}

#[tokio::test]
async fn an_alteration_whose_change_is_visible_and_a_statement_that_alters_nothing_are_no_gaps() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    for sql in [
        "create role other superuser; alter publication p_x owner to other",
        "alter publication p_x set (publish = 'insert, truncate')",
        "alter publication p_x set (publish_via_partition_root = false)",
        // These write nothing that a publication is.
        "create table another (); alter publication p_x add table another",
        "comment on publication p_x is 'the outbox'",
        "vacuum freeze pg_publication",
        "vacuum full pg_publication",
    ] {
        for statement in sql.split("; ") {
            client.batch_execute(statement).await.unwrap();
        }
        fixture.rounds(3).await;
        assert_eq!(fixture.report.borrow().findings, [], "{sql}");
        fixture.assert_no_event();
    }
}

#[tokio::test]
async fn inheriting_tables_are_found_at_any_depth_and_partitions_are_none() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    client
        .batch_execute(
            "create table child () inherits (outbox_x); create table grandchild () inherits (child)",
        )
        .await
        .unwrap();
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Failed);
    let report = fixture.until("a finding", |report| !report.findings.is_empty()).await;
    let finding = &report.findings[0];
    assert_eq!(finding.code, Code::TableInherited);
    let both = "tables public.child, public.grandchild inherit from public.outbox_x";
    assert!(finding.message.contains(both), "{finding}");
    // Nobody has ever seen it without them: that is no gap, and it may be repaired.
    fixture.rounds(3).await;
    fixture.assert_no_event();
    let asks_for = |report: &MonitorReport, statement: &str| {
        report.findings.iter().any(|f| hint(f).unwrap().contains(statement))
    };
    assert!(asks_for(
        &report,
        "add table only \"public\".\"child\", only \"public\".\"grandchild\""
    ));
    client.batch_execute("alter publication p_x add table only child").await.unwrap();
    let only_one = "add table only \"public\".\"grandchild\"";
    fixture.until("what is left to publish", |report| asks_for(report, only_one)).await;
    client.batch_execute("alter table child no inherit outbox_x").await.unwrap();
    fixture.until_good_reading().await;
    client.batch_execute("create temporary table mine () inherits (outbox_x)").await.unwrap();
    fixture.rounds(3).await;
    assert_eq!(fixture.report.borrow().findings, []);
    client.batch_execute("alter table grandchild inherit outbox_x").await.unwrap();
    assert_eq!(fixture.gap().await.failure.code, Code::TableInherited);
}

#[tokio::test]
async fn an_inheriting_table_that_is_published_is_an_outbox_where_none_is_configured() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    client.batch_execute("create table child () inherits (outbox_x)").await.unwrap();
    let settings =
        outbox_router::monitor::MonitorSettings { outboxes: Outboxes::default(), ..settings("x") };
    let mut fixture = MonitorFixture::start(&postgres, settings, State::Failed);
    let report = fixture.until("a finding", |report| !report.findings.is_empty()).await;
    assert_eq!(report.findings[0].code, Code::TableInherited);
    let remedy = hint(&report.findings[0]).unwrap();
    let statement = "alter publication \"p_x\" add table only \"public\".\"child\"";
    assert!(remedy.contains(statement) && !remedy.contains("[[outbox]]"), "{remedy}");
    client.batch_execute(statement).await.unwrap();
    fixture.until_good_reading().await;
}

#[tokio::test]
async fn the_roles_that_may_move_rows_of_a_partitioned_outbox_are_found() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    client
        .batch_execute(&format!(
            "create role app; create role reader; create role writer; \
             create table outbox_x ({}, processed bool) partition by list (processed); \
             create table leaf partition of outbox_x default partition by range ((created_at)); \
             create table leaf_1 partition of leaf default; \
             grant select, insert, delete on outbox_x to reader; \
             grant update (payload) on outbox_x to writer; \
             create publication p_x for table outbox_x \
               with (publish = 'insert', publish_via_partition_root = true)",
            COLUMNS.replace(" primary key", "")
        ))
        .await
        .unwrap();
    make_slot(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    for (grant, revoke, expected) in [
        (
            "grant update on outbox_x to app",
            "revoke update on outbox_x from app",
            "because \"app\" may update created_at, processed",
        ),
        (
            "grant update (processed) on outbox_x to public",
            "revoke update (processed) on outbox_x from public",
            "because public may update processed",
        ),
        (
            "grant update (created_at) on outbox_x to writer",
            "revoke update (created_at) on outbox_x from writer",
            "because \"writer\" may update created_at",
        ),
    ] {
        client.batch_execute(grant).await.unwrap();
        let report = fixture.until(grant, |report| !report.findings.is_empty()).await;
        let finding = &report.findings[0];
        assert_eq!(finding.code, Code::RowsMove);
        assert!(finding.message.contains(expected), "{finding}");
        fixture.assert_no_event();
        client.batch_execute(revoke).await.unwrap();
        fixture.until_good_reading().await;
    }
}
