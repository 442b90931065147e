//! A row that is changed between reading and mark: what is marked is what was sent, and nothing
//! else.

use std::time::Duration;

use outbox_router::polling::sql::{
    MarkConfig, MarkHow, Stuck, StuckFilter, drop_rows, requeue, setup::Deletes, stuck,
};
use relay::{
    Case, Class,
    delivered::GivenUp,
    polling::{PendingRow, RowOutcome, SettleRequest, Written},
    testing::sent,
};
use testbed::wait::eventually;

use crate::fixture::{Fixture, Polling, TABLE, default_table, failed, ids, nothing, polling};

/// A row as its last writer has left it, with its marks.
const LEFT: &str = "select payload->>'v' || ' ' || coalesce(to_jsonb(o)->>'status', \
    to_jsonb(o)->>'published_at', '-') from outbox o where id = 1";

/// The kinds of marks, each with the columns of its table.
fn marks() -> [(&'static str, Polling); 4] {
    let delete = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
    [
        (", published_at timestamptz", polling()),
        (", published boolean not null default false", polling()),
        (
            ", status text not null default 'PENDING', locked_by text, locked_until timestamptz",
            polling(),
        ),
        ("", polling().with_mark(delete)),
    ]
}

async fn fixture(more: &str) -> Fixture {
    let fixture = Fixture::new(&default_table(more)).await;
    fixture.grant(Deletes::Yes).await;
    let insert = r#"insert into outbox (aggregate_id, payload) values ('a', '{"v": 1}')"#;
    fixture.run(insert).await;
    fixture
}

/// What an application writes while the row is in flight, as a coalescing outbox does.
const CHANGES: [&str; 3] = [
    r#"update outbox set payload = '{"v": 2}' where id = 1"#,
    r#"insert into outbox (id, aggregate_id, payload) overriding system value
       values (1, 'a', '{"v": 2}') on conflict (id) do update set payload = excluded.payload"#,
    r#"delete from outbox where id = 1;
       insert into outbox (id, aggregate_id, payload) overriding system value
       values (1, 'a', '{"v": 2}')"#,
];

/// After a crash or a promotion the version may be that of another content.
#[tokio::test]
async fn nothing_is_written_of_what_was_read_on_a_connection_that_is_lost() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(9).await.rows;
    let published = rows.iter().map(sent).collect();
    let request = SettleRequest { published, ..worker.nothing() };
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'router'";
    fixture.run(end).await;
    let settled = loop {
        // It may take a moment until the end of the connection has arrived.
        match worker.database.settle(&request).await {
            Ok(settled) => break settled,
            Err(failure) => assert_eq!(failure.class(), Class::Transport, "{failure}"),
        }
    };
    assert_eq!((settled.written, settled.published), (Written::SessionLost, 0));
    assert_eq!(worker.fetch(9).await.rows, rows);
    let settled = worker.database.settle(&request).await.unwrap();
    assert_eq!(settled.written, Written::SessionLost, "on another connection, too");
    assert_eq!(worker.publish(&rows).await, 1);
}

