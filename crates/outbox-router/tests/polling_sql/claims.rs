//! Rows that are taken when they are read, as the owners of such tables expect.

use std::time::Duration;

use outbox_router::polling::sql::{
    MarkConfig, MarkHow, Stuck, StuckFilter, drop_rows, requeue, setup::Deletes, stuck,
};
use relay::{
    Case, Failure,
    delivered::GivenUp,
    polling::{Claimed, Fetched, More, PendingRow, RowOutcome, SettleRequest, WaitsKept},
    testing::sent,
};
use testbed::postgres::DatabaseSession;

use crate::fixture::{Fixture, TABLE, Worker, default_table, failed, ids, keys, nothing, polling};

/// The table of the preset `ordering_key`, with its states in capitals.
const STATES: &str = ", status text not null default 'PENDING', published_at timestamptz, \
    processing_at timestamptz, last_error varchar(12), attempts int not null default 0, \
    available_at timestamptz not null default now()";

const LOCKS: &str = ", status text not null default 'pending', locked_by text, \
    locked_until timestamptz";

const STATE: &str = "select string_agg(concat_ws(',', status, attempts, last_error, \
    case when available_at > now() then 'later' end, \
    case when processing_at is not null then 'since' end, \
    case when published_at is not null then 'at' end), ' ' order by id) from outbox";

async fn insert(fixture: &Fixture, keys: &[&str]) {
    for key in keys {
        fixture.run(&format!("insert into outbox (aggregate_id) values ('{key}')")).await;
    }
}

#[tokio::test]
async fn a_row_is_pending_then_processing_then_published() {
    let fixture = Fixture::new(&default_table(STATES)).await;
    insert(&fixture, &["a", "b", "a"]).await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    assert_eq!(worker.database.describe(TABLE).await.unwrap().waits, WaitsKept::InTable);
    let fetched = worker.fetch(10).await;
    assert_eq!((fetched.claimed, keys(&fetched.rows).len()), (Claimed::Yes, 3));
    assert_eq!(
        fixture.value(STATE).await,
        "PROCESSING,0,since PROCESSING,0,since PROCESSING,0,since"
    );
    // The message shows the row as it was written.
    let shown = String::from_utf8_lossy(&fetched.rows[0].insert).into_owned();
    assert!(shown.contains("PENDING") && !shown.contains("PROCESSING"), "{shown}");
    assert!(worker.fetch(10).await.rows.is_empty(), "taken a moment ago");
    assert_eq!(worker.publish(&fetched.rows[..1]).await, 1);
    let released = fetched.rows[1..].iter().map(PendingRow::row_at).collect();
    worker.settle(SettleRequest { released, ..nothing() }).await;
    assert_eq!(fixture.value(STATE).await, "PUBLISHED,0,since,at PENDING,0 PENDING,0");
    assert_eq!(ids(&worker.fetch(1).await.rows), ["2"]);
}

#[tokio::test]
async fn a_row_that_failed_holds_its_key_and_is_tried_again_or_abandoned() {
    let fixture = Fixture::new(&default_table(STATES)).await;
    insert(&fixture, &["a", "b", "a", "b"]).await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    let fetched = worker.fetch(2).await;
    let retry = failed(&fetched.rows[0], 1, RowOutcome::Retry(Duration::from_millis(400)));
    let abandon = failed(&fetched.rows[1], 5, RowOutcome::Abandon);
    worker.settle(SettleRequest { failed: vec![retry, abandon], ..nothing() }).await;
    assert_eq!(
        fixture.value(STATE).await,
        "FAILED,1,R009: it's …,later ABANDONED,5,R009: it's …,since PENDING,0 PENDING,0"
    );
    assert!(worker.fetch(10).await.rows.is_empty(), "later rows of both keys wait");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let again = worker.fetch(10).await;
    assert_eq!(ids(&again.rows), ["1", "3"]);
    assert_eq!(again.rows.iter().map(|row| row.attempts).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(worker.publish(&again.rows).await, 2);
    // A person has it tried again.
    fixture.run("update outbox set status = 'PENDING', attempts = 0 where id = 2").await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["2", "4"]);
}

