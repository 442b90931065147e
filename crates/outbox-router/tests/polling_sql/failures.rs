//! What is missing is said, with what to type.

use std::time::Duration;

use outbox_router::polling::sql::{LeaseTable, MarkConfig, RowCount, setup::Deletes};
use relay::{
    Case, Class, Code, Failure,
    polling::{LeaseRequest, RowOutcome, SettleRequest, Written},
    testing::sent,
};
use uuid::Uuid;

use crate::fixture::{Fixture, TABLE, Worker, default_table, failed, name, nothing, polling};

const MARK: &str = ", published_at timestamptz";
const CLAIMED: &str = ", published_at timestamptz, locked_by text, locked_until timestamptz";

async fn refused(fixture: &Fixture, polling: crate::fixture::Polling) -> Failure {
    let mut worker = Worker::new(fixture.connector(), polling);
    worker.database.describe(TABLE).await.unwrap_err()
}

#[tokio::test]
async fn a_table_that_cannot_be_polled_says_why() {
    let fixture = Fixture::new(&default_table("")).await;
    let failure = refused(&fixture, polling()).await;
    assert_eq!(failure.code, Code::Polling);
    assert!(failure.message.contains("add column published_at timestamptz"), "{failure}");
    fixture.run("alter table outbox add published_at timestamptz").await;
    let failure = refused(&fixture, polling().with_letters()).await;
    assert!(failure.message.contains("add column abandoned_at timestamptz"), "{failure}");
    fixture.run("alter table outbox drop constraint outbox_pkey").await;
    let failure = refused(&fixture, polling()).await;
    assert!(failure.message.contains("add primary key"), "{failure}");
    fixture.run("create unique index on outbox (aggregate_id, id)").await;
    assert!(refused(&fixture, polling()).await.message.contains("add primary key"));
    fixture.run("alter table outbox alter aggregate_id set not null").await;
    Worker::on(fixture.connector(), polling()).await;
    fixture.run("alter table outbox rename payload to other").await;
    assert_eq!(refused(&fixture, polling()).await.code, Code::PresetUnclear);
    fixture.run("drop table outbox").await;
    assert_eq!(refused(&fixture, polling()).await.code, Code::TableMissing);
}

/// What it says to configure lets the table be polled as it is.
#[tokio::test]
async fn a_table_without_a_word_for_abandoned_may_use_its_word_for_failed() {
    let more = ", status text not null default 'PENDING' \
        check (status in ('PENDING', 'PUBLISHED', 'FAILED')), attempts int not null default 0, \
        available_at timestamptz not null default now()";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture.run("insert into outbox (aggregate_id) values ('a'), ('b'), ('a')").await;
    let failure = refused(&fixture, polling().with_letters()).await;
    assert_eq!(failure.code, Code::Polling);
    for part in [
        "alter table \"public\".\"outbox\" add column abandoned_at timestamptz; or, without DDL, ",
        "outbox.mark.failed = \"PENDING\" with outbox.mark.abandoned = \"FAILED\": ",
    ] {
        assert!(failure.message.contains(part), "{failure}");
    }
    let mark = MarkConfig {
        failed: Some("PENDING".to_owned()),
        abandoned: Some("FAILED".to_owned()),
        ..MarkConfig::default()
    };
    let mut worker = fixture.worker(polling().with_letters().with_mark(mark)).await;
    let rows = worker.fetch(2).await.rows;
    let retry = failed(&rows[0], 1, RowOutcome::Retry(Duration::from_secs(600)));
    let abandon = failed(&rows[1], 5, RowOutcome::Abandon);
    worker.settle(SettleRequest { failed: vec![retry, abandon], ..nothing() }).await;
    let states = "select string_agg(concat_ws(',', status, attempts), ' ' order by id) from outbox";
    assert_eq!(fixture.value(states).await, "PENDING,1 FAILED,5 PENDING,0");
    assert_eq!(worker.fetch(9).await.rows, [], "the later row of its key waits");
    let survey = worker.database.survey(TABLE).await.unwrap();
    let counted = [survey.pending, survey.failed, survey.abandoned];
    assert_eq!(counted, [2, 1, 1].map(RowCount::Exactly));
}

