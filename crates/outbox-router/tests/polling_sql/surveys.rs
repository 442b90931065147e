//! How many rows are in which state.

use std::time::Duration;

use outbox_router::polling::sql::{
    MarkConfig, MarkHow, Removal, RemovalRules, RowCount, Scan,
    setup::{self, Deletes},
};
use relay::{
    Case,
    polling::{LeaseRequest, RowOutcome, SettleRequest},
    testing::sent,
};

use crate::fixture::{Fixture, TABLE, Worker, default_table, failed, name, nothing, polling};

#[tokio::test]
async fn rows_are_counted_by_their_states() {
    let more = ", status text not null default 'pending', attempts int default 0, \
        available_at timestamptz default now(), locked_until timestamptz, published_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, created_at) \
             select i, now() - interval '90 s' from generate_series(1, 10) i",
        )
        .await;
    let mut worker = fixture.worker(polling().with_letters()).await;
    let rows = worker.fetch(5).await.rows;
    let failed = vec![
        failed(&rows[0], 1, RowOutcome::Retry(Duration::from_secs(60))),
        failed(&rows[1], 1, RowOutcome::Retry(Duration::from_secs(60))),
        failed(&rows[2], 5, RowOutcome::Abandon),
    ];
    let published = vec![sent(&rows[3])];
    worker.settle(SettleRequest { published, failed, ..nothing() }).await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    let exactly = [survey.pending, survey.failed, survey.abandoned, survey.processing];
    assert_eq!(exactly, [8, 2, 1, 1].map(RowCount::Exactly));
    // Two wait for another attempt, and one is locked.
    assert_eq!((survey.not_due, survey.due_in(), survey.ready), (0, None, 5));
    let oldest = survey.oldest_seconds.unwrap();
    assert!((90.0..150.0).contains(&oldest), "{oldest}");

    // A row whose time has not come waits for nobody. Two wait for another attempt until then.
    fixture
        .run(
            "update outbox set available_at = now() + interval '1 hour'; \
             update outbox set available_at = now() + interval '1 min' where attempts > 0",
        )
        .await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.pending, survey.failed), (RowCount::Exactly(8), RowCount::Exactly(2)));
    assert_eq!((survey.not_due, survey.ready, survey.oldest()), (6, 0, None));
    let due_in = survey.due_in().unwrap().as_secs();
    assert!((3_500..=3_600).contains(&due_in), "{due_in}");
    // One of them is due, and the others are told apart all the same.
    fixture.run("update outbox set available_at = null where id = 10").await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.not_due, survey.ready), (5, 1));
    assert!((3_500..=3_600).contains(&survey.due_in().unwrap().as_secs()), "{survey:?}");
    assert!(survey.oldest().unwrap().as_secs() >= 90, "{survey:?}");
    // Another program has taken it.
    fixture.run("update outbox set locked_until = now() + interval '1 h' where id = 10").await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.pending, survey.not_due, survey.ready), (RowCount::Exactly(8), 5, 0));
    fixture.run("update outbox set available_at = 'infinity'").await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.not_due, survey.due_in()), (6, None), "its time never comes");
}

#[tokio::test]
async fn without_a_column_of_the_time_rows_that_are_not_due_are_told_apart_too() {
    let table = "create table outbox (id bigint primary key generated always as identity, \
        aggregate_type text not null default 'order', aggregate_id text, \
        event_type text not null default 'placed', payload jsonb default '{}', \
        available_at timestamptz, published_at timestamptz)";
    let fixture = Fixture::new(table).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, available_at) values ('a', now() + interval '90 s')",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.not_due, survey.oldest()), (1, None), "{survey:?}");
    fixture.run("insert into outbox (aggregate_id) values ('b')").await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.pending, survey.oldest_seconds), (RowCount::Exactly(2), None));
    assert_eq!((survey.not_due, survey.ready), (1, 1));
}

#[tokio::test]
async fn more_rows_than_are_counted_are_at_least_so_many() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut worker = fixture.worker(polling()).await;
    let empty = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((empty.pending, empty.oldest_seconds), (RowCount::Exactly(0), None));
    fixture
        .run("insert into outbox (aggregate_id) select i from generate_series(1, 100002) i")
        .await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!(survey.pending, RowCount::AtLeast(100_000));
    assert_eq!(survey.failed, RowCount::Exactly(0));
}

