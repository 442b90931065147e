//! What fetch and settle read of a table with a million published rows: nothing of those.

use std::time::Duration;

use outbox_router::polling::sql::IndexTrouble;
use relay::{
    FilterKind, RowFilter,
    polling::{FetchRequest, PassedOver, RowOutcome, SettleRequest, ShardSet},
    testing::sent,
};

use crate::fixture::{Fixture, Polling, TABLE, Worker, default_table, failed, polling};

const PENDING: u32 = 5_000;

/// A table of a million published rows, and some pending.
async fn million(more: &str, published: &str) -> Fixture {
    let explain =
        [("session_preload_libraries", "auto_explain"), ("auto_explain.log_min_duration", "0")];
    let fixture = Fixture::with_settings(&explain, &default_table(more)).await;
    fixture
        .run(&format!(
            "set synchronous_commit = off; \
             alter table outbox set (autovacuum_enabled = off); \
             insert into outbox (aggregate_id, {published}) \
             select i % 1000, {} from generate_series(1, 1000000) i; \
             insert into outbox (aggregate_id) select i % 1000 from generate_series(1, {PENDING}) i",
            match published {
                "status" => "'published'",
                _ => "now()",
            }
        ))
        .await;
    fixture
}

/// How many rows were read: by scans of the table, by scans of indexes.
async fn read(fixture: &Fixture) -> (u64, u64) {
    // Counters reach the view when the session that read has ended or is idle for a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let counters = "select seq_scan || ' ' || (select sum(idx_tup_read) \
                    from pg_stat_user_indexes where relname = 'outbox') \
                    from pg_stat_user_tables where relname = 'outbox'";
    let text = fixture.value(counters).await;
    let (scans, rows) = text.split_once(' ').unwrap();
    (scans.parse().unwrap(), rows.parse().unwrap())
}

/// The plans of all statements that were run since, as EXPLAIN shows them, from the server's log.
struct Plans {
    from: usize,
}

impl Plans {
    fn since_now(fixture: &Fixture) -> Self {
        Self { from: std::fs::read_to_string(fixture.server.log()).unwrap().len() }
    }

    /// None of them reads the whole table, and so many use an index that `setup` has made.
    fn use_indexes(&self, fixture: &Fixture, at_least: usize) {
        let log = std::fs::read_to_string(fixture.server.log()).unwrap();
        let plans = &log[self.from..];
        let scan = plans.find("Seq Scan on outbox");
        let around = scan.map(|at| &plans[at.saturating_sub(3_000)..(at + 500).min(plans.len())]);
        assert_eq!(around, None, "the table is read as a whole");
        let found = plans.matches("using outbox_router_").count()
            + plans.matches("Bitmap Index Scan on outbox_router_").count();
        assert!(found >= at_least, "{found} of {at_least} plans in\n{plans}");
    }
}

/// Reads and marks all pending rows but those of failures, and counts what that reads.
async fn drain(fixture: &Fixture, mut worker: Worker) {
    let (before, plans) = (read(fixture).await, Plans::since_now(fixture));
    let (mut published, mut rounds) = (0, 0);
    loop {
        let half: ShardSet = if rounds < 3 { (0..32).collect() } else { ShardSet::ALL };
        let passed_over = PassedOver::Keys(vec![Some("7".into()), None, Some("8".into())]);
        let request = FetchRequest { table: TABLE, shards: half, limit: 1_000, passed_over };
        let fetched = worker.database.fetch(&request).await.unwrap();
        rounds += 1;
        if fetched.rows.is_empty() {
            break;
        }
        let published_now = fetched.rows[1..].iter().map(sent).collect();
        let outcome = RowOutcome::Retry(Duration::from_secs(600));
        let failed = vec![failed(&fetched.rows[0], 1, outcome)];
        let request = SettleRequest { published: published_now, failed, ..worker.nothing() };
        published += worker.settle(request).await;
        if rounds > 20 {
            break;
        }
    }
    worker.database.survey(TABLE).await.unwrap();
    drop(worker);
    let after = read(fixture).await;
    // At least one of each reading, and those of the survey.
    plans.use_indexes(fixture, rounds + 1);
    assert!(published > 4_000, "{published}");
    assert_eq!(after.0 - before.0, 0, "the table was scanned");
    // A row is met once or twice when it is read, once when it is locked, once when it is marked,
    // and dead versions of those before it, until they are known to be dead.
    assert!(after.1 - before.1 < 150_000, "{} rows were read", after.1 - before.1);
}

#[tokio::test]
async fn a_tick_over_a_million_published_rows_reads_only_pending_ones() {
    let fixture = million(", published_at timestamptz", "published_at").await;
    let mut worker = fixture.worker(polling()).await;
    let before = read(&fixture).await;
    assert_eq!(worker.fetch(1).await.rows.len(), 1);
    fixture.make_indexes(&worker).await;
    drop(worker);
    let without = read(&fixture).await;
    let is_whole = without.0 > before.0 || without.1 > before.1 + 1_000_000;
    assert!(is_whole, "without an index, and read: {before:?} {without:?}");
    let worker = fixture.worker(polling()).await;
    drain(&fixture, worker).await;
}