#[tokio::test]
async fn a_privilege_that_is_missing_is_named() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("revoke update on outbox from router").await;
    let failure = refused(&fixture, polling()).await;
    assert_eq!(failure.case, Some(Case::PermissionDenied));
    let grant = r#"grant update ("published_at") on "public"."outbox" to "router""#;
    assert!(failure.message.contains(grant), "{failure}");
    fixture.run(grant).await;
    let mut worker = Worker::on(fixture.connector(), polling()).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let rows = worker.fetch(10).await.rows;
    assert_eq!(worker.publish(&rows).await, 1, "one column is enough");
    fixture.run("revoke all on outbox from router").await;
    let failure = refused(&fixture, polling()).await;
    assert!(failure.message.contains(r#"grant select on "public"."outbox""#), "{failure}");
}

#[tokio::test]
async fn the_tables_of_leases_may_be_missing_or_forbidden() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    let lease = Duration::from_secs(10);
    let mut leases = fixture.leases(Uuid::new_v4(), lease);
    let hold = LeaseRequest::Hold { wanted: vec![64] };
    fixture.run("revoke update on outbox_router.lease from router").await;
    assert_eq!(leases.answer(&hold).await.unwrap_err().code, Code::LeaseTable);
    for damage in [
        "drop schema outbox_router cascade",
        // As an earlier version has made it.
        "update outbox_router.lease set holder = null; \
         alter table outbox_router.lease drop column request",
    ] {
        fixture.run(damage).await;
        assert_eq!(leases.answer(&hold).await.unwrap_err().code, Code::LeaseTable, "{damage}");
        for statement in outbox_router::polling::sql::setup::lease_statements(Some("router")) {
            fixture.run(&statement.sql).await;
        }
        assert_eq!(leases.answer(&hold).await.unwrap().tables[0].held.len(), 64);
    }
    let other = relay::TableName { name: "other".to_owned(), ..name() };
    let mut missing = LeaseTable::new(
        fixture.connector(),
        vec![name(), other],
        Uuid::new_v4(),
        "w".to_owned(),
        lease,
    );
    let both = LeaseRequest::Hold { wanted: vec![1, 1] };
    leases.answer(&LeaseRequest::Release).await.unwrap();
    // Who describes the table says so, and the other one is polled meanwhile.
    let held = missing.answer(&both).await.unwrap().tables;
    assert_eq!(held.iter().map(|table| table.held.len()).collect::<Vec<_>>(), [1, 0]);
}

/// Otherwise the rows would be sent again and again.
#[tokio::test]
async fn marks_that_a_rule_or_a_trigger_undoes_are_a_failure() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("insert into outbox (aggregate_id) values ('a'), ('b')").await;
    let rule = "create rule append_only as on update to outbox do instead nothing";
    let back = "create function back() returns trigger language plpgsql as \
                'begin new.published_at := old.published_at; return new; end'; \
                create trigger append_only before update on outbox \
                for each row when (old.aggregate_id = 'b') execute function back()";
    let trigger = "create function nothing() returns trigger language plpgsql as \
                   'begin return null; end'; \
                   create trigger append_only before update on outbox \
                   for each row when (old.aggregate_id = 'b') execute function nothing()";
    let drop = "drop trigger append_only on outbox";
    for (make, drop) in [(rule, "drop rule append_only on outbox"), (trigger, drop), (back, drop)] {
        let mut worker = fixture.worker(polling()).await;
        let published: Vec<_> = worker.fetch(9).await.rows.iter().map(sent).collect();
        let request = SettleRequest { published, ..worker.nothing() };
        fixture.run(make).await;
        worker.database.describe(TABLE).await.unwrap();
        let refused = worker.database.settle(&request).await.unwrap_err();
        assert_eq!(refused.case, Some(Case::MarksUndone), "{refused}");
        assert!(refused.message.contains("a rule or a trigger"), "{refused}");
        fixture.run(drop).await;
        worker.database.settle(&request).await.unwrap();
        let pending = "select count(*) from outbox where published_at is null";
        assert_eq!(fixture.value(pending).await, "0");
        // Rows that somebody else has marked are no failure.
        assert_eq!(worker.database.settle(&request).await.unwrap().published, 0);
        fixture.run("update outbox set published_at = null").await;
    }
}

