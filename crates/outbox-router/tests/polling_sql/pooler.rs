//! All of it behind PgBouncer in transaction mode, where two workers and an application share one
//! session of the server.

use testbed::postgres::{DATABASE, DatabaseSession, PgBouncer};

use outbox_router::polling::sql::LeaseTable;
use relay::polling::{LeaseRequest, ShardSet};

use crate::fixture::{
    Connector, Fixture, ROUTER, TABLE, Worker, default_table, first_value, ids, keys, name, polling,
};

#[tokio::test]
async fn workers_share_a_session_of_the_server() {
    for more in [
        ", published_at timestamptz",
        ", status text not null default 'pending', locked_by text, locked_until timestamptz",
    ] {
        share(more).await;
    }
}

/// A worker keeps views out of its own transactions, and out of no other session.
#[tokio::test]
async fn an_application_behind_the_pooler_reads_its_views() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture
        .run(
            "create role stranger; alter table outbox owner to stranger; \
             alter role router createdb; create view seen as select 1 as one; \
             grant select on seen to router; \
             insert into outbox (aggregate_id) select i from generate_series(1, 5) i",
        )
        .await;
    let one = [("default_pool_size", "1"), ("min_pool_size", "1")];
    let pooler = PgBouncer::start_with(fixture.server.port(), ROUTER, &one).await.unwrap();
    let url = format!("postgres://{ROUTER}@127.0.0.1:{}/{DATABASE}?sslmode=disable", pooler.port());
    let mut worker = Worker::on(Connector(url.clone()), polling()).await;
    let rows = worker.fetch(10).await.rows;
    assert_eq!(worker.publish(&rows).await, 5);
    let application = DatabaseSession::open(&url.replace("?sslmode=disable", "")).await.unwrap();
    assert_eq!(first_value(&application, "select one from public.seen").await, "1");
    // The worker takes nothing else in the place of the table.
    fixture
        .run(
            "alter table outbox rename to gone; create view outbox as select * from gone; \
             grant select, update on outbox to router",
        )
        .await;
    let refused = worker.database.survey(TABLE).await.unwrap_err().message_with_causes();
    assert!(refused.contains("restricted"), "{refused}");
    assert_eq!(first_value(&application, "select one from public.seen").await, "1");
}

async fn share(more: &str) {
    let fixture = Fixture::new(&default_table(more)).await;
    fixture
        .run(
            "alter role router set search_path = public; alter role router set timezone = 'Japan'; \
             alter role router set standard_conforming_strings = off; \
             insert into outbox (aggregate_id) select 'it''s \\' || i % 50 \
             from generate_series(1, 3000) i",
        )
        .await;
    let one = [("default_pool_size", "1"), ("min_pool_size", "1")];
    let pooler = PgBouncer::start_with(fixture.server.port(), ROUTER, &one).await.unwrap();
    let url = format!("postgres://{ROUTER}@127.0.0.1:{}/{DATABASE}?sslmode=disable", pooler.port());
    let connector = Connector(url.clone());
    let mut a = Worker::on(connector.clone(), polling()).await;
    let mut b = Worker::on(connector.clone(), polling()).await;
    let lease = std::time::Duration::from_secs(10);
    let leases = |worker: &Worker| {
        LeaseTable::new(connector.clone(), vec![name()], worker.id, "w".to_owned(), lease)
    };
    let (mut of_a, mut of_b) = (leases(&a), leases(&b));
    let half = LeaseRequest::Hold { wanted: vec![32] };
    let first = of_a.answer(&half).await.unwrap().tables[0].held;
    let second = of_b.answer(&half).await.unwrap().tables[0].held;
    assert_eq!(first.iter().chain(second.iter()).collect::<ShardSet>(), ShardSet::ALL);
    // An application's session in between.
    let plain = url.replace("?sslmode=disable", "");
    let application = DatabaseSession::open(&plain).await.unwrap();
    let passed_over = [Some("no key".into())];
    let (mut all, mut rounds) = (Vec::new(), 0);
    while all.len() < 3_000 {
        rounds += 1;
        assert!(rounds < 100, "{} rows", all.len());
        let (of_a, of_b, shown) = tokio::join!(
            a.fetch_of(first, 100, &[]),
            b.fetch_of(second, 100, &passed_over),
            first_value(&application, "show timezone")
        );
        assert_eq!(shown, "Japan", "a setting outlived its transaction");
        let (in_a, in_b) = tokio::join!(a.publish(&of_a.rows), b.publish(&of_b.rows));
        assert_eq!((in_a, in_b), (of_a.rows.len(), of_b.rows.len()));
        let keys_of_a = keys(&of_a.rows);
        assert!(keys(&of_b.rows).iter().all(|key| !keys_of_a.contains(key)));
        all.extend(ids(&of_a.rows));
        all.extend(ids(&of_b.rows));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 3_000);
    a.database.survey(TABLE).await.unwrap();
    of_b.answer(&LeaseRequest::Release).await.unwrap();
    assert_eq!(
        of_a.answer(&LeaseRequest::Hold { wanted: vec![64] }).await.unwrap().tables[0].held.len(),
        64
    );
}
