//! The shards of a table belong to one worker each.

use std::time::Duration;

use outbox_router::polling::sql::LeaseTable;
use relay::{
    Case, Code, TableName,
    polling::{LeaseRequest, Leases, ShardSet, Share},
};
use uuid::Uuid;

use crate::fixture::{Connector, Fixture, default_table, name, polling};

const LEASE: Duration = Duration::from_secs(10);

const fn hold(wanted: Vec<u32>) -> LeaseRequest {
    LeaseRequest::Hold { wanted }
}

async fn fixture() -> Fixture {
    Fixture::new(&default_table(", published_at timestamptz")).await
}

fn held(leases: &Leases) -> ShardSet {
    leases.tables[0].held
}

/// How many workers the only table has.
fn workers(leases: &Leases) -> u32 {
    leases.tables[0].workers
}

fn share(leases: &Leases) -> Share {
    leases.tables[0].share
}

fn together(sets: &[ShardSet]) -> ShardSet {
    sets.iter().flat_map(|set| set.iter()).collect()
}

#[tokio::test]
async fn shares_are_disjoint_and_cover_all_and_shrink_for_a_third_worker() {
    let fixture = fixture().await;
    let mut a = fixture.leases(Uuid::new_v4(), LEASE);
    let mut b = fixture.leases(Uuid::new_v4(), LEASE);
    let mut c = fixture.leases(Uuid::new_v4(), LEASE);
    let first = a.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&first), workers(&first)), (ShardSet::ALL, 1));
    assert_eq!(first.tables[0].next_end, None, "there is no other worker");
    let second = b.answer(&hold(vec![32])).await.unwrap();
    assert_eq!((held(&second).len(), workers(&second)), (0, 2));
    let end = second.tables[0].next_end.expect("the first one's lease");
    assert!(!end.is_zero() && end <= LEASE, "{end:?}");
    let smaller = a.answer(&hold(vec![32])).await.unwrap();
    assert_eq!((held(&smaller).len(), workers(&smaller)), (32, 2));
    let taken = b.answer(&hold(vec![32])).await.unwrap();
    assert_eq!(together(&[held(&smaller), held(&taken)]), ShardSet::ALL);
    assert_eq!(held(&taken).len(), 32);
    let third = c.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&third).len(), workers(&third)), (0, 3));
    let shares = [
        held(&a.answer(&hold(vec![22])).await.unwrap()),
        held(&b.answer(&hold(vec![22])).await.unwrap()),
        held(&c.answer(&hold(vec![22])).await.unwrap()),
    ];
    assert_eq!(shares.map(ShardSet::len), [22, 22, 20]);
    assert_eq!(together(&shares), ShardSet::ALL);
}