/// The statement that marks them sees nothing of a trigger that acts after it.
#[tokio::test]
async fn marks_that_a_trigger_undoes_later_are_a_failure() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id) values ('a'); \
             create function back() returns trigger language plpgsql as \
               'begin update public.outbox set published_at = null where id = new.id; \
                return null; end'",
        )
        .await;
    for kind in ["trigger", "constraint trigger"] {
        let time = if kind == "trigger" { "" } else { "deferrable initially deferred" };
        let make = format!(
            "create {kind} back after update on outbox {time} for each row \
             when (new.published_at is not null) execute function back()"
        );
        let drop = "drop trigger back on outbox";
        // It is there when the table is described.
        fixture.run(&make).await;
        let mut worker = fixture.worker(polling()).await;
        let published: Vec<_> = worker.fetch(9).await.rows.iter().map(sent).collect();
        let request = SettleRequest { published, ..worker.nothing() };
        for _ in 0..2 {
            let refused = worker.database.settle(&request).await.unwrap_err();
            assert_eq!(refused.case, Some(Case::MarksUndone), "{refused}");
        }
        fixture.run(drop).await;
        assert_eq!(worker.database.settle(&request).await.unwrap().published, 1);
        // It is made afterwards: the rows come again, once.
        fixture.run(&format!("update outbox set published_at = null; {make}")).await;
        let published: Vec<_> = worker.fetch(9).await.rows.iter().map(sent).collect();
        assert_eq!(published.len(), 1);
        let request = SettleRequest { published, ..worker.nothing() };
        let refused = worker.database.settle(&request).await.unwrap_err();
        assert_eq!(refused.code, Code::Polling, "{refused}");
        fixture.run(drop).await;
        assert_eq!(worker.database.settle(&request).await.unwrap().published, 1);
        fixture.run("update outbox set published_at = null").await;
    }
}

/// As of a table with a row for each aggregate, which has news again and again.
#[tokio::test]
async fn a_row_that_others_make_pending_again_is_sent_each_time() {
    let trigger = "create function stamp() returns trigger language plpgsql as \
                   'begin new.payload := new.payload; return new; end'; \
                   create trigger stamp before update on outbox for each row execute function stamp()";
    for make in ["select 1", trigger] {
        let fixture = Fixture::new(&default_table(MARK)).await;
        fixture.run(make).await;
        fixture.run("insert into outbox (aggregate_id) values ('a')").await;
        let mut worker = fixture.worker(polling()).await;
        for _ in 0..5 {
            let rows = worker.fetch(9).await.rows;
            assert_eq!(worker.publish(&rows).await, 1);
            fixture.run("update outbox set published_at = null").await;
        }
    }
}

/// Later rows of its key would pass it.
#[tokio::test]
async fn a_claim_that_a_trigger_undoes_is_a_failure() {
    let fixture = Fixture::new(&default_table(CLAIMED)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, event_type) values ('a', 'held'), ('a', 'later'); \
             create function nothing() returns trigger language plpgsql as \
               'begin return null; end'; \
             create trigger hold before update on outbox \
               for each row when (old.event_type = 'held') execute function nothing()",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let passed_over = relay::polling::PassedOver::NOTHING;
    let shards = relay::polling::ShardSet::ALL;
    for limit in [1, 9] {
        let passed_over = passed_over.clone();
        let request = relay::polling::FetchRequest { table: TABLE, shards, limit, passed_over };
        let refused = worker.database.fetch(&request).await.unwrap_err();
        assert_eq!(refused.case, Some(Case::ClaimsUndone), "{refused}");
    }
    fixture.run("drop trigger hold on outbox").await;
    assert_eq!(worker.fetch(9).await.rows.len(), 2);
}

/// Only a person can mend that, and what is in the row is in no message.
#[tokio::test]
async fn marks_that_a_constraint_or_a_trigger_refuses_are_a_failure_of_the_table() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("insert into outbox (aggregate_id) values ('secret')").await;
    let check = "alter table outbox add constraint unpublished check (published_at is null)";
    let trigger = "create function refuse() returns trigger language plpgsql as \
                   'begin raise ''%'', ''an outbox is append-only''; end'; \
                   create trigger append_only before update on outbox \
                   for each row execute function refuse()";
    for (make, drop, said) in [
        (check, "alter table outbox drop constraint unpublished", "\"unpublished\""),
        (trigger, "drop trigger append_only on outbox", "an outbox is append-only"),
    ] {
        let mut worker = fixture.worker(polling()).await;
        let published: Vec<_> = worker.fetch(9).await.rows.iter().map(sent).collect();
        let request = SettleRequest { published, ..worker.nothing() };
        fixture.run(make).await;
        let refused = worker.database.settle(&request).await.unwrap_err();
        assert_eq!(refused.case, Some(Case::MarksRefused), "{refused}");
        assert!(refused.message.contains(said) && !refused.message.contains("secret"), "{refused}");
        fixture.run(drop).await;
        assert_eq!(worker.database.settle(&request).await.unwrap().published, 1);
        fixture.run("update outbox set published_at = null").await;
    }
}