#[tokio::test]
async fn without_held_keys_later_rows_pass() {
    let fixture = Fixture::new(&default_table(STATES)).await;
    insert(&fixture, &["a", "a"]).await;
    let mut polling = polling().with_letters();
    polling.settings.hold_keys = relay::HoldKeys::No;
    let mut worker = fixture.worker(polling).await;
    let fetched = worker.fetch(1).await;
    let retry = failed(&fetched.rows[0], 1, RowOutcome::Retry(Duration::from_secs(60)));
    worker.settle(SettleRequest { failed: vec![retry], ..nothing() }).await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["2"]);
}

#[tokio::test]
async fn a_row_that_is_scheduled_is_read_when_it_is_due_and_holds_nothing() {
    let fixture = Fixture::new(&default_table(STATES)).await;
    let insert = "insert into outbox (aggregate_id, available_at) \
                  values ('a', now() + interval '400 ms'), ('a', now())";
    fixture.run(insert).await;
    let mut worker = fixture.worker(polling()).await;
    let due = worker.fetch(10).await.rows;
    assert_eq!(ids(&due), ["2"]);
    assert_eq!(worker.publish(&due).await, 1);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["1"]);
}

#[tokio::test]
async fn another_pollers_lock_is_respected_with_its_key_until_it_ends() {
    let fixture = Fixture::new(&default_table(LOCKS)).await;
    insert(&fixture, &["a", "b", "a", "b"]).await;
    fixture
        .run(
            "update outbox set status = 'processing', locked_by = 'other', \
             locked_until = now() + interval '1 s' where id = 1",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(worker.database.describe(TABLE).await.unwrap().waits, WaitsKept::InMemory);
    let fetched = worker.fetch(10).await;
    assert_eq!(ids(&fetched.rows), ["2", "4"]);
    let locks = format!(
        "select string_agg((locked_by = '{}')::text, ' ' order by id) from outbox \
         where locked_until > now() + interval '8 s'",
        worker.id
    );
    assert_eq!(fixture.value(&locks).await, "true true");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    // What the worker has taken itself it may take again.
    let fetched = worker.fetch(10).await;
    assert_eq!(ids(&fetched.rows), ["1", "2", "3", "4"]);
    // Somebody takes a row away: it is not marked.
    fixture.run("update outbox set locked_by = 'thief' where id = 4").await;
    assert_eq!(worker.publish(&fetched.rows).await, 3);
    let state = "select string_agg(concat_ws(',', status, locked_by), ' ' order by id) from outbox";
    assert_eq!(fixture.value(state).await, "published published published processing,thief");
}

#[tokio::test]
async fn a_claim_without_an_end_is_taken_over_after_the_lease() {
    let fixture = Fixture::new(&default_table(STATES)).await;
    insert(&fixture, &["a", "a"]).await;
    fixture
        .run("update outbox set status = 'PROCESSING', processing_at = now() where id = 1")
        .await;
    let lease = Duration::from_secs(1);
    let mut worker = fixture.worker(polling().with_lease(lease)).await;
    assert!(worker.fetch(10).await.rows.is_empty(), "its key waits, too");
    tokio::time::sleep(lease + Duration::from_millis(100)).await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["1", "2"]);
}

#[tokio::test]
async fn a_row_that_a_transaction_has_locked_is_not_passed_by_its_key() {
    let fixture = Fixture::new(&default_table(LOCKS)).await;
    insert(&fixture, &["a", "b", "a", "b"]).await;
    let other = fixture.session().await;
    other.batch_execute("begin; select from outbox where id = 1 for update").await.unwrap();
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["2", "4"]);
    other.batch_execute("commit").await.unwrap();
    assert_eq!(ids(&worker.fetch(1).await.rows), ["1"]);
}

/// However many rows of them come first.
#[tokio::test]
async fn keys_that_other_transactions_block_do_not_keep_the_others_waiting() {
    let fixture = Fixture::new(&default_table(LOCKS)).await;
    insert(&fixture, &["a", "b", "a", "b", "a", "b", "c", "a", "d", "b", "c"]).await;
    let other = fixture.session().await;
    other.batch_execute("begin; select from outbox where id in (1, 4) for update").await.unwrap();
    let mut worker = fixture.worker(polling()).await;
    let mut taken = Vec::new();
    loop {
        let rows = worker.fetch(2).await.rows;
        if rows.is_empty() {
            break;
        }
        assert_eq!(worker.publish(&rows).await, rows.len());
        taken.extend(ids(&rows));
    }
    assert_eq!(taken, ["2", "7", "9", "11"]);
    other.batch_execute("commit").await.unwrap();
    let mut freed = Vec::new();
    while freed.len() < 7 {
        let rows = found(&mut worker, 10).await;
        assert_eq!(worker.publish(&rows).await, rows.len());
        freed.extend(ids(&rows));
    }
    // Each key is looked at again when it was left out for a moment.
    freed.sort_unstable();
    assert_eq!(freed, ["1", "10", "3", "4", "5", "6", "8"]);
}