#[tokio::test]
async fn claims_and_held_keys_read_only_open_rows() {
    let more = ", status text not null default 'pending', attempts int not null default 0, \
        available_at timestamptz default now(), last_error text, locked_by text, \
        locked_until timestamptz";
    let fixture = million(more, "status").await;
    let worker = fixture.worker(polling()).await;
    fixture.make_indexes(&worker).await;
    let worker = fixture.worker(polling()).await;
    drain(&fixture, worker).await;
    let index = "select count(*) from pg_indexes where tablename = 'outbox' \
                 and indexname like 'outbox_router_%'";
    assert_eq!(fixture.value(index).await, "2");
}

#[tokio::test]
#[ignore = "a measurement"]
async fn how_many_rows_a_second_are_read_and_marked() {
    for (what, more) in [
        ("a time", ", published_at timestamptz"),
        (
            "claims",
            ", status text not null default 'pending', attempts int not null default 0, \
             available_at timestamptz default now(), last_error text, locked_by text, \
             locked_until timestamptz",
        ),
    ] {
        let fixture = Fixture::new(&default_table(more)).await;
        let insert = "insert into outbox (aggregate_id, payload) \
            select i % 1000, jsonb_build_object('text', repeat('x', 300)) \
            from generate_series(1, 100000) i";
        fixture.run(insert).await;
        let worker = fixture.worker(polling()).await;
        fixture.make_indexes(&worker).await;
        let mut worker = fixture.worker(polling()).await;
        let (mut reading, mut marking, mut rows) = (Duration::ZERO, Duration::ZERO, 0);
        loop {
            let begin = tokio::time::Instant::now();
            let fetched = worker.fetch(1_000).await;
            reading += begin.elapsed();
            if fetched.rows.is_empty() {
                break;
            }
            let begin = tokio::time::Instant::now();
            rows += worker.publish(&fetched.rows).await;
            marking += begin.elapsed();
        }
        let rate = f64::from(u32::try_from(rows).unwrap()) / (reading + marking).as_secs_f64();
        println!("{what}: {rows} rows, read in {reading:?}, marked in {marking:?}, {rate:.0}/s");
    }
}

/// After a change of marks or filter, an index of the same name is another one.
#[tokio::test]
async fn an_index_that_was_made_for_other_marks_is_made_again() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let troubles = async |polling: Polling| {
        let worker = fixture.worker(polling).await;
        let work = worker.database.table(TABLE).unwrap().index_work();
        (worker, work.into_iter().map(|work| work.trouble).collect::<Vec<_>>())
    };
    let outdated =
        |kind: &str| IndexTrouble::Outdated(format!("\"public\".\"outbox_router_{kind}_outbox\""));
    let (worker, found) = troubles(polling()).await;
    assert_eq!(found, [IndexTrouble::Missing]);
    fixture.make_indexes(&worker).await;
    assert_eq!(troubles(polling()).await.1, []);

    fixture.run("alter table outbox add abandoned_at timestamptz").await;
    let (worker, found) = troubles(polling()).await;
    assert_eq!(found, [outdated("pending"), IndexTrouble::Missing], "of waiting rows, too");
    fixture.make_indexes(&worker).await;
    assert_eq!(troubles(polling()).await.1, []);

    let mut filtered = polling();
    let values = vec!["order".to_owned()];
    let column = "aggregate_type".to_owned();
    filtered.config.outbox.filter = Some(RowFilter { column, values, kind: FilterKind::In });
    let (worker, found) = troubles(filtered.clone()).await;
    assert_eq!(found, [outdated("pending")]);
    fixture.make_indexes(&worker).await;
    assert_eq!(troubles(filtered).await.1, []);
}

/// Rows that the filter leaves out are never marked: without it in the index each reading would
/// meet all of them.
#[tokio::test]
async fn rows_that_a_filter_leaves_out_are_not_read_again_and_again() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture
        .run(
            "set synchronous_commit = off; insert into outbox (aggregate_type, aggregate_id) \
             select 'other', i % 1000 from generate_series(1, 200000) i; \
             insert into outbox (aggregate_id) select i from generate_series(1, 10) i; \
             analyze outbox",
        )
        .await;
    let mut polling = polling();
    let (column, values) = ("aggregate_type".to_owned(), vec!["order".to_owned()]);
    polling.config.outbox.filter = Some(RowFilter { column, values, kind: FilterKind::In });
    let worker = fixture.worker(polling.clone()).await;
    fixture.make_indexes(&worker).await;
    drop(worker);
    let mut worker = fixture.worker(polling).await;
    let before = read(&fixture).await;
    assert_eq!(worker.fetch(100).await.rows.len(), 10);
    drop(worker);
    let after = read(&fixture).await;
    assert_eq!(after.0, before.0, "the table was scanned");
    assert!(after.1 - before.1 < 1_000, "{} rows were read", after.1 - before.1);
}