#[tokio::test]
async fn claims_that_a_constraint_refuses_are_a_failure_of_the_table() {
    let fixture = Fixture::new(&default_table(CLAIMED)).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let mut worker = fixture.worker(polling()).await;
    fixture.run("alter table outbox add constraint free check (locked_by is null)").await;
    let passed_over = relay::polling::PassedOver::NOTHING;
    let shards = relay::polling::ShardSet::ALL;
    let request = relay::polling::FetchRequest { table: TABLE, shards, limit: 9, passed_over };
    let refused = worker.database.fetch(&request).await.unwrap_err();
    assert_eq!(refused.case, Some(Case::ClaimsRefused), "{refused}");
    fixture.run("alter table outbox drop constraint free").await;
    assert_eq!(worker.fetch(9).await.rows.len(), 1);
}

/// It passes, so the connection is kept; who has the lock is named by what to type.
#[tokio::test]
async fn rows_that_another_session_has_locked_are_marked_when_it_lets_them_go() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let mut worker = fixture.worker(polling()).await;
    let published: Vec<_> = worker.fetch(9).await.rows.iter().map(sent).collect();
    let request = SettleRequest { published, ..worker.nothing() };
    let session = fixture.session().await;
    session.batch_execute("begin; select from outbox for update").await.unwrap();
    let refused = worker.database.settle(&request).await.unwrap_err();
    assert_eq!(refused.case, Some(Case::PolledLocked), "{refused}");
    let hint = outbox_router::codes::hint(&refused).unwrap();
    assert!(hint.contains("where l.relation = '\"public\".\"outbox\"'::regclass"), "{hint}");
    session.batch_execute("commit").await.unwrap();
    assert_eq!(worker.database.settle(&request).await.unwrap().published, 1);
}

/// A number that no program should write, in one row of many.
#[tokio::test]
async fn attempts_of_any_number_end_no_reading() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz, attempts bigint")).await;
    let insert = "insert into outbox (aggregate_id, attempts) \
                  values ('a', -1), ('b', 99999999999), ('c', null)";
    fixture.run(insert).await;
    let mut worker = fixture.worker(polling()).await;
    let attempts: Vec<u32> = worker.fetch(9).await.rows.iter().map(|row| row.attempts).collect();
    assert_eq!(attempts, [0, 2_147_483_647, 0]);
}

/// Its rows would be marked by the keys of the table's own.
#[tokio::test]
async fn a_table_that_others_inherit_from_is_refused() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("create table child (like outbox including all) inherits (outbox)").await;
    let failure = refused(&fixture, polling()).await;
    assert_eq!(failure.code, Code::Polling);
    assert!(failure.message.contains("other tables inherit from it"), "{failure}");
}

/// A server that has crashed empties it.
#[tokio::test]
async fn an_unlogged_table_is_refused() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("alter table outbox set unlogged").await;
    let failure = refused(&fixture, polling()).await;
    assert_eq!(failure.code, Code::Polling);
    assert!(failure.message.ends_with(": alter table public.outbox set logged"), "{failure}");
    fixture
        .run(
            "drop table outbox; \
             create table outbox (id bigint primary key, aggregate_id text, aggregate_type text, \
               event_type text, payload jsonb, published_at timestamptz) partition by hash (id); \
             create table a partition of outbox for values with (modulus 2, remainder 0); \
             create unlogged table b partition of outbox for values with (modulus 2, remainder 1); \
             grant select, update on outbox to router",
        )
        .await;
    let failure = refused(&fixture, polling()).await;
    assert!(failure.message.ends_with(": alter table public.b set logged"), "{failure}");
}

/// As in a migration: its rows have the ids of those that were read of the former one.
#[tokio::test]
async fn rows_of_a_table_that_took_the_name_are_not_marked_by_what_was_read_before() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("insert into outbox (aggregate_id) values ('former')").await;
    let mut worker = fixture.worker(polling()).await;
    let published: Vec<_> = worker.fetch(1).await.rows.iter().map(sent).collect();
    fixture.run(&format!("alter table outbox rename to former; {}", default_table(MARK))).await;
    fixture.grant(Deletes::No).await;
    fixture.run("insert into outbox (aggregate_id) values ('latter')").await;
    let request = SettleRequest { published, ..worker.nothing() };
    let settled = worker.database.settle(&request).await.unwrap();
    assert_eq!((settled.written, settled.published), (Written::NotOurs, 0));
    assert_eq!(fixture.value("select count(*) from outbox where published_at is null").await, "1");
    // Who is told so describes it again.
    worker.database.describe(TABLE).await.unwrap();
    let rows = worker.fetch(1).await.rows;
    assert_eq!(worker.publish(&rows).await, 1);
}