/// A reading that leaves it out, and finds all that there is besides, does not end the search.
#[tokio::test]
async fn a_key_that_was_blocked_for_a_moment_is_soon_looked_at_again() {
    let fixture = Fixture::new(&default_table(LOCKS)).await;
    insert(&fixture, &["a", "b"]).await;
    let other = fixture.session().await;
    other.batch_execute("begin; select from outbox where id = 1 for update").await.unwrap();
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(1).await.rows;
    assert_eq!((ids(&rows), worker.publish(&rows).await), (vec!["2".to_owned()], 1));
    other.batch_execute("commit").await.unwrap();
    let fetched = worker.fetch(1).await;
    assert!(!fetched.rows.is_empty() || fetched.more != More::No, "{fetched:?}");
    // Nor does one that has only found blocked rows.
    let mut worker = fixture.worker(polling()).await;
    other.batch_execute("begin; select from outbox where id = 1 for update").await.unwrap();
    let fetched = worker.fetch(10).await;
    assert!(fetched.rows.is_empty() && fetched.more != More::No, "{fetched:?}");
    other.batch_execute("commit").await.unwrap();
    assert_eq!(ids(&found(&mut worker, 1).await), ["1"]);
}

/// Reads until rows are found.
async fn found(worker: &mut Worker, limit: usize) -> Vec<PendingRow> {
    let search = async {
        loop {
            let Fetched { rows, more, .. } = worker.fetch(limit).await;
            if !rows.is_empty() {
                return rows;
            }
            assert_ne!(more, More::No, "a row is left");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), search).await.unwrap()
}

/// As while a migration changes all the rows that were there when it began.
#[tokio::test]
async fn however_many_keys_are_blocked_those_behind_them_are_found() {
    let fixture = Fixture::new(&default_table(LOCKS)).await;
    fixture.run("insert into outbox (aggregate_id) select i from generate_series(1, 200) i").await;
    insert(&fixture, &["a", "b"]).await;
    let other = fixture.session().await;
    other.batch_execute("begin; select from outbox where id <= 200 for update").await.unwrap();
    // With the shorter lease each request is one reading.
    for lease in [Duration::from_secs(10), Duration::from_millis(1)] {
        let mut worker = fixture.worker(polling().with_lease(lease)).await;
        let rows = found(&mut worker, 1).await;
        assert_eq!(ids(&rows), ["201"], "at most as many as were asked for");
        let released = rows.iter().map(PendingRow::row_at).collect();
        worker.settle(SettleRequest { released, ..nothing() }).await;
    }
}

#[tokio::test]
async fn a_row_is_taken_by_one_of_two_workers_that_read_at_once() {
    let fixture = Fixture::new(&default_table(LOCKS)).await;
    fixture.run("insert into outbox (aggregate_id) select i from generate_series(1, 400) i").await;
    let mut workers: Vec<Worker> = Vec::new();
    for _ in 0..4 {
        workers.push(fixture.worker(polling()).await);
    }
    let mut all = Vec::new();
    for _ in 0..20 {
        let [a, b, c, d] = workers.as_mut_slice() else { panic!("four workers") };
        let (a, b, c, d) = tokio::join!(a.fetch(50), b.fetch(50), c.fetch(50), d.fetch(50));
        let rounds = [a, b, c, d];
        for (worker, fetched) in workers.iter_mut().zip(&rounds) {
            assert_eq!(worker.publish(&fetched.rows).await, fetched.rows.len());
        }
        all.extend(rounds.into_iter().flat_map(|fetched| ids(&fetched.rows)));
    }
    assert_eq!(all.len(), 400);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 400);
}

