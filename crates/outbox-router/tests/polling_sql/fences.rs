//! What became of rows is written only while their shards are this worker's.

use std::time::Duration;

use relay::{
    polling::{
        LeaseRequest, PendingRow, RequestNumber, RowOutcome, SettleRequest, Settled, ShardSet,
        Written,
    },
    testing::sent,
};
use uuid::Uuid;

use crate::fixture::{Fixture, Worker, default_table, failed, nothing, polling};

const SHORT: Duration = Duration::from_secs(1);
const PENDING: &str = "select count(*) from outbox where published_at is null";

async fn fixture() -> Fixture {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture.run("insert into outbox (aggregate_id) select 'k' from generate_series(1, 3)").await;
    fixture
}

async fn all(fixture: &Fixture, worker: Uuid, lease: Duration) -> u32 {
    let hold = LeaseRequest::Hold { wanted: vec![64] };
    let leases = fixture.leases(worker, lease).answer(&hold).await.unwrap();
    leases.tables[0].held.len()
}

/// Marks everything that was read, of all shards.
async fn publish(worker: &mut Worker) -> Settled {
    publish_as_of(RequestNumber(1), worker).await
}

/// Marks what was read after this lease request was answered.
async fn publish_as_of(as_of: RequestNumber, worker: &mut Worker) -> Settled {
    let rows = worker.fetch(10).await.rows;
    let published = rows.iter().map(sent).collect();
    let request = SettleRequest { published, shards: ShardSet::ALL, as_of, ..worker.nothing() };
    worker.database.settle(&request).await.unwrap()
}

#[tokio::test]
async fn a_worker_whose_shards_another_one_has_taken_marks_nothing() {
    let fixture = fixture().await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(publish(&mut worker).await.written, Written::NotOurs, "it never held any");
    assert_eq!(all(&fixture, worker.id, SHORT).await, 64);
    tokio::time::sleep(SHORT).await;
    let other = Uuid::new_v4();
    assert_eq!(all(&fixture, other, SHORT).await, 64, "its lease has ended");
    let late = publish(&mut worker).await;
    assert_eq!((late.written, late.published), (Written::NotOurs, 0));
    assert_eq!(fixture.value(PENDING).await, "3");
    // A lease that has ended, and that nobody else has taken.
    tokio::time::sleep(SHORT).await;
    assert_eq!(all(&fixture, worker.id, SHORT).await, 64);
    tokio::time::sleep(SHORT).await;
    let marked = publish(&mut worker).await;
    assert_eq!((marked.written, marked.published), (Written::Yes, 3));
}

/// The worker has its shards again, and another one may have delivered some of the rows meanwhile.
#[tokio::test]
async fn a_worker_whose_shards_another_one_has_had_in_between_marks_nothing_that_it_read_before() {
    let fixture = fixture().await;
    let mut worker = fixture.worker(polling()).await;
    let mut leases = fixture.leases(worker.id, SHORT);
    let hold = LeaseRequest::Hold { wanted: vec![64] };
    let first = leases.answer(&hold).await.unwrap().request;
    // A lease of one's own that has ended, and that nobody else has had.
    tokio::time::sleep(SHORT).await;
    let renewed = leases.answer(&hold).await.unwrap();
    assert_eq!((renewed.tables[0].held.len(), renewed.request), (64, first.next()));
    fixture.run("insert into outbox (aggregate_id) values ('k')").await;
    let marked = publish_as_of(first, &mut worker).await;
    assert_eq!((marked.written, marked.published), (Written::Yes, 4));
    // Another one has them.
    tokio::time::sleep(SHORT).await;
    assert_eq!(all(&fixture, Uuid::new_v4(), SHORT).await, 64);
    tokio::time::sleep(SHORT).await;
    let again = leases.answer(&hold).await.unwrap();
    assert_eq!(again.tables[0].held.len(), 64);
    fixture.run("insert into outbox (aggregate_id) values ('k')").await;
    for (as_of, written) in [
        (first, Written::NotOurs),
        (renewed.request, Written::NotOurs),
        (again.request, Written::Yes),
    ] {
        let settled = publish_as_of(as_of, &mut worker).await;
        let published = usize::from(written == Written::Yes);
        assert_eq!((settled.written, settled.published), (written, published), "{as_of:?}");
    }
}