/// Its shards may be another worker's.
#[tokio::test]
async fn nothing_is_read_of_a_table_that_took_the_name_before_it_is_described() {
    for columns in [MARK, CLAIMED] {
        let fixture = Fixture::new(&default_table(columns)).await;
        fixture.run("insert into outbox (aggregate_id) values ('former')").await;
        let mut worker = fixture.worker(polling()).await;
        assert_eq!(worker.fetch(1).await.rows.len(), 1);
        let remade = format!("alter table outbox rename to former; {}", default_table(columns));
        fixture.run(&remade).await;
        fixture.grant(Deletes::No).await;
        fixture.run("insert into outbox (aggregate_id) values ('latter')").await;
        assert_eq!(worker.fetch(1).await.rows, []);
        worker.database.describe(TABLE).await.unwrap();
        assert_eq!(worker.fetch(1).await.rows.len(), 1);
    }
}

#[tokio::test]
async fn marks_that_the_table_refuses_are_written_as_it_is_then() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let mut worker = fixture.worker(polling()).await;
    let published: Vec<_> = worker.fetch(1).await.rows.iter().map(sent).collect();
    fixture
        .run("alter table outbox drop published_at; alter table outbox add published bool default false")
        .await;
    let request = SettleRequest { published, ..worker.nothing() };
    let refused = worker.database.settle(&request).await.unwrap_err();
    assert_eq!(refused.class(), Class::Mendable, "{refused}");
    assert_eq!(worker.database.settle(&request).await.unwrap().published, 1);
    assert_eq!(fixture.value("select published from outbox").await, "t");
}

#[tokio::test]
async fn after_an_error_the_next_request_is_answered_and_so_after_a_lost_connection() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture.run("insert into outbox (aggregate_id) values ('a')").await;
    let mut worker = fixture.worker(polling()).await;
    fixture.run("alter table outbox rename published_at to gone").await;
    let request = relay::polling::FetchRequest {
        table: TABLE,
        shards: relay::polling::ShardSet::ALL,
        limit: 10,
        passed_over: relay::polling::PassedOver::NOTHING,
    };
    let failure = worker.database.fetch(&request).await.unwrap_err();
    assert_eq!(failure.code, Code::ColumnMissing);
    fixture.run("alter table outbox rename gone to published_at").await;
    assert_eq!(worker.fetch(10).await.rows.len(), 1);
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'router'";
    fixture.run(end).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let rows = worker.fetch(10).await.rows;
    assert_eq!(rows.len(), 1);
    // A request that is not awaited to its end: another session has the row.
    let other = fixture.session().await;
    other.batch_execute("begin; select from outbox for update").await.unwrap();
    let published = vec![sent(&rows[0])];
    let request = SettleRequest { published: published.clone(), ..worker.nothing() };
    let given_up =
        tokio::time::timeout(Duration::from_millis(300), worker.database.settle(&request)).await;
    assert!(given_up.is_err());
    assert_eq!(worker.fetch(10).await.rows.len(), 1);
    other.batch_execute("commit").await.unwrap();
    worker.settle(SettleRequest { published, ..nothing() }).await;
    let marked = "select count(*) from outbox where published_at is not null";
    assert_eq!(fixture.value(marked).await, "1");
}

#[tokio::test]
async fn a_table_is_refused_whose_rows_a_policy_may_hide() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture
        .run(
            "alter table outbox enable row level security; \
             create policy visible on outbox for select using (aggregate_id <> 'hidden'); \
             insert into outbox (aggregate_id) values ('hidden'), ('seen')",
        )
        .await;
    let mut worker = Worker::new(fixture.connector(), polling());
    let failure = worker.database.describe(TABLE).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::RowsHidden));
    assert_eq!(
        failure.message,
        "role router may not see every row of public.outbox, because of row-level security: alter \
         role \"router\" bypassrls"
    );
    fixture.run("alter role router bypassrls").await;
    worker.database.describe(TABLE).await.unwrap();
    assert_eq!(worker.fetch(10).await.rows.len(), 2);
}

/// A worker's loop may be a task of a runtime with several threads.
#[test]
fn a_request_may_be_moved_to_another_thread() {
    fn is_send(_: &impl Send) {}
    let connector = crate::fixture::Connector("postgres://nobody@127.0.0.1:1/none".to_owned());
    let mut worker = Worker::new(connector, polling());
    let settle = nothing();
    is_send(&worker.database.settle(&settle));
    let fetch = relay::polling::FetchRequest {
        table: TABLE,
        shards: relay::polling::ShardSet::ALL,
        limit: 1,
        passed_over: relay::polling::PassedOver::NOTHING,
    };
    is_send(&worker.database.fetch(&fetch));
    is_send(&worker.database.describe(TABLE));
    is_send(&worker.database.survey(TABLE));
}
