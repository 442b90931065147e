//! Each kind of mark, with a trigger that refuses every other change.

use std::time::Duration;

use outbox_router::polling::sql::{MarkConfig, MarkHow, RowCount, setup::Deletes};
use relay::polling::{Claimed, PendingRow, RowOutcome, SettleRequest};

use crate::fixture::{Fixture, TABLE, Worker, default_table, failed, ids, nothing, polling};

/// Only these columns may be changed.
async fn protect(fixture: &Fixture, columns: &[&str]) {
    let list = columns.iter().map(|column| format!("'{column}'")).collect::<Vec<_>>().join(", ");
    fixture
        .run(&format!(
            "create function refuse() returns trigger language plpgsql as $$ begin \
             if to_jsonb(old) - array[{list}] is distinct from to_jsonb(new) - array[{list}] \
             then raise 'an immutable column was changed'; end if; return new; end $$; \
             create trigger refuse before update on outbox for each row execute function refuse()"
        ))
        .await;
}

async fn three_rows(fixture: &Fixture) {
    let insert = "insert into outbox (aggregate_id) values ('a'), ('b'), ('a')";
    fixture.run(insert).await;
}

/// Marks the first two of three rows; what `state` shows then.
async fn marked(fixture: &Fixture, worker: &mut Worker, state: &str) -> String {
    let fetched = worker.fetch(10).await;
    assert_eq!(ids(&fetched.rows), ["1", "2", "3"]);
    assert_eq!(fetched.claimed, Claimed::No);
    assert_eq!(worker.publish(&fetched.rows[..2]).await, 2);
    assert_eq!(ids(&worker.fetch(10).await.rows), ["3"]);
    // What is marked stays as it is.
    assert_eq!(worker.publish(&fetched.rows[..2]).await, 0);
    fixture.value(&format!("select string_agg({state}, ' ' order by id) from outbox")).await
}

#[tokio::test]
async fn a_time() {
    let fixture = Fixture::new(&default_table(", published_at timestamp")).await;
    protect(&fixture, &["published_at"]).await;
    three_rows(&fixture).await;
    let mut worker = fixture.worker(polling()).await;
    let state = "coalesce((now() at time zone 'UTC' - published_at < interval '60 s')::text, '-')";
    assert_eq!(marked(&fixture, &mut worker, state).await, "true true -");
}

#[tokio::test]
async fn a_boolean_and_a_time() {
    let more = ", published boolean not null default false, published_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    protect(&fixture, &["published", "published_at"]).await;
    three_rows(&fixture).await;
    let mut worker = fixture.worker(polling()).await;
    let state = "published::text || (published_at is not null)::text";
    assert_eq!(marked(&fixture, &mut worker, state).await, "truetrue truetrue falsefalse");
}

#[tokio::test]
async fn a_number() {
    let fixture = Fixture::new(&default_table(", published smallint default 0")).await;
    protect(&fixture, &["published"]).await;
    three_rows(&fixture).await;
    fixture.run("update outbox set published = null where id = 2").await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(marked(&fixture, &mut worker, "published::text").await, "1 1 0");
}

#[tokio::test]
async fn a_status_in_either_case_and_an_enum() {
    for (more, expected) in [
        (", status varchar(20) not null default 'pending'", "published published pending"),
        (", status text not null default 'PENDING'", "PUBLISHED PUBLISHED PENDING"),
        (", status state not null default 'New'", "Sent Sent New"),
        (", status text not null default 'new' check (status in ('new', 'done'))", "done done new"),
    ] {
        let table = default_table(more);
        let table = format!("create type state as enum ('New', 'Sent', 'Dead'); {table}");
        let fixture = Fixture::new(&table).await;
        protect(&fixture, &["status"]).await;
        three_rows(&fixture).await;
        let mut worker = fixture.worker(polling()).await;
        assert_eq!(marked(&fixture, &mut worker, "status::text").await, expected);
    }
}

/// Rows of one state would be taken for rows of another.
#[tokio::test]
async fn words_of_two_states_are_refused_when_the_table_is_described() {
    let fixture = Fixture::new(&default_table(", status text not null default 'PENDING'")).await;
    let word = |word: &str| Some(word.to_owned());
    let none = MarkConfig::default;
    let published = "has no word for a published row: name one in outbox.mark.published";
    for (mark, expected) in [
        (MarkConfig { abandoned: word("PUBLISHED"), ..none() }, published),
        (MarkConfig { failed: word("PUBLISHED"), ..none() }, published),
        (
            MarkConfig { published: word("PENDING"), ..none() },
            "outbox.mark.published is \"PENDING\", which is the default of the column status",
        ),
    ] {
        let mut worker = Worker::new(fixture.connector(), polling().with_mark(mark));
        let failure = worker.database.describe(TABLE).await.unwrap_err();
        assert_eq!(failure.code, relay::Code::Polling);
        assert!(failure.message.contains(expected), "{failure}");
    }
}