#[tokio::test]
async fn rows_of_a_partitioned_table_are_taken_and_marked() {
    let fixture = Fixture::new(
        "create table outbox (id bigint generated always as identity, \
         aggregate_type text not null default 'order', aggregate_id text, \
         event_type text not null default 'OrderPlaced', payload jsonb, \
         created_at timestamptz not null default now(), status text not null default 'pending', \
         locked_until timestamptz, attempts int not null default 0, available_at timestamptz, \
         primary key (id, created_at)) partition by range (created_at); \
         create table outbox_old partition of outbox for values from (minvalue) to ('2026-01-01'); \
         create table outbox_new partition of outbox for values from ('2026-01-01') to (maxvalue)",
    )
    .await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    fixture.make_indexes(&worker).await;
    let insert = "insert into outbox (aggregate_id, created_at) \
                  select i % 3, '2025-12-31 23:59:50Z'::timestamptz + make_interval(secs => i) \
                  from generate_series(1, 20) i";
    fixture.run(insert).await;
    worker.database.describe(TABLE).await.unwrap();
    let rows = worker.fetch(12).await.rows;
    assert_eq!(rows.len(), 12);
    let retry = failed(&rows[11], 1, RowOutcome::Retry(Duration::from_secs(60)));
    let published = rows[..11].iter().map(sent).collect();
    let request = SettleRequest { published, failed: vec![retry], ..nothing() };
    assert_eq!(worker.settle(request).await, 11);
    // Of three keys one waits.
    let rest = worker.fetch(20).await.rows;
    assert_eq!((rest.len(), worker.publish(&rest).await), (6, 6));
}

#[tokio::test]
async fn a_row_that_is_no_event_holds_no_key() {
    let fixture = Fixture::new(&default_table(STATES)).await;
    insert(&fixture, &["a", "a"]).await;
    fixture.run("update outbox set status = 'ABANDONED', event_type = 'other' where id = 1").await;
    let mut polling = polling().with_letters();
    polling.config.outbox.filter = Some(relay::RowFilter {
        column: "event_type".to_owned(),
        values: vec!["OrderPlaced".to_owned()],
        kind: relay::FilterKind::In,
    });
    let mut worker = fixture.worker(polling).await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["2"]);
}

/// Whoever sets only the status back has not taken back that the row is abandoned: it is listed and
/// holds its key until it is requeued.
#[tokio::test]
async fn a_row_that_is_abandoned_by_its_time_alone_is_not_forgotten() {
    let more = format!("{STATES}, abandoned_at timestamptz");
    let fixture = Fixture::new(&default_table(&more)).await;
    insert(&fixture, &["a", "b", "a"]).await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    let fetched = worker.fetch(1).await;
    let abandon = failed(&fetched.rows[0], 5, RowOutcome::Abandon);
    worker.settle(SettleRequest { failed: vec![abandon], ..nothing() }).await;
    fixture.run("update outbox set status = 'PENDING' where id = 1").await;
    assert_eq!(ids(&worker.fetch(10).await.rows), ["2"], "what is behind it waits");
    let (session, table) = (fixture.session().await, worker.database.table(TABLE).unwrap());
    let found = stuck(&session, table, Stuck::Abandoned, &StuckFilter::default()).await;
    let found: Vec<_> = found.unwrap().unwrap().into_iter().map(|row| row.row).collect();
    assert_eq!(requeue(&session, table, &found).await.unwrap(), 1);
    assert_eq!(ids(&worker.fetch(10).await.rows), ["1", "3"]);
}

fn refused(done: Result<u64, Failure>) -> String {
    let failure = done.unwrap_err();
    assert_eq!(failure.case, Some(Case::PermissionDenied), "{failure}");
    failure.message
}