#[tokio::test]
async fn a_table_has_a_size_and_its_oldest_row_an_age_where_an_index_finds_it() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, created_at, published_at) \
             select i, now() - interval '90 s', now() - interval '80 s' \
             from generate_series(1, 1000) i; analyze outbox; grant delete on outbox to router",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let rules = RemovalRules {
        keep: Duration::ZERO,
        time_column: None,
        batch: 10,
        lock_timeout: Duration::from_secs(2),
        scan: Scan::Whole,
    };
    for (index, bounds) in [
        ("", 0.0..0.1),
        ("create index on outbox (created_at)", 90.0..150.0),
        ("create index on outbox (published_at)", 80.0..150.0),
    ] {
        fixture.run(index).await;
        worker.database.describe(TABLE).await.unwrap();
        let removal = Removal::of(worker.database.table(TABLE).unwrap(), &rules).unwrap();
        let figures = worker.database.measure(TABLE, Some(&removal)).await.unwrap();
        assert_eq!(figures.rows, 1_000);
        assert!(figures.bytes > 8_192, "{}", figures.bytes);
        assert!(bounds.contains(&figures.oldest_seconds), "{}", figures.oldest_seconds);
    }
}

/// Workers go by a table's name, and its leases by its OID.
#[tokio::test]
async fn rows_that_are_pending_in_a_table_that_had_the_name_before_are_counted() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture.run("insert into outbox (aggregate_id) select i from generate_series(1, 7) i").await;
    let mut worker = fixture.worker(polling()).await;
    let mut leases = fixture.leases(worker.id, Duration::from_secs(600));
    leases.answer(&LeaseRequest::Hold { wanted: vec![64] }).await.unwrap();
    let rows = worker.fetch(3).await.rows;
    assert_eq!(worker.publish(&rows).await, 3);
    assert_eq!(worker.database.former().await.unwrap(), []);

    let swap = "alter table outbox rename to outbox_old; \
                create table outbox (like outbox_old including all); \
                grant select, update on outbox to router";
    fixture.run(swap).await;
    assert_eq!(worker.database.former().await.unwrap(), [], "a worker is alive that polls it");
    // No worker renews its lease of the former table.
    fixture.run("update outbox_router.worker set seen_until = now()").await;
    let found = worker.database.former().await.unwrap();
    let [(TABLE, failure)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(failure.case, Some(Case::FormerPending));
    assert!(failure.message.starts_with("4 rows are pending in public.outbox_old, "), "{failure}");

    // As a partition of the present table it has no rows of its own.
    let attached = "drop table outbox; \
        create table outbox (like outbox_old including defaults) partition by list (id); \
        alter table outbox attach partition outbox_old default";
    fixture.run(attached).await;
    assert_eq!(worker.database.former().await.unwrap(), []);
    fixture.run("alter table outbox detach partition outbox_old").await;
    assert_eq!(worker.database.former().await.unwrap().len(), 1);
    fixture.run("update outbox_old set published_at = now()").await;
    assert_eq!(worker.database.former().await.unwrap(), []);
    // The marks of the configured table do not fit, and the connection can be used again.
    let other = "update outbox_old set published_at = null; \
                 alter table outbox_old drop column published_at";
    fixture.run(other).await;
    assert_eq!(worker.database.former().await.unwrap(), []);
    assert!(worker.database.shares(&name()).await.is_ok());
}