/// Nobody learns from a word that has no effect that it has none.
#[tokio::test]
async fn words_are_refused_where_no_column_has_them() {
    let mark = MarkConfig { abandoned: Some("DEAD".to_owned()), ..MarkConfig::default() };
    for (more, expected) in [
        (", published_at timestamptz", "status"),
        (
            ", published_at timestamptz, status text not null default 'open'",
            "nothing says which words of its column status are pending",
        ),
    ] {
        let fixture = Fixture::new(&default_table(more)).await;
        let mut worker = Worker::new(fixture.connector(), polling().with_mark(mark.clone()));
        let failure = worker.database.describe(TABLE).await.unwrap_err();
        assert_eq!(failure.code, relay::Code::Polling);
        assert!(failure.message.contains(expected), "{failure}");
    }
}

/// A word for abandoned that failed rows have by default: these are pending while they wait.
#[tokio::test]
async fn a_default_word_gives_way_to_a_configured_one() {
    let more = ", status text not null default 'PENDING', attempts int not null default 0, \
        available_at timestamptz not null default now()";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture
        .run("insert into outbox (aggregate_id, status) values ('a', 'FAILED'), ('b', 'PENDING')")
        .await;
    let mark = MarkConfig { abandoned: Some("FAILED".to_owned()), ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(mark)).await;
    let rows = worker.fetch(10).await.rows;
    assert_eq!(ids(&rows), ["2"]);
    let retry = failed(&rows[0], 1, RowOutcome::Retry(Duration::from_secs(600)));
    worker.settle(SettleRequest { failed: vec![retry], ..nothing() }).await;
    let states = "select string_agg(status, ' ' order by id) from outbox";
    assert_eq!(fixture.value(states).await, "FAILED PENDING");
    let survey = worker.database.survey(TABLE).await.unwrap();
    let exactly = RowCount::Exactly;
    assert_eq!((survey.failed, survey.abandoned), (exactly(1), exactly(1)));
}

/// By a word that new rows have, too, no row is known to have been tried.
#[tokio::test]
async fn a_row_that_is_not_due_holds_no_key_where_failed_rows_are_pending() {
    let more = ", status text not null default 'PENDING', attempts int not null default 0, \
        available_at timestamptz not null default now()";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, available_at) values \
             ('a', now() + interval '1 h'), ('a', now()), ('b', now()), ('b', now())",
        )
        .await;
    let word = |word: &str| Some(word.to_owned());
    let mark =
        MarkConfig { failed: word("PENDING"), abandoned: word("FAILED"), ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(mark)).await;
    let rows = worker.fetch(2).await.rows;
    assert_eq!(ids(&rows), ["2", "3"]);
    let retry = failed(&rows[1], 1, RowOutcome::Retry(Duration::from_secs(600)));
    worker.settle(SettleRequest { failed: vec![retry], ..nothing() }).await;
    // A row that was tried holds its key.
    assert_eq!(ids(&worker.fetch(9).await.rows), ["2"]);
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.failed, survey.not_due), (RowCount::Exactly(1), 1));
}

#[tokio::test]
async fn a_deletion() {
    let fixture = Fixture::new(&default_table("")).await;
    fixture.grant(Deletes::Yes).await;
    protect(&fixture, &[]).await;
    three_rows(&fixture).await;
    let mark = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(mark)).await;
    fixture.make_indexes(&worker).await;
    assert_eq!(marked(&fixture, &mut worker, "id::text").await, "3");
}

/// What others write there says which rows are not to be sent, and in which order the others are.
#[tokio::test]
async fn words_that_the_role_may_not_write_are_respected() {
    let more = ", status text not null default 'PENDING', locked_until timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture.grant(Deletes::Yes).await;
    fixture.run("revoke update on outbox from router").await;
    fixture
        .run(
            "insert into outbox (aggregate_id, status, locked_until) values \
             ('a', 'PROCESSING', now() + interval '1 h'), ('a', 'PENDING', null), \
             ('b', 'ABANDONED', null), ('b', 'PENDING', null), \
             ('c', 'PROCESSING', now() - interval '1 h'), ('d', 'PENDING', null)",
        )
        .await;
    let mark = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(mark.clone())).await;
    let fetched = worker.fetch(10).await;
    assert_eq!((ids(&fetched.rows), fetched.claimed), (vec!["5".into(), "6".into()], Claimed::No));
    // A lock is taken and given back without the word.
    fixture.run("grant update (locked_until) on outbox to router").await;
    let mut worker = fixture.worker(polling().with_mark(mark)).await;
    fixture.make_indexes(&worker).await;
    worker.database.describe(TABLE).await.unwrap();
    let fetched = worker.fetch(10).await;
    assert_eq!((ids(&fetched.rows), fetched.claimed), (vec!["5".into(), "6".into()], Claimed::Yes));
    let released = fetched.rows.iter().map(PendingRow::row_at).collect();
    worker.settle(SettleRequest { released, ..nothing() }).await;
    let fetched = worker.fetch(10).await;
    assert_eq!(worker.publish(&fetched.rows).await, 2);
    let left = "select string_agg(id::text, ' ' order by id) from outbox";
    assert_eq!(fixture.value(left).await, "1 2 3 4");
}