/// Rows that one leaves out by its `where` would wait for ever where it has their keys.
#[tokio::test]
async fn workers_of_another_configuration_are_given_nothing() {
    let fixture = fixture().await;
    let named = |id: Uuid, name: &str| {
        let tables = vec![crate::fixture::name()];
        LeaseTable::new(fixture.connector(), tables, id, name.to_owned(), LEASE)
    };
    let first = Uuid::new_v4();
    let (mut a, mut b) = (named(first, "a"), named(Uuid::new_v4(), "b"));
    let refused = async |worker: &mut LeaseTable<Connector>| {
        let failure = worker.answer(&hold(vec![64])).await.unwrap_err();
        assert_eq!(failure.case, Some(Case::PolledByOther), "{failure}");
    };
    assert_eq!(held(&b.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    refused(&mut a).await;
    let renewed = b.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&renewed), workers(&renewed)), (ShardSet::ALL, 1), "it shares with nobody");
    let names = "select string_agg(name, ' ') from outbox_router.worker";
    assert_eq!(fixture.value(names).await, "b", "who was given nothing has marked nothing");
    // Two that began at the same time.
    let both = format!(
        "insert into outbox_router.worker values ('outbox', '{first}', 'a', now(), 0); \
         update outbox_router.lease set holder = '{first}' where shard < 32"
    );
    fixture.run(&both).await;
    let drained = b.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&drained).len(), share(&drained)), (32, Share::None), "it may be at work");
    assert!(b.answer(&hold(vec![0])).await.is_err(), "all of it is given back");
    refused(&mut b).await;
    assert_eq!(held(&a.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    // A lease that has ended refuses no worker.
    fixture.run("update outbox_router.lease set expires_at = now()").await;
    assert_eq!(held(&b.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    refused(&mut a).await;
}

/// Each would mark rows that the other one has, and deliver the rest.
#[tokio::test]
async fn a_partition_and_its_parent_are_polled_by_one_worker_alone() {
    let fixture = fixture().await;
    let parts = "create table parts (like outbox) partition by list (aggregate_id); \
                 create table one partition of parts for values in ('1'); \
                 create table two partition of parts for values in ('2')";
    fixture.run(parts).await;
    let polled = |tables: &[&str], name: &str| {
        let table = |name: &&str| TableName { schema: "public".into(), name: (*name).into() };
        let tables: Vec<TableName> = tables.iter().map(table).collect();
        LeaseTable::new(fixture.connector(), tables, Uuid::new_v4(), name.to_owned(), LEASE)
    };
    for [first, second] in [["parts", "one"], ["one", "parts"]] {
        for name in ["a", "b"] {
            fixture.run("truncate outbox_router.lease, outbox_router.worker").await;
            let (mut a, mut other) = (polled(&[first], "a"), polled(&[second], name));
            assert_eq!(held(&a.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
            let refused = other.answer(&hold(vec![64])).await.unwrap_err();
            assert_eq!(refused.case, Some(Case::PolledByOther), "{second}: {refused}");
            assert_eq!(held(&a.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
        }
    }
    fixture.run("truncate outbox_router.lease, outbox_router.worker").await;
    for (table, name) in [("one", "a"), ("two", "b")] {
        let held = held(&polled(&[table], name).answer(&hold(vec![64])).await.unwrap());
        assert_eq!(held, ShardSet::ALL, "{table} has rows of its own");
    }
}

#[tokio::test]
async fn a_lease_ends_by_the_servers_clock_or_is_given_back() {
    let fixture = fixture().await;
    let short = Duration::from_secs(1);
    let mut a = fixture.leases(Uuid::new_v4(), short);
    let mut b = fixture.leases(Uuid::new_v4(), LEASE);
    assert_eq!(held(&a.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    assert!(held(&b.answer(&hold(vec![64])).await.unwrap()).is_empty());
    // Renewed, it lasts.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(held(&a.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(held(&b.answer(&hold(vec![64])).await.unwrap()).is_empty());
    tokio::time::sleep(Duration::from_millis(700)).await;
    let taken = b.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&taken), workers(&taken)), (ShardSet::ALL, 1));
    assert!(held(&a.answer(&hold(vec![64])).await.unwrap()).is_empty());
    let released = b.answer(&LeaseRequest::Release).await.unwrap();
    assert!(held(&released).is_empty());
    let again = a.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&again), workers(&again)), (ShardSet::ALL, 1));
}

#[tokio::test]
async fn workers_that_are_long_gone_are_forgotten() {
    let fixture = fixture().await;
    fixture
        .run(
            "insert into outbox_router.worker select 'outbox'::regclass, gen_random_uuid(), 'w', \
             now() - make_interval(mins => i * 45), 1 from generate_series(1, 2) i",
        )
        .await;
    let mut a = fixture.leases(Uuid::new_v4(), LEASE);
    assert_eq!(workers(&a.answer(&hold(vec![64])).await.unwrap()), 1);
    assert_eq!(fixture.value("select count(*) from outbox_router.worker").await, "2");
}

/// What is given up, since no answer came, may be carried out after the next request.
#[tokio::test]
async fn a_request_that_is_overtaken_does_nothing() {
    let fixture = fixture().await;
    let worker = Uuid::new_v4();
    let mut early = fixture.leases(worker, LEASE);
    let mut late = fixture.leases(worker, LEASE);
    assert_eq!(held(&early.answer(&hold(vec![16])).await.unwrap()).len(), 16);
    let mine = "select count(*) from outbox_router.lease where holder is not null";
    for _ in 0..3 {
        assert_eq!(held(&late.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    }
    // Its second request comes after a third: it gives nothing back.
    assert!(held(&early.answer(&hold(vec![1])).await.unwrap()).is_empty());
    assert_eq!(fixture.value(mine).await, "64");
    // Nor does it take anything after all was given back.
    late.answer(&LeaseRequest::Release).await.unwrap();
    assert!(held(&early.answer(&hold(vec![64])).await.unwrap()).is_empty());
    assert_eq!(fixture.value(mine).await, "0");
}

#[tokio::test]
async fn eight_workers_that_ask_at_once_never_have_a_shard_twice() {
    let fixture = fixture().await;
    let mut workers: Vec<_> = (0..8).map(|_| fixture.leases(Uuid::new_v4(), LEASE)).collect();
    let mut covered = 0;
    for round in 0..60_u32 {
        let mut answers = tokio::task::JoinSet::new();
        for (place, mut worker) in std::mem::take(&mut workers).into_iter().enumerate() {
            // Each wants something else each time, so that shards go round; at times all.
            let turn = (u32::try_from(place).unwrap() * 7 + round * 5) % 16;
            let request = match (round % 6, turn) {
                (5, _) => hold(vec![8]),
                (_, 0) => LeaseRequest::Release,
                (_, wanted) => hold(vec![wanted]),
            };
            answers.spawn(async move {
                let leases = worker.answer(&request).await.unwrap();
                (worker, leases)
            });
        }
        // What a worker is told stays true to the end of the round: others take only what is free.
        let mut told = ShardSet::NONE;
        while let Some(answer) = answers.join_next().await {
            let (worker, leases) = answer.unwrap();
            for shard in held(&leases).iter() {
                assert!(!told.contains(shard), "round {round}: shard {shard} twice");
                told = told.with(shard);
                covered += 1;
            }
            workers.push(worker);
        }
        // Nobody asks now: what each is told by renewing what it has is disjoint.
        let mut seen = ShardSet::NONE;
        for worker in &mut workers {
            let leases = worker.answer(&hold(vec![64])).await.unwrap();
            let own = held(&leases);
            assert!(own.iter().all(|shard| !seen.contains(shard)), "round {round}: {own:?}");
            seen = together(&[seen, own]);
        }
        assert_eq!(seen, ShardSet::ALL);
        for worker in &mut workers {
            worker.answer(&hold(vec![8])).await.unwrap();
        }
    }
    assert!(covered > 1_000, "{covered}");
}

/// As `outbox-router switch` does it.
#[tokio::test]
async fn a_table_that_is_handed_over_is_given_back_and_taken_by_who_hands_it_over() {
    let fixture = fixture().await;
    let own = Uuid::new_v4();
    let mut worker = fixture.leases(Uuid::new_v4(), LEASE);
    let mut command = fixture.leases(own, LEASE);
    assert_eq!(held(&worker.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    let close = format!(
        "insert into outbox_router.switch (relation, state, holder, \"by\") \
         values ('public.outbox'::regclass, 'closing', '{own}', 'ann')"
    );
    fixture.run(&close).await;
    let busy = worker.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&busy), share(&busy)), (ShardSet::ALL, Share::None), "it keeps what it has");
    let waits = command.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&waits), workers(&waits), share(&waits)), (ShardSet::NONE, 1, Share::Equal));
    let idle = worker.answer(&hold(vec![0])).await.unwrap();
    assert_eq!((held(&idle), share(&idle)), (ShardSet::NONE, Share::None));
    let refused = worker.answer(&hold(vec![64])).await.unwrap();
    assert_eq!(held(&refused), ShardSet::NONE, "it gets nothing while the table is handed over");
    assert_eq!(held(&command.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);

    for (state, said) in [
        ("sent", "public.outbox is being handed to the stream"),
        ("stream", "public.outbox was handed to the stream by ann"),
        ("marked", "public.outbox is being given back to the workers"),
    ] {
        fixture.run(&format!("update outbox_router.switch set state = '{state}'")).await;
        let failure = worker.answer(&hold(vec![64])).await.unwrap_err();
        assert_eq!(failure.code, Code::Switched);
        assert!(failure.message.contains(said), "{state}: {}", failure.message);
    }
    command.answer(&LeaseRequest::Release).await.unwrap();
    fixture.run("delete from outbox_router.switch").await;
    let again = worker.answer(&hold(vec![64])).await.unwrap();
    assert_eq!((held(&again), share(&again)), (ShardSet::ALL, Share::Equal));
}

/// As after `postgres.source` was set to `"polling"`, and no switch was typed.
#[tokio::test]
async fn a_table_that_a_slot_streams_is_taken_when_a_switch_has_dropped_it() {
    let (fixture, mut both) = two_tables().await;
    let stream = "create publication shop for table outbox";
    fixture.run(stream).await;
    fixture.run("select pg_create_logical_replication_slot('shop', 'pgoutput')").await;
    let (mut late, mut early) =
        (fixture.leases(Uuid::new_v4(), LEASE), fixture.leases(Uuid::new_v4(), LEASE));
    let failure = late.answer(&hold(vec![64])).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::StillStreamed), "{failure}");
    assert!(failure.message.contains("public.outbox is streamed by slot shop"), "{failure}");
    let mut database = fixture.worker(polling()).await.database;
    let handed = database.shares(&name()).await.unwrap().handed.expect("status says it, too");
    assert_eq!(handed.case, Some(Case::StillStreamed));
    // The publication does not have the other table.
    let told = both.answer(&hold(vec![64, 64])).await.unwrap();
    let told: Vec<_> = told.tables.iter().map(|table| table.held.len()).collect();
    assert_eq!(told, [0, 64]);
    for (free, back) in [
        (
            "select pg_drop_replication_slot('shop')",
            "select pg_create_logical_replication_slot('shop', 'pgoutput')",
        ),
        ("drop publication shop", stream),
        (
            "insert into outbox_router.switch (relation, state, holder, \"by\") \
          values ('outbox'::regclass, 'closing', gen_random_uuid(), 'ann')",
            "delete from outbox_router.switch",
        ),
    ] {
        fixture.run(free).await;
        let mut worker = fixture.leases(Uuid::new_v4(), LEASE);
        assert!(worker.answer(&hold(vec![1])).await.is_ok(), "{free}");
        worker.answer(&LeaseRequest::Release).await.unwrap();
        fixture.run(back).await;
        let refused = late.answer(&hold(vec![64])).await.unwrap_err();
        assert_eq!(refused.case, Some(Case::StillStreamed), "{back}");
    }
    fixture.run("drop publication shop").await;
    assert_eq!(held(&early.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    // A stream that is made later is refused itself.
    fixture.run(stream).await;
    assert_eq!(held(&early.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    assert!(database.shares(&name()).await.unwrap().handed.is_none());
}

/// Nobody has held the table meanwhile, so the stream was not refused.
#[tokio::test]
async fn a_worker_whose_lease_has_ended_looks_for_a_stream_before_it_goes_on() {
    let fixture = fixture().await;
    let mut worker = fixture.leases(Uuid::new_v4(), Duration::from_millis(300));
    assert_eq!(held(&worker.answer(&hold(vec![64])).await.unwrap()), ShardSet::ALL);
    fixture.run("create publication shop for table outbox").await;
    fixture.run("select pg_create_logical_replication_slot('shop', 'pgoutput')").await;
    let has_ended = "select bool_and(expires_at < clock_timestamp()) from outbox_router.lease";
    while fixture.value(has_ended).await != "t" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let failure = worker.answer(&hold(vec![64])).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::StillStreamed), "{failure}");
}

/// A server with a second table, and a worker of both.
async fn two_tables() -> (Fixture, LeaseTable<Connector>) {
    let fixture = fixture().await;
    fixture.run(&default_table("").replace("table outbox", "table other")).await;
    let other = TableName { name: "other".to_owned(), ..name() };
    let tables = vec![name(), other];
    let both = LeaseTable::new(fixture.connector(), tables, Uuid::new_v4(), "w".to_owned(), LEASE)
        .unless_streamed(polling().settings.stream);
    (fixture, both)
}

/// As while a table is added to the configurations of the workers, one after the other.
#[tokio::test]
async fn workers_of_a_table_are_counted_without_those_that_poll_another_one() {
    let (fixture, mut both) = two_tables().await;
    let mut one = fixture.leases(Uuid::new_v4(), LEASE);
    one.answer(&hold(vec![64])).await.unwrap();
    let leases = both.answer(&hold(vec![64, 64])).await.unwrap();
    let told: Vec<_> =
        leases.tables.iter().map(|table| (table.held.len(), table.workers)).collect();
    assert_eq!(told, [(0, 2), (64, 1)]);
    one.answer(&hold(vec![32])).await.unwrap();
    let leases = both.answer(&hold(vec![32, 64])).await.unwrap();
    let told: Vec<_> =
        leases.tables.iter().map(|table| (table.held.len(), table.workers)).collect();
    assert_eq!(told, [(32, 2), (64, 1)]);
    let leases = both.answer(&LeaseRequest::Release).await.unwrap();
    let told: Vec<_> = leases.tables.iter().map(|table| table.workers).collect();
    assert_eq!(told, [1, 0]);
}

/// One that cannot read it wants nothing of it.
#[tokio::test]
async fn a_worker_that_wants_nothing_of_a_table_leaves_the_whole_of_it() {
    let fixture = fixture().await;
    let [mut able, mut other] = [0; 2].map(|_| fixture.leases(Uuid::new_v4(), LEASE));
    for (wanted, workers_of_other, workers_of_able) in [(32, 1, 2), (0, 1, 1), (32, 2, 2)] {
        let told = other.answer(&hold(vec![wanted])).await.unwrap();
        assert_eq!(workers(&told).max(1), workers_of_other, "{wanted}");
        let told = able.answer(&hold(vec![64])).await.unwrap();
        assert_eq!(workers(&told), workers_of_able, "{wanted}");
        able.answer(&hold(vec![32])).await.unwrap();
    }
}

#[tokio::test]
async fn a_table_that_is_handed_over_takes_no_other_one_with_it() {
    let (fixture, mut both) = two_tables().await;
    both.answer(&hold(vec![64, 64])).await.unwrap();
    let close = "insert into outbox_router.switch (relation, state, holder, \"by\") \
                 values ('public.outbox'::regclass, 'closing', gen_random_uuid(), 'ann')";
    fixture.run(close).await;
    let told = |leases: &Leases| -> Vec<_> {
        leases.tables.iter().map(|table| (table.held.len(), table.share)).collect()
    };
    let busy = both.answer(&hold(vec![64, 64])).await.unwrap();
    assert_eq!(told(&busy), [(64, Share::None), (64, Share::Equal)]);
    let idle = both.answer(&hold(vec![0, 64])).await.unwrap();
    assert_eq!(told(&idle), [(0, Share::None), (64, Share::Equal)]);
    // The other table is polled on, also when this one is streamed.
    fixture.run("update outbox_router.switch set state = 'stream'").await;
    let streamed = both.answer(&hold(vec![64, 64])).await.unwrap();
    assert_eq!(told(&streamed), [(0, Share::None), (64, Share::Equal)]);
    fixture.run(&close.replace("public.outbox", "public.other")).await;
    fixture.run("update outbox_router.switch set state = 'stream'").await;
    assert_eq!(both.answer(&hold(vec![0, 0])).await.unwrap_err().code, Code::Switched);
}

/// As after a `switch stream` of one table alone, while another one is switched.
#[tokio::test]
async fn a_table_that_is_handed_over_is_given_back_beside_one_that_is_streamed() {
    let (fixture, mut both) = two_tables().await;
    both.answer(&hold(vec![64, 64])).await.unwrap();
    let close = "insert into outbox_router.switch (relation, state, holder, \"by\") \
                 values ('public.outbox'::regclass, 'closing', gen_random_uuid(), 'ann')";
    fixture.run(close).await;
    both.answer(&hold(vec![0, 64])).await.unwrap();
    fixture.run("update outbox_router.switch set state = 'stream'").await;
    fixture.run(&close.replace("public.outbox", "public.other")).await;
    let told = |leases: &Leases| -> Vec<_> {
        leases.tables.iter().map(|table| (table.held.len(), table.share)).collect()
    };
    let busy = both.answer(&hold(vec![0, 64])).await.unwrap();
    assert_eq!(told(&busy), [(0, Share::None), (64, Share::None)], "it learns of the other one");
    let idle = both.answer(&hold(vec![0, 0])).await.unwrap();
    assert_eq!(told(&idle), [(0, Share::None), (0, Share::None)]);
    fixture.run("update outbox_router.switch set state = 'stream'").await;
    assert_eq!(both.answer(&hold(vec![0, 0])).await.unwrap_err().code, Code::Switched);
}