#[tokio::test]
async fn what_the_role_may_not_write_keeps_no_row_abandoned_unless_it_says_that_it_is() {
    let more = format!("{STATES}, abandoned_at timestamptz");
    let fixture = Fixture::new(&default_table(&more)).await;
    insert(&fixture, &["a", "b"]).await;
    fixture
        .run(
            "revoke update on outbox from router; \
             grant update (status, published_at, processing_at, attempts) on outbox to router; \
             update outbox set status = 'ABANDONED', attempts = 5; \
             update outbox set abandoned_at = now() where id = 2",
        )
        .await;
    let worker = fixture.worker(polling().with_letters()).await;
    let table = worker.database.table(TABLE).unwrap();
    let session = DatabaseSession::open(&fixture.connector().0).await.unwrap();
    let rows = [fixture.row("1").await.row_at(), fixture.row("2").await.row_at()];
    let refused = refused(requeue(&session, table, &rows).await);
    let grant = r#"grant update ("abandoned_at") on "public"."outbox" to "router""#;
    assert!(refused.contains(grant), "{refused}");
    let state = "select string_agg(status || attempts, ' ' order by id) from outbox";
    assert_eq!(fixture.value(state).await, "ABANDONED5 ABANDONED5", "all or none");
    assert_eq!(requeue(&session, table, &rows[..1]).await.unwrap(), 1);
    assert_eq!(fixture.value(state).await, "PENDING0 ABANDONED5");
}

#[tokio::test]
async fn a_row_that_is_abandoned_by_a_word_which_the_role_may_not_write_is_not_requeued() {
    let fixture = Fixture::new(&default_table(", status text default 'pending'")).await;
    fixture.grant(Deletes::Yes).await;
    insert(&fixture, &["a"]).await;
    fixture.run("update outbox set status = 'abandoned'").await;
    fixture.run("revoke update on outbox from router").await;
    let mark = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
    let worker = fixture.worker(polling().with_mark(mark)).await;
    let table = worker.database.table(TABLE).unwrap();
    let session = DatabaseSession::open(&fixture.connector().0).await.unwrap();
    let row = [fixture.row("1").await.row_at()];
    let refused = refused(requeue(&session, table, &row).await);
    let grant = r#"grant update ("status") on "public"."outbox" to "router""#;
    assert!(refused.contains(grant), "{refused}");
    let given_up = row.map(|row| GivenUp::by("ann", row).unwrap());
    assert_eq!(drop_rows(&session, table, &given_up, "no").await.unwrap(), 1);
}

/// Nothing shows a worker that has never seen it fail that it was tried.
#[tokio::test]
async fn a_row_that_failed_stays_first_of_its_key_for_the_next_worker() {
    let more = ", published_at timestamptz, available_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    insert(&fixture, &["a", "a"]).await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(worker.database.describe(TABLE).await.unwrap().waits, WaitsKept::InMemory);
    let rows = worker.fetch(1).await.rows;
    let retry = failed(&rows[0], 1, RowOutcome::Retry(Duration::from_secs(600)));
    worker.settle(SettleRequest { failed: vec![retry], ..nothing() }).await;
    let mut next = fixture.worker(polling()).await;
    assert_eq!(ids(&next.fetch(10).await.rows), ["1", "2"]);
}

/// What others write there says which rows are not to be sent.
#[tokio::test]
async fn times_that_the_role_may_not_write_are_respected() {
    let more = ", published_at timestamptz, available_at timestamptz, locked_until timestamptz, \
                abandoned_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture.run("revoke update on outbox from router").await;
    fixture.run("grant update (published_at) on outbox to router").await;
    insert(&fixture, &["a", "b", "c", "d"]).await;
    fixture.run("update outbox set available_at = now() + interval '1 h' where id = 1").await;
    fixture.run("update outbox set locked_until = now() + interval '1 h' where id = 2").await;
    fixture.run("update outbox set abandoned_at = now() where id = 3").await;
    let mut worker = fixture.worker(polling()).await;
    let fetched = worker.fetch(10).await;
    assert_eq!((ids(&fetched.rows), fetched.claimed), (vec!["4".to_owned()], Claimed::No));
    assert_eq!(worker.publish(&fetched.rows).await, 1);
}

/// As by `switch polling`, which takes nothing: the stream has delivered the row.
#[tokio::test]
async fn a_row_is_marked_that_another_program_has_taken_too_long_ago() {
    let fixture = Fixture::new(&default_table(LOCKS)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, status, locked_by, locked_until) values \
             ('a', 'pending', 'other', now() + interval '1 hour'), \
             ('b', 'pending', 'other', now() - interval '1 second')",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let mut published = Vec::new();
    for id in ["1", "2"] {
        published.push(sent(&fixture.row(id).await));
    }
    assert_eq!(worker.settle(SettleRequest { published, ..nothing() }).await, 1);
    let pending = "select string_agg(aggregate_id, ' ') from outbox where status = 'pending'";
    assert_eq!(fixture.value(pending).await, "a");
}