#[tokio::test]
async fn a_column_by_its_name_and_an_identity_of_two_columns() {
    let fixture = Fixture::new(
        "create table outbox (tenant text, \"seq \"\"x\" timestamptz, \
         aggregate_type text default 'a', aggregate_id text, event_type text default 'e', \
         payload text, id uuid default gen_random_uuid(), sent timestamptz, \
         primary key (tenant, \"seq \"\"x\"))",
    )
    .await;
    fixture
        .run(
            r#"insert into outbox (tenant, "seq ""x") values (E'it''s {\\"a\\"}', '2026-01-01 00:00:00.1+02'),
               ('b', '2026-01-01 00:00:00+00'), ('', 'infinity'), ('NULL', '-infinity')"#,
        )
        .await;
    let mark = MarkConfig {
        how: MarkHow::Timestamp,
        column: Some("sent".into()),
        ..MarkConfig::default()
    };
    let mut worker = fixture.worker(polling().with_mark(mark)).await;
    let rows = worker.fetch(10).await.rows;
    assert_eq!(worker.publish(&rows[..3]).await, 3);
    assert_eq!(ids(&worker.fetch(10).await.rows), ids(&rows[3..]));
    assert_eq!(worker.publish(&rows[3..]).await, 1);
}

#[tokio::test]
async fn a_row_that_is_gone_or_was_marked_by_another_is_left_alone() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    three_rows(&fixture).await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(10).await.rows;
    fixture
        .run("delete from outbox where id = 1; update outbox set published_at = 'epoch' where id = 2")
        .await;
    assert_eq!(worker.publish(&rows).await, 1);
    let epoch = "select published_at = 'epoch' from outbox where id = 2";
    assert_eq!(fixture.value(epoch).await, "t");
}

#[tokio::test]
async fn an_abandoned_row_is_recorded_by_its_time_alone() {
    let more = ", published_at timestamptz, abandoned_at timestamptz, last_error text";
    let fixture = Fixture::new(&default_table(more)).await;
    protect(&fixture, &["published_at", "abandoned_at", "last_error"]).await;
    three_rows(&fixture).await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    let rows = worker.fetch(10).await.rows;
    let failed = vec![failed(&rows[0], 5, RowOutcome::Abandon)];
    worker.settle(SettleRequest { failed, ..nothing() }).await;
    // The other row of its key waits.
    assert_eq!(ids(&worker.fetch(10).await.rows), ["2"]);
    let error = "select last_error from outbox where abandoned_at is not null";
    assert_eq!(fixture.value(error).await, r"R009: it's … malformed\?");
}

#[tokio::test]
async fn rows_are_read_in_the_order_of_a_clock_with_null_behind() {
    let more = ", hlc text, published_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture
        .run(
            "insert into outbox (hlc, created_at) values (null, '2026-01-02'), ('b', '2026-01-01'), \
             ('a', '2026-01-03'), (null, '2026-01-01'), ('a', '2026-01-02')",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["5", "3", "2", "4", "1"]);
    assert_eq!(ids(&worker.drain(2).await), ["5", "3", "2", "4", "1"]);
}

/// `NOT NULL NOT VALID`, since PostgreSQL 18: rows from before may have NULL.
#[tokio::test]
async fn a_constraint_that_is_not_valid_promises_nothing_about_older_rows() {
    let table = default_table(", published boolean");
    let fixture = Fixture::of_version(18, &[], &table).await;
    fixture
        .run(
            "insert into outbox (aggregate_id) values ('old'); \
             alter table outbox add constraint known not null published not valid",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(9).await.rows;
    assert_eq!(worker.publish(&rows).await, 1);
    assert_eq!(fixture.value("select published from outbox").await, "t");
    // Nor can rows be found again by such a column.
    fixture
        .run(
            "alter table outbox alter id drop identity, drop constraint outbox_pkey; \
             alter table outbox alter id drop not null; \
             alter table outbox add constraint ids not null id not valid, add unique (id)",
        )
        .await;
    let failure = worker.database.describe(TABLE).await.unwrap_err();
    assert_eq!(failure.code, relay::Code::Polling, "{failure}");
    fixture.run("alter table outbox validate constraint ids").await;
    worker.database.describe(TABLE).await.unwrap();
}