/// Tools that keep partitions for a while detach them, whatever is pending there.
#[tokio::test]
async fn rows_that_are_pending_in_a_partition_that_was_detached_are_counted() {
    let table = "create table outbox (id bigint generated always as identity, \
        aggregate_type text not null default 'order', aggregate_id text, \
        event_type text not null default 'OrderPlaced', payload jsonb, \
        created_at timestamptz not null default now(), published_at timestamptz, n int, \
        primary key (id, n)) partition by list (n); \
        create table outbox_1 partition of outbox for values in (1); \
        create table outbox_2 partition of outbox for values in (2)";
    let fixture = Fixture::new(table).await;
    fixture.run("insert into outbox (aggregate_id, n) values ('a', 1), ('b', 1), ('c', 2)").await;
    let mut worker = fixture.worker(polling()).await;
    let mut leases = fixture.leases(worker.id, Duration::from_secs(600));
    let hold = || LeaseRequest::Hold { wanted: vec![64] };
    leases.answer(&hold()).await.unwrap();
    let noted = "select string_agg(relation::text, ' ' order by 1) from outbox_router.worker \
                 where holder = '00000000-0000-0000-0000-000000000000'";
    assert_eq!(fixture.value(noted).await, "outbox_1 outbox_2");
    assert_eq!(worker.database.former().await.unwrap(), [], "they are read by the table's name");

    fixture.run("alter table outbox detach partition outbox_1").await;
    let former = async |worker: &mut Worker| {
        let found = worker.database.former().await.unwrap();
        let [(TABLE, failure)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(failure.case, Some(Case::FormerPending));
        failure.message.clone()
    };
    let said = former(&mut worker).await;
    let expected = "whether rows are pending in public.outbox_1 is not known, which was a \
                    partition of a polled table, and is detached: ";
    assert!(said.starts_with(expected), "rights on the table are none on its partitions: {said}");
    fixture.run("grant select, update on outbox_1 to router").await;
    let said = former(&mut worker).await;
    assert!(said.starts_with("2 rows are pending in public.outbox_1, "), "{said}");
    // In another place of the same tree it is read again.
    let archive = "create table rest (like outbox including defaults) partition by list (n); \
                   alter table rest attach partition outbox_1 for values in (1)";
    fixture.run(archive).await;
    assert!(former(&mut worker).await.starts_with("2 rows"), "nobody polls the other table");
    fixture.run("update outbox_1 set published_at = now()").await;
    assert_eq!(worker.database.former().await.unwrap(), []);
    fixture.run("update outbox_1 set published_at = null; drop table rest").await;
    leases.answer(&hold()).await.unwrap();
    assert_eq!(fixture.value(noted).await, "outbox_2", "what was dropped is forgotten");
    for statement in setup::forget_statements(&name()) {
        fixture.run(&statement.sql).await;
    }
    assert_eq!(fixture.value("select count(*) from outbox_router.worker").await, "0");
}

/// By one's own marks nothing says which rows the other has not sent.
#[tokio::test]
async fn no_row_is_removed_from_a_table_that_another_pipeline_has_polled() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(worker.database.refuse_shared(TABLE).await, Ok(()));
    let mut leases = fixture.leases(worker.id, Duration::from_secs(600));
    let hold = || LeaseRequest::Hold { wanted: vec![64] };
    leases.answer(&hold()).await.unwrap();
    assert_eq!(worker.database.refuse_shared(TABLE).await, Ok(()), "its own workers");
    let long_gone = "insert into outbox_router.worker select relation, gen_random_uuid(), n, \
         now() - interval '1 day', 1 from outbox_router.worker, (values ('w'), ('other')) v (n)";
    fixture.run(long_gone).await;
    leases.answer(&hold()).await.unwrap();
    let names = "select string_agg(name, ' ' order by name) from outbox_router.worker";
    assert_eq!(fixture.value(names).await, "other w", "its own are forgotten");
    let failure = worker.database.refuse_shared(TABLE).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::RetentionPolled));
    assert!(failure.message.contains("was polled by workers of other, too"), "{failure}");
    for statement in setup::forget_own_statements(&name(), "w") {
        fixture.run(&statement.sql).await;
    }
    assert_eq!(fixture.value(names).await, "other");
    assert_eq!(fixture.value("select count(*) from outbox_router.lease").await, "64");
    for statement in setup::forget_own_statements(&name(), "other") {
        fixture.run(&statement.sql).await;
    }
    assert_eq!(fixture.value("select count(*) from outbox_router.lease").await, "0");
    assert_eq!(worker.database.refuse_shared(TABLE).await, Ok(()));
}

/// The outbox whose rows would go is partitioned, and a table between the two is none.
#[tokio::test]
async fn no_row_is_removed_with_which_rows_of_an_outbox_go() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut worker = fixture.worker(polling()).await;
    let between = "create table letter (id bigint unique references outbox (id) on delete cascade)";
    fixture.run(between).await;
    assert_eq!(worker.database.refuse_shared(TABLE).await, Ok(()));
    let copy = "create table copy (letter bigint references letter (id) on delete cascade) \
                partition by list (letter); create table copy_1 partition of copy default";
    fixture.run(copy).await;
    assert_eq!(worker.database.refuse_shared(TABLE).await, Ok(()));
    let polled = "insert into outbox_router.worker values \
                  ('copy'::regclass, gen_random_uuid(), 'bills', now(), 1)";
    fixture.run(polled).await;
    let failure = worker.database.refuse_shared(TABLE).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::RetentionCascades));
    assert!(failure.message.contains("deletes rows of public.copy with those of "), "{failure}");
}

/// Rows that are sent leave at once.
#[tokio::test]
async fn a_table_is_not_polled_whose_marks_delete_later_rows() {
    let fixture = Fixture::new(&default_table("")).await;
    let cause = "alter table outbox add cause bigint references outbox (id) on delete cascade";
    fixture.run(cause).await;
    fixture.grant(Deletes::Yes).await;
    let mark = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
    let mut worker = Worker::new(fixture.connector(), polling().with_mark(mark));
    let failure = worker.database.describe(TABLE).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::RetentionCascades));
    fixture.run("alter table outbox drop constraint outbox_cause_fkey").await;
    worker.database.describe(TABLE).await.unwrap();
}