#[tokio::test]
async fn a_row_that_is_changed_after_it_was_read_is_not_marked_and_comes_again() {
    for (more, polling) in marks() {
        let fixture = fixture(more).await;
        let mut worker = fixture.worker(polling).await;
        for change in CHANGES {
            let rows = worker.fetch(10).await.rows;
            assert_eq!(ids(&rows), ["1"], "{more}: {change}");
            fixture.run(change).await;
            assert_eq!(worker.publish(&rows).await, 0, "{more}: {change}");
        }
        let rows = worker.fetch(10).await.rows;
        let payload = String::from_utf8_lossy(&rows[0].insert).into_owned();
        assert!(payload.contains(r#"{"v": 2}"#), "{payload}");
        // What nobody changes is marked, also where its number is frozen.
        fixture.run("vacuum freeze outbox").await;
        assert_eq!(worker.publish(&rows).await, 1, "{more}");
        assert!(worker.fetch(10).await.rows.is_empty(), "{more}");
    }
}

/// The mark waits for the lock of the row, and finds what was written under it.
#[tokio::test]
async fn what_is_written_under_a_lock_while_the_row_is_read_is_not_marked() {
    for (more, polling) in marks().into_iter().filter(|(more, _)| !more.contains("locked")) {
        let fixture = fixture(more).await;
        let application = fixture.session().await;
        application.batch_execute("begin").await.unwrap();
        application.batch_execute(CHANGES[0]).await.unwrap();
        let mut worker = fixture.worker(polling).await;
        let rows = worker.fetch(10).await.rows;
        let waits = "select count(*) from pg_stat_activity \
                     where usename = 'router' and wait_event_type = 'Lock'";
        let commit = async {
            eventually(Duration::from_secs(30), "the mark waits", async || {
                Ok((fixture.value(waits).await == "1").then_some(()))
            })
            .await
            .unwrap();
            application.batch_execute("commit").await.unwrap();
        };
        let (marked, ()) = tokio::join!(worker.publish(&rows), commit);
        assert_eq!(marked, 0, "{more}");
        assert!(fixture.value(LEFT).await.starts_with('2'), "{more}");
    }
}

#[tokio::test]
async fn a_row_that_is_corrected_while_its_attempt_fails_is_neither_postponed_nor_abandoned() {
    let more = ", status text not null default 'PENDING', attempts int not null default 0, \
                available_at timestamptz, locked_by text, locked_until timestamptz";
    let fixture = fixture(more).await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    let later = RowOutcome::Retry(Duration::from_secs(600));
    for outcome in [RowOutcome::Abandon, later] {
        let rows = worker.fetch(10).await.rows;
        fixture.run(CHANGES[0]).await;
        let failed = vec![failed(&rows[0], 5, outcome)];
        worker.settle(SettleRequest { failed, ..nothing() }).await;
        assert_eq!(fixture.value(LEFT).await, "2 PROCESSING");
        assert_eq!(fixture.value("select attempts from outbox").await, "0");
    }
    // Nor is what somebody has made of it given back.
    let rows = worker.fetch(10).await.rows;
    fixture.run("update outbox set status = 'FAILED', available_at = 'infinity'").await;
    let released = rows.iter().map(PendingRow::row_at).collect();
    worker.settle(SettleRequest { released, ..nothing() }).await;
    assert_eq!(fixture.value(LEFT).await, "2 FAILED");
}

/// RETURNING has no `xmin` of a row that an UPDATE has moved.
#[tokio::test]
async fn a_claim_that_moves_a_row_to_another_partition_has_its_version() {
    let table = "create table outbox (id bigint generated always as identity, \
        aggregate_type text not null default 'order', aggregate_id text, \
        event_type text not null default 'OrderPlaced', payload jsonb, \
        created_at timestamptz not null default now(), status text not null default 'PENDING', \
        locked_by text, locked_until timestamptz, primary key (id, status)) \
        partition by list (status); \
        create table outbox_open partition of outbox for values in ('PENDING'); \
        create table outbox_rest partition of outbox default";
    let fixture = Fixture::new(table).await;
    fixture.grant(Deletes::Yes).await;
    let insert = r#"insert into outbox (aggregate_id, payload) values ('a', '{"v": 1}')"#;
    fixture.run(insert).await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(10).await.rows;
    assert_eq!(fixture.value(LEFT).await, "1 PROCESSING");
    let version = fixture.value("select xmin from outbox").await;
    assert_eq!(rows[0].version.to_string(), version);
    // Its primary key has changed with its status, and it is marked by the present one.
    assert_eq!(worker.publish(&rows).await, 1);
    assert_eq!(fixture.value("select status from outbox").await, "PUBLISHED");
}

/// What a person was shown is not what the row is by now.
#[tokio::test]
async fn a_row_that_is_changed_while_a_person_answers_is_neither_dropped_nor_requeued() {
    let more = ", status text not null default 'PENDING'";
    let fixture = fixture(more).await;
    fixture.run("update outbox set status = 'ABANDONED'").await;
    let worker = fixture.worker(polling()).await;
    let (session, table) = (fixture.session().await, worker.database.table(TABLE).unwrap());
    let shown = stuck(&session, table, Stuck::Abandoned, &StuckFilter::default()).await;
    let shown = shown.unwrap().unwrap().remove(0).row;
    fixture.run(CHANGES[0]).await;
    let rows = [shown];
    assert_eq!(requeue(&session, table, &rows).await.unwrap(), 0);
    let given_up = rows.map(|row| GivenUp::by("ann", row).unwrap());
    assert_eq!(drop_rows(&session, table, &given_up, "no").await.unwrap(), 0);
    assert_eq!(fixture.value(LEFT).await, "2 ABANDONED");
}

/// A trigger that undoes marks is told from somebody who changes rows.
#[tokio::test]
async fn a_row_that_is_changed_is_no_mark_that_is_undone() {
    let fixture = fixture(", published_at timestamptz").await;
    fixture
        .run(
            "create function note() returns trigger language plpgsql as $$ begin return new; end \
             $$; create trigger note before update on outbox for each row execute function note()",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(10).await.rows;
    fixture.run(CHANGES[0]).await;
    let published: Vec<_> = rows.iter().map(sent).collect();
    let request = SettleRequest { published, ..worker.nothing() };
    assert_eq!(worker.database.settle(&request).await.unwrap().published, 0);
}

/// A type or a key that was altered would give a value another meaning, and a mark more rows than
/// one.
#[tokio::test]
async fn a_table_that_was_altered_is_described_before_it_is_read() {
    for (more, polling) in marks() {
        let fixture = fixture(more).await;
        let mut worker = fixture.worker(polling).await;
        for alter in [
            "alter table outbox alter column payload type bytea \
             using convert_to(payload::text, 'UTF8')",
            "alter table outbox add column destination text not null default 'x', \
             drop constraint outbox_pkey, add primary key (id, destination)",
            "alter table outbox alter column id type int",
        ] {
            assert_eq!(worker.fetch(10).await.rows.len(), 1, "{more}");
            fixture.run(alter).await;
            let refused = worker.refused(10).await;
            assert_eq!(refused.case, Some(Case::TableAltered), "{alter}: {refused}");
            worker.database.describe(TABLE).await.unwrap();
        }
        // Other indexes may be made again, and be dropped.
        fixture.run("create index on outbox (event_type); reindex table outbox").await;
        fixture
            .run(
                "insert into outbox (id, aggregate_id, destination) overriding system value \
                 values (7, 'b', 'one'), (7, 'b', 'two')",
            )
            .await;
        let rows = worker.fetch(10).await.rows;
        assert_eq!(rows.len(), 3, "{more}");
        assert_eq!(worker.publish(&rows[1..2]).await, 1, "{more}");
        let left = worker.fetch(10).await.rows;
        assert_eq!(left.iter().map(|row| &row.id).collect::<Vec<_>>(), [&rows[0].id, &rows[2].id]);
    }
}

#[tokio::test]
async fn rows_that_were_read_by_another_key_are_not_marked_by_its_values() {
    let fixture =
        Fixture::new(&default_table(", published_at timestamptz, other bigint not null unique"))
            .await;
    let insert = "insert into outbox (id, aggregate_id, other) overriding system value \
                  values (1, 'a', 2), (2, 'a', 1)";
    fixture.run(insert).await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(10).await.rows;
    let request = SettleRequest { published: vec![sent(&rows[0])], ..worker.nothing() };
    fixture.run("revoke update on outbox from router").await;
    worker.database.settle(&request).await.unwrap_err();
    fixture
        .run(
            "grant update on outbox to router; alter table outbox drop constraint outbox_pkey, \
             drop constraint outbox_other_key, add primary key (other)",
        )
        .await;
    let settled = worker.database.settle(&request).await.unwrap();
    assert_eq!(settled.written, Written::NotOurs);
    assert_eq!(fixture.value("select count(published_at) from outbox").await, "0");
}
