//! A cast to text may be a function of the owner of the type: no statement runs it.

use crate::fixture::{Fixture, TABLE, ids, keys, polling};
use outbox_router::polling::sql::{
    Stuck, StuckFilter, begin_snapshot, requeue, row_marks, setup::Deletes, stuck,
    switch::UNDELIVERED,
};

/// An enum, a domain of it, and a type of two texts, whose casts are their owner's functions.
const TYPES: &str = "\
    create function ran() returns text language plpgsql as $$ \
      begin raise exception 'a cast ran'; end $$; \
    create type kind as enum ('a', 'b', 'c'); create domain sort as kind; \
    create type pair as (one text, two text); \
    create function of_kind(kind) returns text language sql as 'select ran()'; \
    create function of_pair(pair) returns text language sql as 'select ran()'; \
    create cast (kind as text) with function of_kind(kind); \
    create cast (pair as text) with function of_pair(pair); \
    create table outbox (id kind primary key, aggregate_type text not null default 'order', \
      aggregate_id sort, event_type text not null default 'E', payload jsonb, much pair, \
      created_at timestamptz not null default now(), status text not null default 'PENDING'); \
    insert into outbox (id, aggregate_id, much, status) values \
      ('a', 'a', (repeat('x', 2000), ''), 'PENDING'), ('b', null, null, 'PENDING'), \
      ('c', 'c', null, 'ABANDONED')";

#[tokio::test]
async fn no_statement_runs_the_cast_of_a_types_owner() {
    let fixture = Fixture::new(TYPES).await;
    fixture.grant(Deletes::No).await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(9).await.rows;
    assert_eq!(
        (ids(&rows), keys(&rows)),
        (vec!["a".to_owned(), "b".to_owned()], vec![Some("a"), None])
    );

    let (session, table) = (fixture.session().await, worker.database.table(TABLE).unwrap());
    let named = StuckFilter { ids: vec!["c".to_owned()], ..StuckFilter::default() };
    let found = stuck(&session, table, Stuck::Abandoned, &named).await.unwrap().unwrap();
    assert_eq!((found[0].id.as_str(), found[0].key.as_deref()), ("c", Some("c")));
    assert!(row_marks(&session, table, &found[0].row.id).await.unwrap().is_some());
    session.batch_execute(&begin_snapshot(None)).await.unwrap();
    session.batch_execute(UNDELIVERED).await.unwrap();
    session.batch_execute(&table.declare_delivered("true", None)).await.unwrap();
    session.batch_execute("fetch 9 from outbox_router_delivered; rollback").await.unwrap();
    assert_eq!(requeue(&session, table, &[found[0].row.clone()]).await.unwrap(), 1);
    assert_eq!(worker.publish(&rows).await, 2);
}