/// The transaction that marks rows has begun, and its lease ends meanwhile.
#[tokio::test]
async fn shards_are_not_taken_from_a_worker_that_marks_at_this_moment() {
    let fixture = fixture().await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(all(&fixture, worker.id, SHORT).await, 64);
    // The row is locked, so the marks have to wait.
    let application = fixture.session().await;
    application.batch_execute("begin; select from outbox for update").await.unwrap();
    let waits = async {
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        while fixture.value(waiting).await != "1" {}
        tokio::time::sleep(SHORT).await;
        let other = Uuid::new_v4();
        assert_eq!(all(&fixture, other, SHORT).await, 0, "marks are being written");
        // A renewal does not wait for the marks.
        assert_eq!(all(&fixture, worker_id(&fixture).await, SHORT).await, 64);
        application.batch_execute("commit").await.unwrap();
    };
    let (marked, ()) = tokio::join!(publish(&mut worker), waits);
    assert_eq!((marked.written, marked.published), (Written::Yes, 3));
}

async fn worker_id(fixture: &Fixture) -> Uuid {
    let holder = "select holder from outbox_router.lease where holder is not null limit 1";
    fixture.value(holder).await.parse().unwrap()
}

/// The table does not say whose a claim is: it may be that of the worker that has the shards now.
#[tokio::test]
async fn a_claim_of_nobody_in_particular_is_given_up_only_with_its_shard() {
    let marks = ", status text not null default 'PENDING', processing_at timestamptz";
    let fixture = Fixture::new(&default_table(marks)).await;
    fixture.run("insert into outbox (aggregate_id) values ('k')").await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(all(&fixture, worker.id, SHORT).await, 64);
    let released: Vec<_> = worker.fetch(10).await.rows.iter().map(PendingRow::row_at).collect();
    assert_eq!(released.len(), 1);
    let request = SettleRequest {
        released,
        shards: ShardSet::ALL,
        as_of: RequestNumber(1),
        ..worker.nothing()
    };
    let state = "select status from outbox";
    tokio::time::sleep(SHORT).await;
    assert_eq!(all(&fixture, Uuid::new_v4(), SHORT).await, 64, "its lease has ended");
    worker.database.settle(&request).await.unwrap();
    assert_eq!(fixture.value(state).await, "PROCESSING");
    tokio::time::sleep(SHORT).await;
    assert_eq!(all(&fixture, worker.id, SHORT).await, 64);
    let again = SettleRequest { as_of: RequestNumber(9), ..request };
    worker.database.settle(&again).await.unwrap();
    assert_eq!(fixture.value(state).await, "PENDING");
}

/// A person gives a row the key that it lacked, while it counts as failed: by its new key it may be
/// another worker's, who delivers it.
#[tokio::test]
async fn a_row_that_is_given_a_key_meanwhile_does_not_count_as_failed() {
    let marks = ", published_at timestamptz, attempts int not null default 0, \
                 available_at timestamptz, abandoned_at timestamptz";
    let fixture = Fixture::new(&default_table(marks)).await;
    fixture.run("insert into outbox (aggregate_id) values (null)").await;
    let mut worker = fixture.worker(polling()).await;
    let seen = "select format('%s %s %s', attempts, available_at is null, abandoned_at is null) \
                from outbox";
    let row = worker.fetch(1).await.rows.remove(0);
    fixture.run("update outbox set aggregate_id = 'a'").await;
    for outcome in [RowOutcome::Retry(SHORT), RowOutcome::Abandon] {
        let failed = vec![failed(&row, 1, outcome)];
        worker.settle(SettleRequest { failed, ..nothing() }).await;
        assert_eq!(fixture.value(seen).await, "0 t t", "{outcome:?}");
    }
    for (outcome, expected) in
        [(RowOutcome::Retry(Duration::ZERO), "1 f t"), (RowOutcome::Abandon, "1 f f")]
    {
        let row = worker.fetch(1).await.rows.remove(0);
        let failed = vec![failed(&row, 1, outcome)];
        worker.settle(SettleRequest { failed, ..nothing() }).await;
        assert_eq!(fixture.value(seen).await, expected, "{outcome:?}");
    }
}
