//! Identities by which a table's place in the publication, and its rows' place in the WAL, is
//! known: who writes them, and who does not.

use relay::{Code, State};

use crate::{
    fixture::{COLUMNS, MonitorFixture, make_slot, set_up, settings},
    postgres::Postgres,
};

#[tokio::test]
async fn partitions_added_and_removed_are_no_gap_and_one_put_back_between_two_readings_is() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    client
        .batch_execute(&format!(
            "create table outbox_x ({}) partition by list (event_type); \
             create table leaf partition of outbox_x default; \
             create table archived partition of outbox_x for values in ('old'); \
             create publication p_x for table outbox_x \
               with (publish = 'insert', publish_via_partition_root = true)",
            COLUMNS.replace(" primary key", "")
        ))
        .await
        .unwrap();
    client.batch_execute("alter table outbox_x detach partition leaf").await.unwrap();
    make_slot(&client, "x").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;

    // Who reads the table keeps DETACH CONCURRENTLY from its end, and a timeout leaves it there.
    let reader = postgres.client().await;
    reader.batch_execute("begin; select from outbox_x").await.unwrap();
    client.batch_execute("set statement_timeout = '300ms'").await.unwrap();
    let detach = "alter table outbox_x detach partition archived concurrently";
    client.batch_execute(detach).await.unwrap_err();
    reader.batch_execute("commit").await.unwrap();
    client.batch_execute("set statement_timeout = 0").await.unwrap();
    let pending = "select from pg_inherits where inhdetachpending";
    assert_eq!(client.query(pending, &[]).await.unwrap().len(), 1, "it is on its way out");
    fixture.rounds(3).await;
    for statement in [
        "alter table outbox_x detach partition archived finalize",
        "alter table outbox_x attach partition archived for values in ('old')",
        "create table later partition of outbox_x for values in ('later')",
        "alter table outbox_x attach partition leaf default",
        "alter table later rename to latest",
        "vacuum full latest",
        "drop table latest",
    ] {
        client.batch_execute(statement).await.unwrap();
        fixture.rounds(3).await;
        assert_eq!(fixture.report.borrow().findings, [], "{statement}");
        fixture.assert_no_event();
    }
    let unseen = "alter table outbox_x detach partition archived; \
                  alter table outbox_x attach partition archived for values in ('old')";
    client.batch_execute(unseen).await.unwrap();
    let failure = fixture.gap().await.failure;
    assert_eq!(failure.code, Code::PublicationLacksTable);
    assert!(failure.message.contains("partition public.archived"), "{failure}");
}

#[tokio::test]
async fn setting_a_table_logged_is_distinguished_from_all_else_that_rewrites_it() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let all =
        "drop publication p_x; create publication p_x for all tables with (publish = 'insert')";
    client.batch_execute(all).await.unwrap();
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    for (statement, reported) in [
        ("vacuum full outbox_x", 0),
        ("cluster outbox_x using outbox_x_pkey", 0),
        ("truncate outbox_x", 0),
        ("alter table outbox_x set logged", 0),
        ("alter table outbox_x add column note text default 'none'", 0),
        ("alter table outbox_x alter note type varchar(99) using upper(note)", 1),
        ("alter table outbox_x add column chance text default random()::text", 2),
        // Unseen all the same, if it happens below what explains it.
        (
            "alter table outbox_x set unlogged; alter table outbox_x set logged; \
             alter table outbox_x alter note set statistics 10",
            3,
        ),
    ] {
        client.batch_execute(statement).await.unwrap();
        fixture.rounds(3).await;
        let report = fixture.report.borrow().clone();
        assert_eq!(report.findings, [], "{statement}");
        let codes: Vec<Code> =
            report.alterations.iter().map(|alteration| alteration.code).collect();
        assert_eq!(codes, vec![Code::PublicationLacksTable; reported], "{statement}");
        fixture.assert_no_event();
    }
    let unlogged = "alter table outbox_x set unlogged; alter table outbox_x set logged";
    // A tool that leaves the same trace; only that it is there is made up.
    let squeeze = "set allow_system_table_mods = on; \
                   insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, \
                     extversion) values (9999, 'pg_squeeze', 10, 11, false, '1')";
    client.batch_execute(squeeze).await.unwrap();
    fixture.rounds(3).await;
    client.batch_execute(unlogged).await.unwrap();
    fixture.rounds(3).await;
    assert_eq!(fixture.report.borrow().findings, []);
    fixture.assert_no_event();
    client.batch_execute("delete from pg_extension where oid = 9999").await.unwrap();
    fixture.rounds(3).await;
    client.batch_execute(unlogged).await.unwrap();
    let failure = fixture.gap().await.failure;
    assert_eq!(failure.code, Code::PublicationLacksTable);
    assert!(failure.message.contains("was unlogged for a while"), "{failure}");
}

#[tokio::test]
async fn a_table_moved_out_of_a_published_schema_and_back_between_two_readings_is_a_gap() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let by_schema = "alter publication p_x drop table outbox_x; \
                     alter publication p_x add tables in schema public; create schema elsewhere";
    client.batch_execute(by_schema).await.unwrap();
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    for statement in [
        "vacuum full",
        "vacuum freeze",
        "create role other; alter table outbox_x owner to other",
        "reassign owned by other to postgres",
        "alter schema public rename to passing; alter schema passing rename to public",
        "alter publication p_x set tables in schema public",
    ] {
        client.batch_execute(statement).await.unwrap();
        fixture.rounds(3).await;
        assert_eq!(fixture.report.borrow().findings, [], "{statement}");
        fixture.assert_no_event();
    }
    let moved = "alter table outbox_x set schema elsewhere; \
                 alter table elsewhere.outbox_x set schema public";
    client.batch_execute(moved).await.unwrap();
    let failure = fixture.gap().await.failure;
    assert_eq!(failure.code, Code::PublicationLacksTable);
    assert!(failure.message.contains("out of that and back"), "{failure}");
}

/// What a rename leaves behind, and what else writes that row.
#[tokio::test]
async fn what_gives_a_table_its_name_back_is_reported_once_and_nothing_else_is() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    client.batch_execute("create schema aside; create role another").await.unwrap();
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    fixture.until_good_reading().await;
    let mut expected = 0;
    for (statement, reported) in [
        ("alter table outbox_x add column note text", 0),
        ("alter table outbox_x rename column note to remark", 0),
        ("vacuum full outbox_x; analyze outbox_x", 0),
        ("vacuum full pg_type", 0),
        ("vacuum freeze pg_type", 0),
        ("grant select on outbox_x to another", 0),
        ("create index on outbox_x (event_type)", 0),
        ("truncate outbox_x", 0),
        ("begin; alter table outbox_x rename to y; alter table y rename to outbox_x; commit", 1),
        (
            "begin; alter table outbox_x set schema aside; \
             alter table aside.outbox_x set schema public; commit",
            1,
        ),
        ("alter table outbox_x owner to another", 1),
    ] {
        for part in
            statement.split("; ").collect::<Vec<_>>().chunks(if reported == 0 { 1 } else { 9 })
        {
            client.batch_execute(&part.join("; ")).await.unwrap();
        }
        fixture.rounds(3).await;
        expected += reported;
        let alterations = fixture.report.borrow().alterations.clone();
        assert_eq!(alterations.len(), expected, "{statement}: {alterations:?}");
        fixture.assert_no_event();
    }
}
